# SPDX-License-Identifier: Apache-2.0
"""The live view of a profile on the terminal: rates, percentiles, stall, dirty memory.

It is erased at the end. Reading does not disturb the counters: rates are differences between two
readings.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from contracts.fields import size_range_text
from contracts.model import Contract, Slot
from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.units import format_count, format_duration, format_rate, format_size
from contracts.stats import CallStats
from contracts.vocabulary import call_types_text
from profiler.bpf.session import ProfileSnapshot
from profiler.watch.timeline import read_vmstat
from sysctl.knobs.writeback import Thresholds

REFRESH_INTERVAL_NS = 250 * 10**6
#: The interval of the one line that shows a look at the host.
LOOK_INTERVAL_NS = 10**9
#: The share of one CPU that the view may take; with very many slots it is refreshed less often.
REFRESH_SHARE = 0.2
_NS_PER_S = 10**9
_BAR_COLUMNS = 40
_VMSTAT = Path("/proc/vmstat")


def open_terminal() -> IO[str]:
    """Open the terminal that this process was started from, wherever its output goes.

    Raises UsageError when there is none, or one that cannot move its cursor.
    """
    hint = "leave --live out, or run it in a terminal"
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        raise UsageError("--live needs a terminal that can move its cursor (see TERM)", hint)
    try:
        return open("/dev/tty", "w", encoding="utf-8", errors="replace")  # noqa: PTH123
    except OSError:
        raise UsageError("--live needs a terminal, and there is none", hint) from None


class _Terminal(Console):
    """Leaves the cursor visible, since a killed profile could not restore it."""

    def show_cursor(self, show: bool = True) -> bool:
        """Do nothing."""
        return False


class LookView:
    """Shows the progress of a look at the host in one line on standard error, then erases it."""

    def __init__(self, duration_ns: int, read: Callable[[], ProfileSnapshot]) -> None:
        self._read = read
        self._before: ProfileSnapshot | None = None
        console = _Terminal(file=sys.stderr, highlight=False)
        columns = (
            TextColumn("looking at this host"),
            BarColumn(20),
            TextColumn("{task.fields[said]}"),
        )
        self._bar = Progress(*columns, console=console, transient=True, auto_refresh=False)
        self._task = self._bar.add_task("", total=duration_ns, said="")

    def __enter__(self) -> LookView:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def refresh(self) -> None:
        """Show the current state."""
        now = self._read()
        said = head_line(self._before, now)
        self._bar.update(self._task, completed=now.elapsed_ns, said=said)
        self._bar.refresh()
        self._before = now


class LiveView:
    """Shows what `read` returns at each `refresh`, on the terminal, while the context lasts.

    The context also closes the file. Not safe for several threads at a time.
    """

    def __init__(
        self,
        terminal: IO[str],
        contract: Contract,
        read: Callable[[], ProfileSnapshot],
        vmstat: Path = _VMSTAT,
    ) -> None:
        self._terminal = terminal
        self._slots = slots_shown(contract)
        self._read = read
        self._vmstat = vmstat
        self._before: ProfileSnapshot | None = None
        self._console = _Terminal(file=terminal)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError), self._terminal:  # the terminal may have gone
            self._live.stop()

    def refresh(self) -> None:
        """Read the counters and redraw."""
        now = self._read()
        dirty, writeback, threshold, background = read_vmstat(self._vmstat)
        view = Group(
            Text(head_line(self._before, now), no_wrap=True, overflow="ellipsis"),
            calls_table(self._slots, self._before, now),
            dirty_line(dirty + writeback, Thresholds(background, threshold)),
        )
        with contextlib.suppress(OSError):  # the terminal may be gone; the profile goes on
            self._console.size = os.get_terminal_size(self._terminal.fileno())
            self._live.update(view, refresh=True)
        self._before = now


def slots_shown(contract: Contract) -> dict[Slot, int]:
    """Return each slot with the index of its first rule, and so of its statistics in a snapshot."""
    indices: dict[Slot, int] = {}
    for index, rule in enumerate(contract.rules):
        if rule.slot is not None:
            indices.setdefault(rule.slot, index)
    return indices


def head_line(before: ProfileSnapshot | None, now: ProfileSnapshot) -> str:
    """Return the time since the beginning, the stall since the last reading, and losses."""
    lost = f" · lost: {format_count(now.losses.total)}" if now.losses.total else ""
    return f"{format_duration(now.elapsed_ns)} · {_stall(before, now)}{lost} · Ctrl-C ends"


def _stall(before: ProfileSnapshot | None, now: ProfileSnapshot) -> str:
    """Return the share of time in calls; calls in several slots have that weight on both sides."""
    in_calls_ns = _since(before, now, lambda calls: calls.latency_total_ns)
    if not in_calls_ns:
        return "no time in calls"
    share = _since(before, now, lambda calls: calls.throttled_ns) / in_calls_ns
    return f"{share:.0%} of the time in calls stalled by dirty throttling"


def _since(
    before: ProfileSnapshot | None, now: ProfileSnapshot, figure: Callable[[CallStats], int]
) -> int:
    earlier = sum(map(figure, before.stats)) if before else 0
    return sum(map(figure, now.stats)) - earlier


def calls_table(
    slots: dict[Slot, int], before: ProfileSnapshot | None, now: ProfileSnapshot
) -> Table:
    """Return a row for each slot: rates since the last reading, the rest since the beginning."""
    table = Table(box=None, pad_edge=False)
    table.add_column("calls of", ratio=1)  # shrinks first, since the others must not wrap
    for name in ("calls", "calls/s", "bytes/s", "p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    elapsed_ns = now.elapsed_ns - (before.elapsed_ns if before else 0)
    for slot, index in slots.items():
        earlier = before.stats[index] if before else CallStats()
        table.add_row(*_cells(slot, earlier, now.stats[index], elapsed_ns))
    return table


def _cells(slot: Slot, before: CallStats, now: CallStats, elapsed_ns: int) -> tuple[Text, ...]:
    per_s = _NS_PER_S / elapsed_ns if elapsed_ns > 0 else 0.0
    bytes_per_s = (now.bytes - before.bytes) * per_s
    latencies = (
        [format_duration(now.percentile_ns(percent)) for percent in (50, 99)]
        if now.count
        else ["–", "–"]
    )
    cells = (
        format_count(now.count),
        format_count(round((now.count - before.count) * per_s)),
        format_rate(bytes_per_s) if slot.moves_bytes else "–",
        *latencies,
    )
    return (_title(slot), *map(Text, cells))


def _title(slot: Slot) -> Text:
    sizes = "" if slot.size_range.is_all else f" {size_range_text(slot.size_range)}"
    title = f"{call_types_text(slot.call_types)}{sizes} {printable(slot.path)}"
    return Text(title, no_wrap=True, overflow="ellipsis")


def dirty_line(held_bytes: int, thresholds: Thresholds, columns: int = _BAR_COLUMNS) -> Text:
    """Return memory dirty and under write-back as a bar up to the dirty threshold.

    `b` marks the background threshold and `f` freerun, above which writers may be made to wait.
    """
    limit_bytes = max(1, thresholds.dirty_bytes)
    filled = min(columns, columns * held_bytes // limit_bytes)
    cells = ["█" if column < filled else "·" for column in range(columns)]
    marks = (("b", thresholds.background_bytes), ("f", thresholds.freerun_bytes))
    for mark, threshold_bytes in marks:
        cells[min(columns - 1, columns * threshold_bytes // limit_bytes)] = mark
    style = _dirty_style(held_bytes, thresholds)
    figures = f" {format_size(held_bytes)} dirty of {format_size(thresholds.dirty_bytes)}"
    line = Text.assemble(("".join(cells), style), figures)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _dirty_style(held_bytes: int, thresholds: Thresholds) -> str:
    if held_bytes > thresholds.freerun_bytes:
        return "red"
    return "yellow" if held_bytes > thresholds.background_bytes else "green"
