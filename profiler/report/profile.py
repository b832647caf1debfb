# SPDX-License-Identifier: Apache-2.0
"""A finished profile, for the terminal and as a document for JSON.

The document's schema is `docs/reference/profile.schema.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import IO

from rich.console import Console

from contracts.document import findings_document
from contracts.evaluate import Finding, format_figure
from contracts.model import CallType
from contracts.shared.text import printable
from contracts.shared.units import counted, exact_latency
from contracts.stats import CallStats
from profiler.recording.frame_tally import FrameTally, RuleTally, Violations
from profiler.recording.recording import Profile
from profiler.recording.scope import ProfileScope
from profiler.report.console import plain_console, print_lines
from profiler.report.findings import print_findings
from profiler.report.over_limit import volumes_document_ns
from profiler.report.snapshot import snapshot_document, snapshot_lines
from profiler.report.timeline import timeline_document
from profiler.report.verdict import print_verdict, verdict_document, verdict_here
from profiler.report.why import explain, look_lines, print_why, why_document


def print_profile(profile: Profile, output: IO[str], *, is_look: bool = False) -> None:
    """Write the findings, the timeframes if there are several, losses, and the verdict.

    For a first look (`is_look`) it writes only the verdict and the lines that support it.
    """
    console = plain_console(output)
    if is_look:
        print_look(profile, console)
        return
    timeframe_ns, elapsed_ns = profile.contract.timeframe_ns, profile.snapshot.elapsed_ns
    if profile.command_user:
        print_lines([f"The command ran as {profile.command_user}."], console)
    print_findings(profile.findings, console, timeframe_ns=timeframe_ns, elapsed_ns=elapsed_ns)
    print_lines(frames_lines(profile), console)
    if CallType.WRITE in profile.why.call_types:
        print_why(explain(profile.why), console)
    print_lines(snapshot_lines(profile.snapshot, profile.threads_left), console)
    _print_verdict(profile, console)


def print_look(profile: Profile, console: Console) -> None:
    """Print a few lines on the host's writes, losses if any, and the verdict."""
    print_lines(look_lines(explain(profile.why)), console)
    if profile.snapshot.losses.total:
        print_lines(snapshot_lines(profile.snapshot)[1:2], console)
    _print_verdict(profile, console)


def _print_verdict(profile: Profile, console: Console) -> None:
    verdict = verdict_here(profile.why)
    if verdict is not None:
        print_verdict(verdict, profile.why, console)


def frames_lines(profile: Profile) -> list[str]:
    """Return how many timeframes violated each rule; nothing for a single timeframe."""
    frames = profile.frames
    if frames.count < 2:
        return []
    timeframe = exact_latency(profile.contract.timeframe_ns)
    count = counted(frames.count, "timeframe")
    head = f"Rules are judged in each of {count} of {timeframe}, the last one the rest"
    violated = [pair for pair in zip(profile.findings, frames.rules) if pair[1].violated]
    if not violated:
        return [f"{head}; none was violated in any."]
    return [f"{head}:", *(_frames_line(*pair) for pair in violated)]


def _frames_line(finding: Finding, rule: RuleTally) -> str:
    most = format_figure(rule.largest or 0, finding.rule)
    label = printable(finding.rule.label)
    return f"  {label}: violated in {counted(rule.violated, 'timeframe')}, at most {most} in one"


def profile_document(
    profile: Profile, measured: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Return the profile as plain data: times in ns, sizes in bytes.

    `measured` is where and when it was measured (`profiler.report.origin`).
    """
    has_resources = any(not rule.measurement.is_of_calls for rule in profile.contract.rules)
    return {
        "measured": measured,
        "contract": printable(profile.contract.source),
        "command_user": profile.command_user,
        "scope": _scope_document(profile.scope),
        "attached_to": "functions" if profile.by_functions else "tracepoints",
        "functions_refused": profile.functions_refused,
        "timeframe_ns": profile.contract.timeframe_ns,
        **snapshot_document(profile.snapshot),
        "threads_left": profile.threads_left,
        "writers": profile.snapshot.writers,
        "findings": _findings_document(profile.findings),
        "resources": asdict(profile.usage) if has_resources else None,
        "why": why_document(explain(profile.why)),
        "verdict": verdict_document(verdict_here(profile.why), profile.why),
        "timeline": _timeline_document(profile),
        "ebs_volumes": volumes_document_ns(profile.why.volumes),
        "timeframes": _frames_document(profile.frames, profile.findings),
    }


def _scope_document(scope: ProfileScope) -> dict[str, str | None]:
    return {
        "target": scope.target.value,
        "comm": printable(scope.comm) if scope.comm else None,
        "cgroup": printable(scope.cgroup) if scope.cgroup else None,
    }


def _timeline_document(profile: Profile) -> dict[str, object] | None:
    timeline = profile.why.timeline
    return timeline_document(timeline, profile.why.volumes) if timeline else None


def _findings_document(findings: tuple[Finding, ...]) -> list[dict[str, object]]:
    return [
        {**entry, "causes": causes_document(finding.stats) if finding.rule.slot else None}
        for entry, finding in zip(findings_document(findings), findings)
    ]


def causes_document(stats: CallStats) -> dict[str, int]:
    """Return the total latency and its parts by cause, which add up to it."""
    return {
        "total_ns": stats.latency_total_ns,
        "throttled_ns": stats.throttled_ns,
        "device_wait_ns": stats.device_wait_ns,
        "sleeping_ns": stats.sleeping_ns,
        "queued_ns": stats.queued_ns,
        "asynchronous_ns": stats.asynchronous_ns,
        "on_cpu_ns": stats.on_cpu_ns,
    }


def _frames_document(frames: FrameTally, findings: tuple[Finding, ...]) -> dict[str, object]:
    """Return all rules' counts, and each frame that had violations."""
    return {
        "count": frames.count,
        "rules": [
            {"label": finding.rule.label, "violated": rule.violated, "largest": rule.largest}
            for finding, rule in zip(findings, frames.rules)
        ],
        "violations": [_frame_document(frame) for frame in frames.kept],
        "violations_left_out": frames.left_out,
    }


def _frame_document(frame: Violations) -> dict[str, object]:
    return {
        "number": frame.number,
        "start_ns": frame.start_ns,
        "elapsed_ns": frame.elapsed_ns,
        "rules": [{"label": label, "value": value} for label, value in frame.led],
    }
