// SPDX-License-Identifier: Apache-2.0
// Zooms a timeline and saves the data. The page is complete without it.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

  // as moment_text in profiler/html/charts/scale.py
  function moment(at, step, whole) {
    if (whole <= 180 || step < 1) return `${Number(at.toFixed(6))} s`;
    const seconds = Math.round(at);
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }

  function stepFor(span) {
    const least = span / 8;
    if (least > 1) return STEPS.find((each) => each >= least) || STEPS[STEPS.length - 1];
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least * 0.999);
  }

  function make(name, attributes, parent) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    parent.append(element);
    return element;
  }

  function button(label, title, act, parent) {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = label;
    element.title = title;
    element.addEventListener("click", act);
    parent.append(element);
    return element;
  }

  function zoomable(figure) {
    const drawing = figure.querySelector("svg.drawing");
    const plots = [...drawing.querySelectorAll("svg.plot")];
    const moments = drawing.querySelector(".moments");
    const { whole: wholeText, left: leftText, width: widthText, bottom: bottomText } = drawing.dataset;
    const [whole, left, width, bottom] = [wholeText, leftText, widthText, bottomText].map(Number);
    const heights = plots.map((plot) => Number(plot.getAttribute("height")));
    const least = whole / 200;
    let from = 0;
    let to = whole;

    const tools = document.createElement("div");
    tools.className = "tools";
    figure.prepend(tools);
    const zoomIn = button("Zoom in", "Show half of the time", () => around(0.5), tools);
    const zoomOut = button("Zoom out", "Show twice the time", () => around(2), tools);
    const earlier = button("Earlier", "Show the time before", () => move(-0.5), tools);
    const later = button("Later", "Show the time after", () => move(0.5), tools);
    const all = button("Whole run", "Show everything", () => show(0, whole), tools);
    const status = document.createElement("span");
    status.setAttribute("role", "status");
    tools.append(status);

    function around(factor) {
      const middle = (from + to) / 2;
      const half = ((to - from) * factor) / 2;
      show(middle - half, middle + half);
    }

    function move(share) {
      const by = (to - from) * share;
      show(from + by, to + by);
    }

    function show(begin, end) {
      const span = Math.min(whole, Math.max(least, end - begin));
      from = Math.min(Math.max(0, begin), whole - span);
      to = from + span;
      plots.forEach((plot, at) => {
        const box = [(from / whole) * width, 0, (span / whole) * width, heights[at]];
        plot.setAttribute("viewBox", box.map((each) => each.toFixed(3)).join(" "));
      });
      ticks(span);
      zoomIn.disabled = span <= least;
      zoomOut.disabled = all.disabled = span >= whole;
      earlier.disabled = from <= 0;
      later.disabled = to >= whole - 1e-9;
      const step = stepFor(span) < 1 ? stepFor(span) / 10 : 1;
      const shown = [from, to].map((at) => moment(Math.round(at / step) * step, step, whole));
      status.textContent = span >= whole ? "Drag over the chart to zoom." : `${shown[0]} to ${shown[1]}`;
    }

    function ticks(span) {
      const step = stepFor(span);
      moments.replaceChildren();
      for (let at = Math.ceil(from / step - 1e-9) * step; at <= to + step * 1e-6; at += step) {
        const x = (left + ((at - from) / span) * width).toFixed(1);
        make("line", { x1: x, x2: x, y1: bottom, y2: bottom + 5, class: "axis" }, moments);
        const text = make("text", { x, y: bottom + 20, class: "tick", "text-anchor": "middle" }, moments);
        text.textContent = moment(at, step, whole);
      }
    }

    // A drag over a plot selects a time.
    let begun = null;
    let band = null;
    function share(event) {
      const box = drawing.getBoundingClientRect();
      const units = drawing.viewBox.baseVal.width;
      const x = ((event.clientX - box.left) / box.width) * units;
      return Math.min(1, Math.max(0, (x - left) / width));
    }
    drawing.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !event.target.closest("svg.plot, .drawing")) return;
      const at = share(event);
      if (at <= 0 || at >= 1) return;
      begun = at;
      band = make("rect", { x: 0, y: 0, width: 0, height: bottom, class: "selection" }, drawing);
      drawing.setPointerCapture(event.pointerId);
    });
    drawing.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      const at = share(event);
      band.setAttribute("x", left + Math.min(begun, at) * width);
      band.setAttribute("width", Math.abs(at - begun) * width);
    });
    function end(event) {
      if (begun === null) return;
      const ends = [begun, share(event)].sort((one, other) => one - other);
      begun = null;
      band.remove();
      const span = to - from;
      if (ends[1] - ends[0] > 0.01) show(from + ends[0] * span, from + ends[1] * span);
    }
    drawing.addEventListener("pointerup", end);
    drawing.addEventListener("pointercancel", () => {
      begun = null;
      if (band) band.remove();
    });
    show(0, whole);
  }

  function saving(section) {
    const tools = document.createElement("p");
    section.append(tools);
    button("Save as JSON", "Save the document of this page", () => {
      const text = document.getElementById("document").textContent;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = `${JSON.parse(text).schema}.json`;
      link.click();
      URL.revokeObjectURL(link.href);
    }, tools);
  }

  document.querySelectorAll("figure[data-zoom]").forEach(zoomable);
  saving(document.getElementById("data"));
})();
