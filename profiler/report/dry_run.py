# SPDX-License-Identifier: Apache-2.0
"""What a sweep would do, in words and as a document for JSON."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from contracts.shared.units import (
    counted,
    exact_size,
    format_count,
    format_minutes,
    format_rate,
    format_seconds,
    format_size,
)
from profiler.report.console import print_lines
from profiler.report.sweep_view import changed_words
from profiler.study.dry_run import DryRun
from sysctl.evidence.baseline import Baseline
from sysctl.evidence.results import PRICE

_COLUMN = 12


def print_dry_run(found: DryRun, console: Console) -> None:
    """Print the trials, bytes, time and changes; then what a sample cannot show."""
    for title, lines in (
        ("Trials", _trial_lines(found)),
        ("From S3", _byte_lines(found)),
        ("Time", _time_lines(found)),
        ("May change", _change_lines(found)),
    ):
        for number, line in enumerate(lines):
            lead = title.ljust(_COLUMN) if number == 0 else " " * _COLUMN
            print_lines([lead + line], console, hanging=_COLUMN)
        console.print()
    print_lines(["Nothing was pulled or changed (--dry-run)."], console)


def _trial_lines(found: DryRun) -> Iterator[str]:
    yield f"about {format_count(found.trials)}, at most {format_count(found.most)}"
    for number, title in enumerate(_first_titles(found), 1):
        yield f"{number}. {title}"
    yield "The next ones depend on what these show. Failed trials are repeated."


def _first_titles(found: DryRun) -> list[str]:
    if not found.first:
        return []
    baseline = Baseline(found.first[0][1])
    titles = []
    for role, setting in found.first:
        words = " ".join(changed_words(setting, baseline)) or "current settings"
        titles.append(f"{words}, watched until durable" if role == PRICE else words)
    return titles


def _byte_lines(found: DryRun) -> Iterator[str]:
    plan = found.plan
    objects = counted(len(plan.objects), "object")
    total, most = (format_size(count * plan.bytes) for count in (found.trials, found.most))
    yield f"{objects}, {format_size(plan.bytes)} per trial: about {total}, at most {most}"
    if plan.whole_bytes > plan.bytes:
        whole, count = format_size(plan.whole_bytes), counted(plan.whole_objects, "object")
        yield f"This is a sample: the prefix has {count}, {whole}."
    caveat = sample_caveat(found)
    if caveat:
        yield caveat


def sample_caveat(found: DryRun) -> str | None:
    """Return what a sample that fits below freerun cannot show; None if it does not fit."""
    plan, freerun_bytes = found.plan, found.thresholds.freerun_bytes
    if not plan.bytes < freerun_bytes < plan.whole_bytes:
        return None
    enough = exact_size(-(-2 * freerun_bytes // 2**30) * 2**30)
    return (
        f"It fits below the {format_size(freerun_bytes)} from which the kernel slows writers down, "
        f"and the whole does not: pass --max-bytes {enough} or more to see what write-back costs."
    )


def _time_lines(found: DryRun) -> Iterator[str]:
    rate = format_rate(found.rate_bytes_per_s)
    yield (
        f"about {format_minutes(found.about_s)}, at most {format_minutes(found.most_s)}, if a pull "
        f"runs at {rate} (an EBS gp3 volume without extra throughput): "
        f"{format_seconds(found.pull_s)} per pull"
    )
    if found.limit_s is not None:
        yield f"The budget ends it after {format_minutes(found.limit_s)}."


def _change_lines(found: DryRun) -> Iterator[str]:
    if not found.request.changes_host:
        yield "nothing on this host: settings of the pull alone"
        return
    for name in found.changes:
        yield f"{name} {_now(found, name)}".rstrip()
    if not found.changes:
        yield "no setting of the host"
    yield (
        "Each trial also writes back all data of the host, drops clean caches, and deletes what it "
        f"pulled to {found.request.destination}. All settings are restored at the end."
    )


def _now(found: DryRun, name: str) -> str:
    return f"(now {found.current[name]})" if name in found.current else ""


def dry_run_document(found: DryRun) -> dict[str, object]:
    """Return the same as plain data; the names have the units."""
    plan = found.plan
    return {
        "trials": found.trials,
        "most_trials": found.most,
        "first": [{"role": role, **setting.to_json()} for role, setting in found.first],
        "objects": len(plan.objects),
        "bytes": plan.bytes,
        "whole_objects": plan.whole_objects,
        "whole_bytes": plan.whole_bytes,
        "total_bytes": found.trials * plan.bytes,
        "most_bytes": found.most * plan.bytes,
        "assumed_bytes_per_s": found.rate_bytes_per_s,
        "about_s": found.about_s,
        "most_s": found.most_s,
        "budget_s": found.limit_s,
        "changes": [{"name": name, "current": found.current.get(name)} for name in found.changes],
        "sample_caveat": sample_caveat(found),
    }
