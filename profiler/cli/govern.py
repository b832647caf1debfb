# SPDX-License-Identifier: Apache-2.0
"""Raise the dirty thresholds only while a burst onto DEST would otherwise be throttled.

It rests at the host's own vm.dirty_* values. When data arrives on a named volume faster than the
volume writes, so that the kernel would soon make writers wait, it raises the thresholds, at most to
--max-at-risk, and restores them when the burst is drained. Each raise is journaled before it is
made and restored at the end, on an error, on Ctrl-C and on SIGTERM; after SIGKILL the next command
that changes the host, or `writewise rollback`, restores it, and so does a boot.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.common import terminable
from profiler.cli.json_documents import emit

if TYPE_CHECKING:
    from profiler.govern.loop import Changed, Loop, Stop
    from profiler.govern.notify import Notifier
    from profiler.govern.volumes import NamedVolume
    from sysctl.govern.bounds import RaiseLimits
    from sysctl.govern.bursts import BurstAccount
    from sysctl.host.raising_host import RaisingHost

NAME = "govern"
HELP = "raise the thresholds only while a burst is written"
NEEDS = ("root",)

_DEFAULT_MAX_RAISE_NS = 600 * 10**9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the volumes, the bounds, and what to do without changing anything."""
    parser.add_argument(
        "destinations",
        metavar="DEST",
        nargs="+",
        type=types.destination,
        help="a directory on each volume whose bursts count",
    )
    parser.add_argument(
        "--max-at-risk",
        metavar="SIZE",
        type=types.positive_amount,
        help="the most data in memory only: 2GiB (default: a quarter of the available memory)",
    )
    parser.add_argument(
        "--max-raise",
        metavar="DURATION",
        type=types.positive_duration,
        default=_DEFAULT_MAX_RAISE_NS,
        help="lower the thresholds after this time at the latest (default: 10m)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="change nothing; print what it would do and the time that this would save",
    )
    parser.add_argument(
        "--print-unit", action="store_true", help="print a unit of systemd that runs it, and stop"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Govern until a signal; return 1 if another program changed the thresholds."""
    if arguments.print_unit:
        return _print_unit(arguments)
    from profiler.requirements import require
    from sysctl.govern.bounds import RaiseLimits
    from sysctl.host.raising_host import governing

    require(*NEEDS)
    limits = RaiseLimits(arguments.max_at_risk, arguments.max_raise)
    with terminable(), open_volumes(arguments.destinations) as (volumes, debugfs):
        purpose = f"govern of {', '.join(volume.target for volume in volumes)}"
        if arguments.dry_run:
            return _govern(arguments, volumes, debugfs, limits, None)
        with governing(purpose) as host:
            return _govern(arguments, volumes, debugfs, limits, host)


@contextmanager
def open_volumes(destinations: Sequence[Path]) -> Iterator[tuple[tuple[NamedVolume, ...], int]]:
    """Yield the volumes of directories, and a descriptor of debugfs that has their statistics.

    Raises UsageError, RequirementError, and HostError for a volume that the kernel does not count.
    """
    from profiler.govern.debugfs import open_debugfs
    from profiler.govern.volumes import missing, named_volumes
    from sysctl.host.system import HostError, System

    volumes = named_volumes(destinations, System().mounts())
    debugfs = open_debugfs()
    try:
        absent = missing(volumes, debugfs)
        if absent:
            raise HostError(
                f"the kernel has no dirty-page statistics of {absent[0].target}",
                "govern a volume with a block device of its own; btrfs has none",
            )
        yield volumes, debugfs
    finally:
        os.close(debugfs)


def _govern(
    arguments: argparse.Namespace,
    volumes: Sequence[NamedVolume],
    debugfs: int,
    limits: RaiseLimits,
    host: RaisingHost | None,
) -> int:
    """Run the loop, and print its lines and the summary."""
    from profiler.govern.loop import Loop, stopped_by_signals
    from profiler.govern.notify import Notifier
    from profiler.govern.reader import HostReader
    from profiler.govern.volumes import VolumeReader, counts_every_group
    from profiler.recording import privileges
    from profiler.report import govern as words

    targets = [volume.target for volume in volumes]
    with ExitStack() as stack:
        volume_reader = VolumeReader(volumes, debugfs)
        stack.callback(volume_reader.close)
        reader = HostReader(volume_reader.read)
        stack.callback(reader.close)
        out = _Output(targets, Notifier(os.environ), is_dry=host is None, as_json=arguments.json)
        for text in [*host.recovered, *host.left] if host else ():
            out.say(f"restored after a killed run: {text}")
        every_group = counts_every_group(volumes, debugfs)
        for sentence in words.notes(targets, counts_every_group=every_group):
            out.say(sentence)
        own = reader.values()
        out.begin(words.begin_line(targets, own, limits.max_at_risk_bytes, is_dry=host is None))
        privileges.keep_only({privileges.DAC_READ_SEARCH})
        loop = Loop(reader.read_news, limits, out, host)
        with stopped_by_signals() as stop:
            changed = _run(loop, stop, out)
    if arguments.json:
        document = words.govern_document(out.totals, targets, own, changed, is_dry=host is None)
        emit(NAME, document)
    else:
        print(words.summary_line(out.totals, is_dry=host is None), flush=True)
    return 1 if changed else 0


def _run(loop: Loop, stop: Stop, out: _Output) -> Changed | None:
    try:
        return loop.run(stop)
    finally:
        out.end()


class _Output:
    """Prints the reports of the loop, sums them up, and notifies systemd."""

    def __init__(
        self, targets: Sequence[str], notifier: Notifier, *, is_dry: bool, as_json: bool
    ) -> None:
        from profiler.govern.totals import Totals

        self.totals = Totals(time.monotonic_ns())
        self._targets, self._notifier = targets, notifier
        self._is_dry, self._as_json = is_dry, as_json

    def say(self, text: str) -> None:
        """Print a line, unless a document is printed at the end."""
        if not self._as_json:
            print(text, flush=True)

    def begin(self, text: str) -> None:
        """Print the first line and report that the service is ready."""
        self.say(text)
        self._notifier.ready("at rest")

    def burst(self, account: BurstAccount) -> None:
        """Print the burst and add it up."""
        from profiler.report.govern import burst_line

        self.totals.add(account)
        self.say(burst_line(account, self._targets, _time_of_day, is_dry=self._is_dry))

    def changed(self, changed: Changed) -> None:
        """Print what another program changed."""
        from profiler.report.govern import changed_lines

        now = _time_of_day(time.monotonic_ns())
        for line in changed_lines(changed, now, is_dry=self._is_dry):
            self.say(line)

    def raised(self, is_raised: bool) -> None:
        """Report to systemd whether the thresholds are raised."""
        self._notifier.status("raised for a burst" if is_raised else "at rest")

    def alive(self) -> None:
        """Report to systemd that the loop works."""
        self._notifier.alive()

    def end(self) -> None:
        """Report that the service is ending, and note the time."""
        self.totals.ended_ns = time.monotonic_ns()
        self._notifier.stopping()


def _time_of_day(monotonic_ns: int) -> str:
    """Return the local time of a time of the monotonic clock."""
    ago_s = (time.monotonic_ns() - monotonic_ns) / 10**9
    return time.strftime("%H:%M:%S", time.localtime(time.time() - ago_s))


def _print_unit(arguments: argparse.Namespace) -> int:
    """Print the unit with the same options and absolute destinations."""
    from contracts.shared.units import exact_size
    from sysctl.apply.governor_unit import governor_unit
    from sysctl.apply.units import program

    chosen = ["--max-raise", f"{-(-arguments.max_raise // 10**9)}s"]
    if arguments.max_at_risk is not None:
        chosen += ["--max-at-risk", exact_size(arguments.max_at_risk)]
    if arguments.dry_run:
        chosen.append("--dry-run")
    destinations = [destination.absolute() for destination in arguments.destinations]
    print(governor_unit(program(), chosen, destinations), end="")
    return 0
