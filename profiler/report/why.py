# SPDX-License-Identifier: Apache-2.0
"""Why writes took their time: a sentence, the split by cause, figures, blind spots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from contracts.causes import Cause
from contracts.model import CallType
from contracts.shared.text import printable
from contracts.shared.units import counted, format_count, format_duration, format_rate, format_size
from contracts.vocabulary import call_types_text
from profiler.bpf.disks import BlockDevice, bottom_devices
from profiler.report.console import print_lines
from profiler.report.over_limit import volume_lines
from profiler.watch.causes import Part, WhyInputs, main_cause, split
from profiler.watch.timeline import Timeline

if TYPE_CHECKING:
    from profiler.bpf.probes.block import DeviceStats

#: A device always writes a little more than the counted data: metadata, the journal.
EXCESS_SHARE, EXCESS_BYTES = 0.05, 16 * 2**20
_OUTSIDE_SHARE, _OUTSIDE_NS = 0.05, 100_000_000
#: If the writers' time exceeds their number times the run's length, the number is wrong.
_TOLERANCE = 1.02


@dataclass(frozen=True)
class CauseText:
    """The answer: `parts` add up to the calls' time, and `cause` is None if nothing was slow.

    `figures` are lines on dirty memory, disks and EBS limits, `blind_spots` lines on what was not
    observed. `latency` has the calls by latency (`CallStats.octaves`).
    """

    sentence: str
    cause: Cause | None
    parts: tuple[Part, ...]
    figures: tuple[str, ...]
    blind_spots: tuple[str, ...]
    latency: tuple[tuple[int, int, int], ...] = ()


def explain(why: WhyInputs) -> CauseText:
    """Explain the time that the writes of a run took."""
    cause = main_cause(why)
    return CauseText(
        sentence=_sentence(why, cause),
        cause=cause,
        parts=split(why.calls),
        figures=(
            *_timeline_lines(why.timeline),
            *_device_lines(why),
            *volume_lines(why.volumes),
        ),
        blind_spots=(
            *_mixed_lines(why),
            *_uring_lines(why),
            *_outside_lines(why),
            *_excess_lines(why),
        ),
        latency=why.calls.octaves,
    )


def print_why(explanation: CauseText, console: Console) -> None:
    """Print the sentence, the split as a table if there is one, then the lines."""
    print_lines([explanation.sentence], console, "bold")
    if any(part.time_ns for part in explanation.parts):
        console.print(split_table(explanation.parts))
    print_lines((*explanation.figures, *explanation.blind_spots), console, hanging=2)


def look_lines(explanation: CauseText) -> tuple[str, ...]:
    """Return the figures of a first look: dirty memory, pressure, the disks."""
    return explanation.figures


def split_table(parts: Sequence[Part]) -> Table:
    """Return a table of each cause with its time and share, and the sum."""
    total_ns = sum(part.time_ns for part in parts)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=True)
    table.add_column("time of write calls", footer="together")
    table.add_column("spent", footer=format_duration(total_ns), justify="right")
    table.add_column("share", footer="100.0 %", justify="right")
    for part in parts:
        table.add_row(part.cause.value, format_duration(part.time_ns), f"{100 * part.share:.1f} %")
    return table


def why_document(explanation: CauseText) -> dict[str, object]:
    """Return the explanation as plain data; times in ns, shares 0 to 1."""
    return {
        "sentence": explanation.sentence,
        "cause": explanation.cause and explanation.cause.value,
        "split": [
            {"cause": part.cause.value, "time_ns": part.time_ns, "share": part.share}
            for part in explanation.parts
        ],
        "latency": [
            {"from_ns": low, "below_ns": high, "calls": calls}
            for low, high, calls in explanation.latency
        ],
        "figures": list(explanation.figures),
        "blind_spots": list(explanation.blind_spots),
    }


def _sentence(why: WhyInputs, cause: Cause | None) -> str:
    if CallType.WRITE not in why.call_types:
        return "No rule of the contract counts writes, so there is none to explain."
    if why.is_throttled_elsewhere and cause is Cause.THROTTLING:
        stalled, elapsed = (format_duration(ns) for ns in (why.stall.total_ns, why.elapsed_ns))
        return (
            f"Threads were stalled {stalled} (all together, in {elapsed}) by dirty throttling "
            f"outside of the calls counted, as stores to mapped files are: {_burst(why)}."
        )
    if not why.calls.count:
        return "No write was counted, so there is none to explain."
    if cause is None:
        spent = format_duration(why.calls.latency_total_ns)
        together = f"all together, of {format_duration(why.elapsed_ns)}"
        return f"Writes were not slow: {_who(why, 'writers')} spent {spent} in them, {together}."
    parts = {part.cause: part for part in split(why.calls)}
    spent, who = _spent(why, parts[cause].time_ns), _who(why, "Writers")
    sentence = {
        Cause.THROTTLING: f"{who} were stalled {spent} by dirty throttling: {_burst(why)}.",
        Cause.DEVICE: f"{who} waited {spent} for the device: they write through to it (O_SYNC, "
        "O_DSYNC, O_DIRECT), or blocks had to be read before they could be changed.",
        Cause.SLEEPING: f"{who} slept {spent} for a reason other than the device or dirty "
        "throttling: usually a lock (several writers of one file), the journal (O_SYNC and "
        "O_DSYNC wait for its commits) or memory.",
        Cause.QUEUED: f"{who} waited {spent} for a CPU while in write calls: there is more to "
        "run than there are CPUs.",
        Cause.ASYNCHRONOUS: f"io_uring handled the writes for {spent}, while "
        f"{who[:1].lower()}{who[1:]} could do other things; the causes of its waits are unknown.",
        Cause.ON_CPU: f"{who} spent {spent} on a CPU in write calls, mostly copying: "
        "nothing held them up.",
    }[cause]
    copying = parts[Cause.ON_CPU]
    if cause is Cause.ON_CPU or copying.share <= parts[cause].share:
        return sentence
    return f"{sentence} More of the time, {copying.share:.0%}, was on a CPU, mostly copying."


def _who(why: WhyInputs, noun: str) -> str:
    if why.writers is None or why.writers < 2:
        return noun
    return f"{format_count(why.writers)} {noun.lower()}"


def _spent(why: WhyInputs, spent_ns: int) -> str:
    """Return `15.2 of 18.6 s`, the run's length, or several writers' time in write calls.

    It is unknown whether several wrote at the same time or one after the other.
    """
    if why.writers == 1 and why.calls.latency_total_ns <= why.elapsed_ns * _TOLERANCE:
        return _part_of(spent_ns, why.elapsed_ns)
    spent = _part_of(spent_ns, why.calls.latency_total_ns)
    return f"{spent} in write calls (of all threads, in {format_duration(why.elapsed_ns)})"


def _part_of(part_ns: int, whole_ns: int) -> str:
    """Return `15.2 of 18.6 s`, `138 of 365 ms` or `900 ms of 1.2 s`."""
    part, whole = format_duration(part_ns), format_duration(whole_ns)
    number, _, unit = part.partition(" ")
    return f"{number if whole.endswith(f' {unit}') else part} of {whole}"


def _burst(why: WhyInputs) -> str:
    """Return what made the kernel throttle."""
    timeline, stall = why.timeline, why.stall
    if timeline is None:
        dirty, limit = format_size(stall.dirty_max_bytes), format_size(stall.limit_max_bytes)
        return f"up to {dirty} was dirty, against a limit of {limit} (no timeline was taken)"
    if timeline.crossing is None:
        peak, freerun = timeline.peak.held_bytes, timeline.peak.thresholds.freerun_bytes
        return (
            f"the host's dirty memory was not seen above the freerun ceiling of "
            f"{format_size(freerun)} (at most {format_size(peak)}), so a limit of the device or "
            "of a control group was reached"
        )
    ceiling = format_size(timeline.crossing.thresholds.freerun_bytes)
    if timeline.crossing.time_ns == timeline.first.time_ns:
        return f"dirty memory was above the freerun ceiling of {ceiling} from the start"
    burst = f"the burst of {format_size(why.calls.backed_bytes)}"
    if why.is_throttled_elsewhere:
        burst = "dirty memory"
    after = format_duration(timeline.crossing.time_ns)
    return f"{burst} passed the freerun ceiling of {ceiling} after {after}"


def _timeline_lines(timeline: Timeline | None) -> list[str]:
    if timeline is None:
        return []
    peak = timeline.peak
    line = (
        f"Dirty memory of the host: at most {format_size(peak.held_bytes)}, "
        f"{format_size(timeline.last.held_bytes)} not yet on a device at the end; "
        f"background threshold {format_size(peak.thresholds.background_bytes)}, freerun ceiling "
        f"{format_size(peak.thresholds.freerun_bytes)}, exceeded for "
        f"{_time(timeline.above_freerun_ns)}."
    )
    some, full = timeline.io_some_share, timeline.io_full_share
    if some is None or full is None:
        return [line]
    pressure = f"Pressure: some task waited for I/O {some:.0%} of the time, all tasks {full:.0%}."
    return [line, pressure]


def _time(duration_ns: int) -> str:
    """`10.0 s`; none at all is `0 s`."""
    return format_duration(duration_ns) if duration_ns else "0 s"


def _device_lines(why: WhyInputs) -> list[str]:
    """Return a line for each disk with writes, or for the only disk."""
    return [
        _device_line(why, device, stats)
        for device, stats in why.devices
        if stats.writes.count or len(why.devices) == 1
    ]


def _device_line(why: WhyInputs, device: BlockDevice, stats: DeviceStats) -> str:
    writes = stats.writes
    line = (
        f"{printable(device.name)}: wrote {format_size(writes.bytes)} in "
        f"{counted(writes.count, 'request')}"
    )
    if why.elapsed_ns:
        line += f", {format_rate(writes.bytes * 1e9 / why.elapsed_ns)}"
    rate = _background_rate(why.timeline, device.name)
    if rate is not None:
        line += f" ({format_rate(rate)} while above the background threshold)"
    if not writes.latencies.count:
        return f"{line}."
    p50, p99 = (format_duration(writes.latencies.percentile_ns(percent)) for percent in (50, 99))
    return f"{line}; a request took p50 {p50}, p99 {p99}."


def _background_rate(timeline: Timeline | None, name: str) -> float | None:
    if timeline is None or name not in timeline.devices:
        return None
    return timeline.background_write_rate_bytes_per_s(timeline.devices.index(name))


def _mixed_lines(why: WhyInputs) -> list[str]:
    if why.call_types == (CallType.WRITE,) or CallType.WRITE not in why.call_types:
        return []
    types = call_types_text(why.call_types)
    return [f"The split is of {types} together: the contract has no rule of writes alone."]


def _uring_lines(why: WhyInputs) -> list[str]:
    if why.sees_uring:
        return []
    return ["Requests to io_uring are not counted: this kernel does not report them (before 6.3)."]


def _outside_lines(why: WhyInputs) -> list[str]:
    """Return a line on throttling outside the counted calls."""
    outside_ns = why.stall.total_ns - why.calls.throttled_ns
    if outside_ns <= max(_OUTSIDE_NS, _OUTSIDE_SHARE * why.stall.total_ns):
        return []
    return [
        f"Dirty throttling of {format_duration(outside_ns)} was outside the calls counted: "
        "stores to mapped files, io_uring, writes that no rule covers, or calls still in flight."
    ]


def _excess_lines(why: WhyInputs) -> list[str]:
    """Return a line on what the disks wrote in addition to the counted calls."""
    stats = dict(why.devices)
    bottom = bottom_devices(tuple(stats))
    counted_bytes = why.calls.backed_bytes
    excess_bytes = sum(stats[device].writes.bytes for device in bottom) - counted_bytes
    if excess_bytes <= max(EXCESS_BYTES, EXCESS_SHARE * counted_bytes):
        return []
    noun = "device" if len(bottom) == 1 else "devices"
    line = (
        f"The {noun} wrote {format_size(excess_bytes)} more than was counted: stores to mapped "
        "files, Linux AIO, writes that no rule covers, other processes, metadata or the journal"
    )
    before_bytes = why.timeline.first.held_bytes if why.timeline else 0
    if before_bytes < EXCESS_BYTES:
        return [f"{line}."]
    return [f"{line}; {format_size(before_bytes)} was dirty before the run began."]
