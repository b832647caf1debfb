# SPDX-License-Identifier: Apache-2.0
"""The page of an advice: of `writewise sweep`, `writewise advise` and `writewise transfer tune`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contracts.shared.units import counted, format_seconds, format_size
from profiler.html.charts import scale
from profiler.html.charts.chart import Chart, DataTable, thinned_rows
from profiler.html.charts.intervals import IntervalRow, interval_chart
from profiler.html.charts.tradeoff import RiskPoint, trade_off_chart
from profiler.html.charts.trials import TrialMark, trials_chart
from profiler.html.page import CheckStep, Page, Tone, facts_of

_RECOMMENDED, _CURRENT = "recommended", "current"
_MOST_ROWS = 200
_MOST_COMPARED = 24
#: An axis of ratios ends here at the latest.
_LARGEST_RATIO = 2.0
_ACTIONS = ("set", "keep")


def advice_page(document: Mapping[str, Any]) -> Page:
    """Return the page of an advice."""
    is_change = document["change_recommended"]
    charts = (_trade_off(document), _pairs(document), _trials(document))
    tuned = document["schema"] == "writewise-transfer-tune"
    return Page(
        kind="transfer settings" if tuned else "recommendation",
        badge="Change" if is_change else "No change",
        tone=Tone.ACT if is_change else Tone.CALM,
        verdict=document["headline"],
        why=tuple(_why(document)),
        facts=facts_of(document["measured"]),
        tables=tuple(_tables(document)),
        charts=tuple(each for each in charts if each is not None),
        price=tuple(document["cost"]),
        caveats=tuple(_caveats(document)),
        checks=tuple(_tuning_checks() if tuned else _checks(document)),
        document=document,
    )


def _why(document: Mapping[str, Any]) -> Iterator[str]:
    why = document["why"]
    yield f"{why[:1].upper()}{why[1:]}"
    if document["change_recommended"]:
        yield f"{document['verdict'].rstrip('.')}."


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[str, DataTable]]:
    sides = [document["present"], *filter(None, [document["recommended"]])]
    titles = ("", "current", "recommended")[: len(sides) + 1]
    numbers = frozenset(range(1, len(sides) + 1))
    rows = tuple((name, *cells) for name, cells in _comparison(document, sides) if any(cells))
    yield (
        "Current and recommended" if len(sides) > 1 else "Current",
        DataTable(titles, rows, numbers),
    )
    settings = tuple(
        (each["name"], str(each["value"]), str(each["before"] or "–"), each["why"])
        for each in document["reasons"]
        if each["action"] in _ACTIONS
    )
    if settings:
        yield "Settings", DataTable(("setting", "value", "before", "why"), settings)


def _comparison(
    document: Mapping[str, Any], sides: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, list[str]]]:
    yield "settings", [each["text"] for each in sides]
    yield "time to return", [format_seconds(each["return_s"]["median"]) for each in sides]
    yield "its runs", [_span(each["return_s"]) for each in sides]
    yield "writers waited", [_share(each["stalled_share"]) for each in sides]
    yield "time to durable", [_durable(each) for each in sides]
    prices = [each["price"] for each in sides]
    yield "bytes at risk, at most", [format_size(each["at_risk_bytes"]) for each in prices]
    yield "with a larger pull", [format_size(each["ceiling_bytes"]) for each in prices]
    yield "writers throttled above", [format_size(each["freerun_bytes"]) for each in sides]
    yield "dirty threshold", [format_size(each["dirty_threshold_bytes"]) for each in sides]
    observed = [each["observed"] or {} for each in prices]
    for name, key in (("neighbour's fsync", "fsync"), ("neighbour's reads", "reads")):
        yield name, [_latency(each.get(key)) for each in observed]
    yield "risk", [each["label"] or "" for each in prices]


def _span(times: Mapping[str, Any]) -> str:
    ends = dict.fromkeys((times["smallest"], times["largest"]))
    return f"{' to '.join(map(format_seconds, ends))} ({counted(times['count'], 'run')})"


def _share(share: float | None) -> str:
    return "not measured" if share is None else f"{share:.0%}"


def _durable(side: Mapping[str, Any]) -> str:
    if side["durable_s"] is None:
        return "not measured"
    return (
        f"{format_seconds(side['durable_s'])}{' predicted' if side['durable_is_predicted'] else ''}"
    )


def _latency(latency: Mapping[str, float] | None) -> str:
    if not latency:
        return ""
    return f"{format_seconds(latency['median_s'])}, worst {format_seconds(latency['worst_s'])}"


def _trade_off(document: Mapping[str, Any]) -> Chart | None:
    points = [
        RiskPoint(
            setting=each["text"],
            names=tuple(each["names"]),
            at_risk_bytes=each["at_risk_bytes"],
            return_s=each["return_s"],
            shortest_s=each["shortest_return_s"],
            longest_s=each["longest_return_s"],
            is_best=_RECOMMENDED in each["names"],
            is_current=_CURRENT in each["names"],
        )
        for each in document["trade_off"]
    ]
    rows, note = thinned_rows([_point_cells(each) for each in document["trade_off"]], _MOST_ROWS)
    titles = ("setting", "name", "returns", "at risk", "durable", "from")
    return trade_off_chart(points, DataTable(titles, rows, frozenset({2, 3, 4}), note))


def _point_cells(point: Mapping[str, Any]) -> tuple[str, ...]:
    durable_s = point["durable_s"]
    return (
        point["text"],
        ", ".join(point["names"]) or "–",
        format_seconds(point["return_s"]),
        format_size(point["at_risk_bytes"]),
        "–" if durable_s is None else format_seconds(durable_s),
        counted(point["runs"], "run") if point["is_measured"] else "predicted",
    )


def _pairs(document: Mapping[str, Any]) -> Chart | None:
    compared = [each for each in document["comparisons"] if each["time_ratio"]]
    if not compared:
        return None
    recommended = document["recommended"]
    best = recommended["text"] if recommended else None
    compared.sort(key=lambda each: (each["text"] != best, each["time_ratio"]["estimate"]))
    shown = compared[:_MOST_COMPARED]
    rows = [
        IntervalRow(
            name=_changed(each["text"], document["present"]["text"]),
            estimate=each["time_ratio"]["estimate"],
            shown=f"{each['time_ratio']['estimate']:.1%}, {each['verdict']}",
            low=each["time_ratio"]["low"],
            high=each["time_ratio"]["high"],
            singles=tuple(pair["other_s"] / pair["current_s"] for pair in each["pairs"]),
            is_best=each["text"] == best,
        )
        for each in shown
    ]
    ends = [value for row in rows for value in (row.high, row.estimate, *row.singles) if value]
    ticks = scale.share_ticks(min(_LARGEST_RATIO, max(1.05, *ends)), 6)
    table_rows, note = thinned_rows([_ratio_cells(each) for each in compared], _MOST_ROWS)
    titles = ("setting", "of the current time", "95% interval", "outcome", "single pairs")
    return interval_chart(
        "pairs",
        "Compared in pairs",
        "Each setting ran next to the current one, so that both met the same conditions. Left of "
        "the dashed line it was faster.",
        rows,
        ticks,
        DataTable(titles, table_rows, frozenset({1, 2}), note),
        same=(1.0, "the current settings"),
        single="one pair",
    )


def _changed(setting: str, present: str) -> str:
    """Return the words of a setting that the current settings do not have."""
    return " ".join(each for each in setting.split() if each not in present.split()) or setting


def _ratio_cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    ratio = each["time_ratio"]
    high = "unknown" if ratio["high"] is None else f"{ratio['high']:.1%}"
    singles = (f"{pair['other_s'] / pair['current_s']:.1%}" for pair in each["pairs"])
    return (
        each["text"],
        f"{ratio['estimate']:.1%}",
        f"{ratio['low']:.1%} to {high}",
        each["verdict"],
        ", ".join(singles),
    )


def _trials(document: Mapping[str, Any]) -> Chart | None:
    recommended = document["recommended"]
    best = recommended["text"] if recommended else None
    trials = [
        TrialMark(
            number=each["number"],
            role=each["role"],
            setting=each["text"],
            block=each["block"],
            return_s=each["return_s"] if each["is_valid"] else None,
            stopped_s=each["stopped_s"],
            is_best=each["text"] == best,
        )
        for each in document["trials"]
    ]
    rows, note = thinned_rows([_trial_cells(each) for each in document["trials"]], _MOST_ROWS)
    titles = ("trial", "kind", "setting", "returned", "durable", "writers waited", "remark")
    return trials_chart(trials, DataTable(titles, rows, frozenset({0, 3, 4, 5}), note))


def _trial_cells(trial: Mapping[str, Any]) -> tuple[str, ...]:
    def time(name: str) -> str:
        return "–" if trial[name] is None else format_seconds(trial[name])

    stopped_s = trial["stopped_s"]
    stopped = "" if stopped_s is None else f"stopped after {format_seconds(stopped_s)}"
    return (
        str(trial["number"]),
        trial["role"],
        trial["text"],
        time("return_s"),
        time("durable_s"),
        "–" if trial["stalled_share"] is None else f"{trial['stalled_share']:.0%}",
        trial["problem"] or stopped,
    )


def _caveats(document: Mapping[str, Any]) -> Iterator[str]:
    sentence = document["measured"]["sentence"]
    yield sentence
    noise = document["noise"]
    if noise is None:
        yield "The noise is unknown, since too few runs were repeated."
    else:
        yield (
            f"Times under the same settings vary by {noise:.1%} (standard deviation); the "
            "intervals take that into account."
        )
    yield from document["notes"]
    yield from document["memory_group"]
    yield from document["not_predicted"]
    left_out = document["left_out"]
    yield from (f"Not tried: {each['what']}: {each['why']}." for each in left_out[:5])
    if len(left_out) > 5:
        yield f"{len(left_out) - 5:,} more settings that were not tried are in the data below."
    yield "The result holds for this node, volume and pull; measure again where they differ."


def _checks(document: Mapping[str, Any]) -> Iterator[CheckStep]:
    yield CheckStep(
        "Every figure comes from the results file of the sweep; this prints them all:",
        "writewise advise --details RESULTS.json",
    )
    changed = [each["name"] for each in document["reasons"] if each["action"] == "set"]
    sysctls = [name for name in changed if name.startswith("vm.")]
    if sysctls:
        command = f"sysctl {' '.join(sysctls)}"
        yield CheckStep("The values in force before and after the change:", command)
    if document["change_recommended"]:
        yield CheckStep(
            "What applying it would change on a host, without a change:",
            "sudo writewise apply --dry-run recommendation.json",
        )
        yield CheckStep(
            "Try it for half an hour; the originals return by themselves:",
            "sudo writewise apply recommendation.json --for 30m",
        )
        yield CheckStep(
            "Whether it is in force, and why not:", "writewise verify recommendation.json"
        )
        yield CheckStep("Restore the original values:", "sudo writewise rollback")
    else:
        yield CheckStep(
            "What the writes of a pull wait for:", "sudo writewise pull s3://BUCKET/PREFIX DEST"
        )


def _tuning_checks() -> Iterator[CheckStep]:
    yield CheckStep(
        "Every figure comes from the results file; this prints them all:",
        "writewise advise --details writewise-transfer/writewise-results.json",
    )
    yield CheckStep(
        "Pull with the settings; nothing on the host changes:",
        "writewise pull s3://BUCKET/PREFIX DEST --transfer transfer.json",
    )
