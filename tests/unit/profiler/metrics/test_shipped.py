# SPDX-License-Identifier: Apache-2.0
"""The shipped dashboard and alerts use the exporter's own names, and Prometheus accepts them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import profiler.metrics
from contracts.loading import load_contract
from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import MetricDefinition, MetricKind
from tests.places import REPOSITORY

FOLDER = Path(profiler.metrics.__file__).parent / "shipped"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PANELS = DASHBOARD["panels"]
ALERTS = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
RULES = [rule for group in ALERTS for rule in group["rules"]]
EVERY = (*metrics.OF_A_SERVICE, *metrics.OF_A_BATCH)
#: Units of Grafana that the panels use.
UNITS = {"s", "percentunit", "bytes", "Bps", "short", "none", "cps"}
SELECTOR = re.compile(r"(writewise_\w+)(?:\{([^}]*)\})?")
BY_PROMETHEUS = {"instance", "job", "le"}

promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool here: tools/setup test"
)


def series_of(metric: MetricDefinition) -> list[str]:
    """Return the names of a metric's series."""
    if metric.kind is MetricKind.HISTOGRAM:
        return [f"{metric.name}_{end}" for end in ("bucket", "sum", "count")]
    return [metric.name]


BY_SERIES = {name: each for each in EVERY for name in series_of(each)}


def expressions() -> list[str]:
    """Every expression of the dashboard, with Grafana's variables replaced."""
    found = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return [each.replace("$__rate_interval", "5m").replace("$instance", ".*") for each in found]


@pytest.mark.parametrize("expression", [*expressions(), *(rule["expr"] for rule in RULES)])
def test_an_expression_uses_series_and_labels_that_exist(expression: str) -> None:
    found = SELECTOR.findall(expression)
    assert found
    for name, selected in found:
        assert name in BY_SERIES, name
        labels = set(re.findall(r"(\w+)=", selected))
        assert labels <= {*BY_SERIES[name].labels, *BY_PROMETHEUS}
    grouped = re.findall(r"(?:by|without) \(([^)]*)\)", expression)
    named = {label for each in grouped for label in re.split(r"\s*,\s*", each)}
    assert named <= {label for name, _ in found for label in BY_SERIES[name].labels} | BY_PROMETHEUS


def test_a_wrong_name_would_be_found() -> None:
    assert SELECTOR.findall('rate(writewise_nothing{a="b"}[5m])') == [
        ("writewise_nothing", 'a="b"')
    ]
    assert "writewise_nothing" not in BY_SERIES


def test_every_metric_of_the_service_is_on_the_dashboard() -> None:
    shown = {BY_SERIES[name] for each in expressions() for name, _ in SELECTOR.findall(each)}
    left_out = {metrics.BUILD, metrics.PULL_TIME, *metrics.OF_THE_GOVERNOR[:1]}
    left_out |= {metrics.GOVERN_BURSTS, metrics.GOVERN_ARRIVED}
    assert set(EVERY) - shown == left_out


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_has_a_title_a_unit_a_place_and_the_variable_as_source(panel) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert all(each == {"type": "prometheus", "uid": "${datasource}"} for each in sources)
    letters = [target["refId"] for target in panel["targets"]]
    assert len(set(letters)) == len(letters)


def test_the_dashboard_has_its_variables_and_no_overlap() -> None:
    names = {each["name"]: each["type"] for each in DASHBOARD["templating"]["list"]}
    assert names == {"datasource": "datasource", "instance": "query"}
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS}
    assert len(places) == len(PANELS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_and_where_and_is_tested(rule) -> None:
    assert rule["labels"]["severity"] in ("info", "warning")
    assert "$labels.instance" in rule["annotations"]["summary"]
    assert rule["annotations"]["description"]
    tested = (FOLDER / "alerts-test.yml").read_text()
    fired = re.findall(rf"alertname: {rule['alert']}\n    exp_alerts:\n    -", tested)
    silent = re.findall(rf"alertname: {rule['alert']}}}", tested)
    assert fired
    assert silent


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, words)], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_page_says_which_contracts_the_alert_on_violations_is_for() -> None:
    """So many timeframes must fit into its window; the default contract has a longer one."""
    [rule] = [each for each in RULES if each["alert"] == "WritewiseContractViolated"]
    [(minutes, times)] = re.findall(r"\[(\d+)m\]\) >= (\d+)$", rule["expr"])
    longest_min = int(minutes) // int(times)
    assert load_contract(None).timeframe_ns == 1000 * 10**9 > longest_min * 60 * 10**9
    text = (REPOSITORY / "docs/how-to/watch.md").read_text()
    assert f"a contract with a timeframe of at most {longest_min} minutes" in text


@promtool
def test_prometheus_accepts_the_alerts_and_their_tests_pass() -> None:
    for words in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts-test.yml")):
        done = run("promtool", *words[:2], FOLDER / words[2])
        assert done.returncode == 0, done.stdout + done.stderr


@promtool
def test_the_tests_of_the_alerts_can_fail(tmp_path: Path) -> None:
    for file in FOLDER.glob("*.yml"):
        (tmp_path / file.name).write_text(file.read_text().replace("> 0.5", "> 0.7"))
    assert run("promtool", "test", "rules", tmp_path / "alerts-test.yml").returncode == 1


@promtool
def test_prometheus_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{n}", "expr": text} for n, text in enumerate(expressions())]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = run("promtool", "check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
