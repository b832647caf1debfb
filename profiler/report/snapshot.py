"""What a profile says beside its findings: stalls, losses, calls in flight."""

from __future__ import annotations

from dataclasses import asdict

from contracts.units import format_count, format_duration, format_size
from profiler.session import ProfileSnapshot

_REASONS = {
    "threads_not_followed": "threads started while the table of threads was full",
    "calls_not_recorded": "calls while the table of threads was full",
    "calls_without_exit": "calls still open when their thread ended",
    "calls_overwritten": "calls still open when their thread began another",
    "paths_too_deep": "calls on files too many directories deep",
    "probe_runs_missed": "probe runs left out by the kernel",
}


def snapshot_lines(snapshot: ProfileSnapshot) -> list[str]:
    """Lines for the terminal; losses are always among them, also when there are none."""
    return [_stall_line(snapshot), _loss_line(snapshot), *_in_flight_lines(snapshot)]


def snapshot_document(snapshot: ProfileSnapshot) -> dict[str, object]:
    """The same as plain data; times in ns, sizes in bytes."""
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
        f"{format_count(stall.pauses)} pauses, summed over all threads, in {elapsed}; "
        f"at most {format_size(stall.dirty_max_bytes)} dirty."
    )


def _loss_line(snapshot: ProfileSnapshot) -> str:
    reasons = [
        f"{format_count(events)} {_REASONS[reason]}"
        for reason, events in snapshot.losses.by_reason.items()
        if events
    ]
    if not reasons:
        return "Lost: nothing, every call was counted."
    return f"Lost: {', '.join(reasons)}. The figures above are too low."


def _in_flight_lines(snapshot: ProfileSnapshot) -> list[str]:
    if not snapshot.in_flight:
        return []
    return [f"In flight at the end, and not counted: {format_count(snapshot.in_flight)} calls."]
