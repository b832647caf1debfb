# SPDX-License-Identifier: Apache-2.0
"""docs/reference/metrics.md: every metric, from the definitions that the exporter uses."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.bpf.probes.scope import Losses
from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import MetricDefinition
from tools.docs.markdown import cell, table

_VALUES = {
    "state": metrics.STATES,
    "threshold": metrics.THRESHOLDS,
    "limit": metrics.LIMITS,
    "cause": tuple(metrics.CAUSES.values()),
    "reason": metrics.REASONS,
}
_MEANINGS = {
    "call": "the types that a rule of the contract counts: `write`, `read+write`",
    "path": "the rule's path, as the contract writes it",
    "sizes": "the rule's range of sizes: `all`, `4KiB-`",
    "rule": "the rule's label",
    "device": "a disk's name in `/dev`: `nvme1n1`",
    "version": "of Writewise",
    "bcc": "the version of BCC",
}


def page() -> str:
    """Return docs/reference/metrics.md."""
    first, last = metrics.BOUND_EXPONENTS[0], metrics.BOUND_EXPONENTS[-1]
    return "\n".join(
        [
            "# Metrics",
            "",
            "What [`writewise watch`](../how-to/watch.md) exports for Prometheus and by OTLP. By",
            "OTLP the names have no `_total`, and `s` and `By` are also given as units.",
            "",
            "## Of the host",
            "",
            *_table(metrics.OF_THE_HOST),
            "",
            "## Of each disk",
            "",
            *_table(metrics.OF_DISKS),
            "",
            "## Of the contract's calls",
            "",
            "At level `calls`, and with `--escalate`; they grow only while",
            f"`{metrics.CALL_PROBES.name}` is 1. The six causes add up to the time of the calls.",
            "",
            *_table((*metrics.OF_CALLS, *metrics.OF_RULES)),
            "",
            "## Of the governor",
            "",
            "Where `writewise govern` has run since the boot; sums of its last process.",
            "",
            *_table(metrics.OF_THE_GOVERNOR),
            "",
            "## In a textfile",
            "",
            "`pull --metrics-textfile FILE` writes the times of a pull that arrived whole,",
            "`sweep --metrics-textfile FILE` those of its last pull with the current settings.",
            "",
            *_table(metrics.OF_A_BATCH),
            "",
            "## Labels",
            "",
            *table(["Label", "Values"], [[f"`{name}`", _meaning(name)] for name in _labels()]),
            "",
            "No label has a process, a command, a file, a key or a control group, so other",
            "programs cannot make series. A watch has at most",
            f"**{metrics.SERIES_OF_HOST} + {metrics.SERIES_OF_SLOT} × combinations of path,",
            f"calls and sizes + {metrics.SERIES_OF_DISK} × disks + 2 × rules** series, and",
            f"{len(metrics.OF_THE_GOVERNOR)} more with a governor. That is",
            f"{metrics.most_series(1, 1, 3)} with the default contract and one disk, and never",
            f"more than {metrics.HARD_CAP}. At most {metrics.MOST_DISKS} disks are counted.",
            "",
            "## Histograms",
            "",
            f"`le` is 2^{first} ns (1.02 µs) to 2^{last} ns (17.2 s), each twice the one before. A",
            "latency of exactly such a bound is in the next bucket, because the kernel's side",
            "counts ranges without their upper end. Finer percentiles are a rule of a",
            f"contract (`p99`), of which `{metrics.THRESHOLD_RATIO.name}` shows the value.",
            "",
            "## Lost events",
            "",
            *table(["`reason`", "What was not counted"], _reasons()),
            "",
            "## Alerts",
            "",
            *_alerts(),
            "",
        ]
    )


def _table(definitions: Sequence[MetricDefinition]) -> list[str]:
    return table(
        ["Metric", "Type", "Labels", "Meaning"],
        [
            [
                f"`{each.name}`",
                each.kind.value,
                ", ".join(f"`{label}`" for label in each.labels) or "–",
                cell(each.help),
            ]
            for each in definitions
        ],
    )


def _labels() -> list[str]:
    every = (*metrics.OF_A_SERVICE, *metrics.OF_A_BATCH)
    return list(dict.fromkeys(label for each in every for label in each.labels))


def _meaning(label: str) -> str:
    if label in _VALUES:
        return ", ".join(f"`{value}`" for value in _VALUES[label])
    return _MEANINGS[label]


def _reasons() -> list[list[str]]:
    """Return each reason with its description in the docstring of `Losses`."""
    text = " ".join((Losses.__doc__ or "").split())
    found = []
    for reason in metrics.REASONS:
        words = text.split(f"`{reason}`: ", 1)[1].partition(" - `")[0]
        found.append([f"`{reason}`", cell(words)])
    return found


def _alerts() -> list[str]:
    import yaml

    from tools.docs.pages import REFERENCE

    file = REFERENCE.parents[1] / "profiler/metrics/shipped/alerts.yml"
    groups = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    rows = [
        [
            f"`{rule['alert']}`",
            f"`{' '.join(rule['expr'].split())}`".replace("|", "\\|"),
            rule.get("for", "–"),
        ]
        for rule in rules
    ]
    return table(["Alert", "Condition", "For"], rows)
