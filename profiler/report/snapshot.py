# SPDX-License-Identifier: Apache-2.0
"""What a profile reports in addition to its findings: stalls, losses, calls in flight."""

from __future__ import annotations

from dataclasses import asdict

from contracts.shared.units import counted, format_duration, format_size
from profiler.bpf.session import ProfileSnapshot

#: Reason → what was lost, and when.
_REASONS = {
    "threads_not_followed": ("thread", "started while the table of threads was full"),
    "calls_not_recorded": ("call", "made while the table of threads was full"),
    "calls_without_entry": ("call", "under way before it could be seen"),
    "calls_without_exit": ("call", "still open when the thread ended"),
    "calls_overwritten": ("call", "still open when the thread began another"),
    "paths_too_deep": ("call", "on files too many directories deep"),
    "paths_not_read": ("call", "whose path could not be read"),
    "uring_ends_unseen": ("request", "to io_uring whose end the kernel does not report"),
    "aio_requests": ("request", "to Linux AIO whose end the kernel does not report"),
    "probe_runs_missed": ("probe run", "left out by the kernel"),
}
#: Reasons whose events are all calls of a rule; other events may belong to no rule.
_CALLS_OF_RULES = {"calls_not_recorded", "calls_without_exit", "calls_overwritten"}


def snapshot_lines(snapshot: ProfileSnapshot, threads_left: int = 0) -> list[str]:
    """Return lines for the terminal, always with one on losses.

    `threads_left` is the number of profiled threads that run on after the snapshot.
    """
    return [
        _stall_line(snapshot),
        _loss_line(snapshot),
        *_in_flight_lines(snapshot),
        *_threads_left_lines(threads_left),
    ]


def snapshot_document(snapshot: ProfileSnapshot) -> dict[str, object]:
    """Return the content of the lines as plain data; times in ns, sizes in bytes."""
    return {
        "elapsed_ns": snapshot.elapsed_ns,
        "stall": asdict(snapshot.stall),
        "losses": {"total": snapshot.losses.total, **snapshot.losses.by_reason},
        "in_flight": snapshot.in_flight,
    }


def _stall_line(snapshot: ProfileSnapshot) -> str:
    stall, elapsed = snapshot.stall, format_duration(snapshot.elapsed_ns)
    if not stall.pauses:
        return f"Stalled by dirty throttling: never, in {elapsed}."
    return (
        f"Stalled by dirty throttling: {format_duration(stall.total_ns)} in "
        f"{counted(stall.pauses, 'pause')}, summed over all threads, in {elapsed}; "
        f"at most {format_size(stall.dirty_max_bytes)} dirty."
    )


def _loss_line(snapshot: ProfileSnapshot) -> str:
    lost = {reason: events for reason, events in snapshot.losses.by_reason.items() if events}
    if not lost:
        return "Lost: nothing."
    events = ", ".join(_lost_events(reason, count) for reason, count in lost.items())
    certainty = "are" if _CALLS_OF_RULES & lost.keys() else "may be"
    return f"Lost: {events}. The figures above {certainty} too low."


def _lost_events(reason: str, count: int) -> str:
    noun, circumstances = _REASONS[reason]
    return f"{counted(count, noun)} {circumstances}"


def _in_flight_lines(snapshot: ProfileSnapshot) -> list[str]:
    if not snapshot.in_flight:
        return []
    return [f"In flight at the end, and not counted: {counted(snapshot.in_flight, 'call')}."]


def _threads_left_lines(threads_left: int) -> list[str]:
    if not threads_left:
        return []
    threads, verb = counted(threads_left, "thread"), "runs" if threads_left == 1 else "run"
    return [f"{threads} of those profiled still {verb}; later calls are not counted."]
