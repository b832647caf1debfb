# SPDX-License-Identifier: Apache-2.0
"""A measured pull, for the terminal and as a document for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.console import Console

from contracts.document import findings_document
from contracts.evaluate import Finding
from contracts.shared.units import format_count, format_rate, format_seconds, format_size
from profiler.pull.evidence import PullEvidence, advise, gathered
from profiler.pull.measured import PullMeasurement
from profiler.pull.object_sizes import SizeBucket
from profiler.pull.result import Verification
from profiler.pull.resume import Resumed
from profiler.pull.verification import SIZE_ONLY
from profiler.report.console import print_lines
from profiler.report.findings import print_findings
from profiler.report.over_limit import exceeded_text, volumes_document_s
from profiler.report.snapshot import snapshot_document, snapshot_lines
from profiler.report.timeline import timeline_document
from profiler.report.why import explain, print_why, why_document

_SHOWN_FAILURES = 20
#: Where the second column begins.
_COLUMN = 17


def print_pull(
    measured: PullMeasurement,
    findings: tuple[Finding, ...],
    timeframe_ns: int,
    console: Console,
    resumed: Resumed | None = None,
) -> None:
    """Print times, stall, verification, the contract's findings, and failures at the end.

    `resumed` is what the destination had before; None if that was not checked.
    """
    if resumed is not None and resumed.kept:
        size = format_size(resumed.kept_bytes)
        kept = f"there already    {_objects(len(resumed.kept))}, {size}, verified"
        print_lines([kept], console, hanging=_COLUMN)
    if resumed is not None:
        print_lines(_sample_lines(resumed, measured), console, "yellow", hanging=_COLUMN)
    print_lines(_lines(measured), console, hanging=_COLUMN)
    if measured.snapshot is not None:
        console.print()
        elapsed_ns = measured.snapshot.elapsed_ns
        print_findings(findings, console, timeframe_ns=timeframe_ns, elapsed_ns=elapsed_ns)
        if measured.why is not None:
            print_why(explain(measured.why), console)
        print_lines(snapshot_lines(measured.snapshot), console)
    print_lines(_failure_lines(measured), console, "red", hanging=2)


def _sample_lines(resumed: Resumed, measured: PullMeasurement) -> Iterator[str]:
    """Yield what a sample left out, and what only a pull of everything could show."""
    plan = resumed.missing
    taken_bytes, count = plan.bytes + plan.kept_bytes, len(plan.objects) + len(resumed.kept)
    if plan.whole_bytes <= taken_bytes:
        return
    objects = f"{format_count(count)} of {_objects(plan.whole_objects)}"
    taken, whole = format_size(taken_bytes), format_size(plan.whole_bytes)
    yield f"sample           {taken} of {whole}, {objects}; the rest was not pulled"
    timeline = measured.why.timeline if measured.why else None
    freerun_bytes = timeline.peak.thresholds.freerun_bytes if timeline else 0
    if taken_bytes < freerun_bytes < plan.whole_bytes:
        yield (
            f"                 it fits below the {format_size(freerun_bytes)} from which writers "
            "are slowed down, and the whole does not: a pull of all may be slower"
        )


def pull_document(
    measured: PullMeasurement,
    findings: tuple[Finding, ...],
    resumed: Resumed | None = None,
    origin: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """Return the same as plain data; the names have the units.

    `origin` is where and when it was measured (`profiler.report.origin`).
    """
    result, snapshot, why = measured.result, measured.snapshot, measured.why
    return {
        "measured": origin,
        "objects": result.objects,
        "bytes": result.bytes,
        "kept_objects": len(resumed.kept) if resumed else 0,
        "kept_bytes": resumed.kept_bytes if resumed else 0,
        "whole_objects": resumed.missing.whole_objects if resumed else 0,
        "whole_bytes": resumed.missing.whole_bytes if resumed else 0,
        "workers": measured.worker_count,
        "return_s": measured.return_s,
        "durable_s": measured.durable_s,
        "stalled_share": measured.stalled_share,
        "evidence": _evidence_document(measured),
        "findings": findings_document(findings),
        "profile": snapshot_document(snapshot) if snapshot else None,
        "why": why_document(explain(why)) if why else None,
        "timeline": timeline_document(why.timeline, why.volumes) if why and why.timeline else None,
        "ebs_volumes": volumes_document_s(why.volumes if why else ()),
        "verified_by_method": dict(measured.verification.count_by_method),
        "verification_s": measured.verification.elapsed_s,
        "verification_cpu_s": measured.verification.cpu_s,
        "ended_by": result.ended_by.message if result.ended_by else None,
        "failures": [{"key": each.key, "reason": each.reason} for each in measured.failures],
    }


def _evidence_document(measured: PullMeasurement) -> dict[str, object] | None:
    evidence = gathered(measured)
    if evidence is None:
        return None
    return {
        "requests_per_s": evidence.requests_per_s,
        "first_byte_share": evidence.first_byte_share,
        "mean_first_byte_s": evidence.mean_first_byte_s,
        "mean_object_bytes": evidence.mean_object_bytes,
        "write_share": evidence.write_share,
        "repeated_share": evidence.repeated_share,
        "slow_downs": evidence.slow_downs,
        "connections_in_use": evidence.connections_in_use,
        "small_request_share": evidence.small_request_share,
        "cpu_share": evidence.cpu_share,
        "host_busy_share": evidence.host_busy_share,
        "object_sizes": [asdict(bucket) for bucket in evidence.sizes],
        "limit": evidence.limit.name.lower(),
        "limited_by": evidence.limit.value,
        "advice": advise(evidence),
        "ebs_limit": _ebs_limit_document(evidence),
    }


def _ebs_limit_document(evidence: PullEvidence) -> dict[str, object] | None:
    limit, over = evidence.ebs_limit, evidence.over_limit
    return {"name": limit.value, "share": over.share(limit)} if limit and over else None


def _lines(measured: PullMeasurement) -> list[str]:
    result = measured.result
    rate = result.bytes / measured.return_s if measured.return_s else 0.0
    lines = [
        f"pulled           {_objects(result.objects)}, {format_size(result.bytes)}, "
        f"{measured.worker_count} workers",
        f"time to return   {format_seconds(measured.return_s)} ({format_rate(rate)})",
    ]
    if measured.durable_s is not None:
        durable = measured.durable_s
        rate = result.bytes / durable if durable else 0.0
        lines.append(f"time to durable  {format_seconds(durable)} ({format_rate(rate)})")
    if measured.stalled_share is not None:
        share = f"{measured.stalled_share:.0%}"
        lines.append(f"writers waited   {share} of the time, in dirty throttling")
    lines += evidence_lines(gathered(measured))
    lines.append(f"verified         {_verified(measured)}")
    return [*lines, *_verification_cost(measured.verification)]


def _verification_cost(verification: Verification) -> list[str]:
    """Return what verification cost; nothing if only sizes were compared."""
    if not set(verification.count_by_method) - {SIZE_ONLY} or not verification.elapsed_s:
        return []
    rate = format_rate(verification.bytes / verification.elapsed_s)
    cpu = f"{format_seconds(verification.cpu_s)} of CPU time"
    return [f"verification     took {format_seconds(verification.elapsed_s)} ({rate}) and {cpu}"]


def evidence_lines(evidence: PullEvidence | None) -> list[str]:
    """Return what the pull waited for and what helps; nothing if the client counts no requests."""
    if evidence is None:
        return []
    share, rate = f"{evidence.first_byte_share:.0%}", f"{evidence.requests_per_s:,.0f}/s"
    mean = format_seconds(evidence.mean_first_byte_s)
    lines = [
        f"requests         {rate}; {share} of the connections' time went by before a first byte "
        f"({mean} on average)",
        f"object sizes     {_sizes(evidence.sizes)}",
        f"held up by       {_limit_text(evidence)}",
    ]
    advice = advise(evidence)
    return [*lines, *([f"what would help  {advice}"] if advice else [])]


def _limit_text(evidence: PullEvidence) -> str:
    """Return what limited the pull; if it was the disk, also which limit of EBS was exceeded."""
    limit, over = evidence.ebs_limit, evidence.over_limit
    if limit is None or over is None:
        return evidence.limit.value
    return f"{evidence.limit.value}; {exceeded_text(over, limit)}"


def _sizes(sizes: Sequence[SizeBucket]) -> str:
    """Return the buckets that have objects; each begins where the one below it ends."""
    return ", ".join(
        f"{format_count(each.objects)} {_range(each)} ({format_size(each.bytes)})"
        for each in sizes
        if each.objects
    )


def _range(bucket: SizeBucket) -> str:
    if bucket.below_bytes is None:
        return f"of {format_size(bucket.from_bytes)} or more"
    return f"below {format_size(bucket.below_bytes)}"


def _objects(count: int) -> str:
    return f"{format_count(count)} object{'' if count == 1 else 's'}"


def _verified(measured: PullMeasurement) -> str:
    by_method = measured.verification.count_by_method
    if not by_method:
        return "nothing"
    parts = [
        f"{_objects(count)} by size only (as requested, or S3 has no checksum of the whole)"
        if method == SIZE_ONLY
        else f"{_objects(count)} by size and {method}"
        for method, count in sorted(by_method.items())
    ]
    return ", ".join(parts)


def _failure_lines(measured: PullMeasurement) -> list[str]:
    failures = measured.failures
    lines = [f"{each.key}: {each.reason}" for each in failures[:_SHOWN_FAILURES]]
    more = len(failures) - _SHOWN_FAILURES
    lines += [f"and {more} more"] if more > 0 else []
    ended_by = measured.result.ended_by
    if ended_by is not None:
        lines.append(f"the pull ended early: {ended_by.message}; {ended_by.hint}")
    return lines
