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
from collections.abc import Sequence
from typing import TYPE_CHECKING

from contracts.shared import exit_codes
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.common import terminable
from profiler.cli.json_documents import emit
from profiler.cli.printed_unit import add_print_unit, duration_word, unit_paths
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from profiler.govern.accounts import Accounts
    from profiler.govern.admission import Admission
    from profiler.govern.loop import Changed, Loop
    from profiler.govern.notify import Notifier
    from profiler.govern.volumes import NamedVolume
    from profiler.recording.stopping import Stop
    from sysctl.govern.bounds import RaiseLimits
    from sysctl.govern.bursts import BurstAccount
    from sysctl.govern.policy import Unhelped
    from sysctl.host.raising_host import RaisingHost

NAME = "govern"
HELP = "raise the thresholds only while a burst is written"
NEEDS = ("root",)
IS_REMEMBERED = True

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
        "--admit",
        metavar="WRITER",
        action="append",
        default=[],
        help="raise only for bursts of WRITER: cgroup=PATH is a control group, comm=NAME programs "
        "of this name and what they start (no security boundary); may be repeated "
        "(default: all programs)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="change nothing; print what it would do and the time that this would save",
    )
    add_print_unit(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Govern until a signal; return STOOD_DOWN if another program changed the thresholds."""
    from profiler.govern.admission import admission

    admitted = admission(arguments.admit)
    if arguments.print_unit:
        return _print_unit(arguments)
    from profiler.govern.child import SERVICE
    from profiler.govern.volumes import named_volumes, opened_volumes
    from profiler.requirements import require
    from sysctl.govern.bounds import RaiseLimits
    from sysctl.host.raising_host import governing
    from sysctl.host.system import System

    require(*NEEDS)
    named = named_volumes(arguments.destinations, System().mounts())
    limits = RaiseLimits(arguments.max_at_risk, arguments.max_raise)
    with terminable(), opened_volumes(named) as (volumes, debugfs):
        purpose = f"{SERVICE}{', '.join(volume.target for volume in volumes)}"
        if arguments.dry_run:
            return _govern(arguments, volumes, debugfs, limits, None, purpose, admitted)
        with governing(purpose) as host:
            return _govern(arguments, volumes, debugfs, limits, host, purpose, admitted)


def _govern(
    arguments: argparse.Namespace,
    volumes: Sequence[NamedVolume],
    debugfs: int,
    limits: RaiseLimits,
    host: RaisingHost | None,
    purpose: str,
    admitted: Admission,
) -> int:
    """Run the loop, and print its lines and the summary."""
    from profiler.govern.accounts import Accounts, Governed
    from profiler.govern.dirty_events import opened_dirty_events
    from profiler.govern.loop import Loop
    from profiler.govern.notify import Notifier
    from profiler.govern.volumes import counts_every_group, opened_reader
    from profiler.govern.writers import Writers, groups_for
    from profiler.recording import privileges
    from profiler.recording.stopping import stopped_by_signals
    from profiler.report import govern as words
    from sysctl.govern.bounds import low_bound
    from sysctl.host.host import is_raised_by_a_governor

    targets = [volume.target for volume in volumes]
    every_group = counts_every_group(volumes, debugfs)
    groups = groups_for(admitted)
    writers = Writers(admitted, groups)
    counts_host = bool(admitted) and not every_group
    with (
        opened_reader(volumes, debugfs, writers, counts_host=counts_host) as reader,
        opened_dirty_events(reader.read().thresholds) as events,
    ):
        own = reader.values()
        governed = Governed(purpose, targets, limits, own)
        accounts, is_dry = Accounts(governed, is_kept=host is not None), host is None
        out = Output(accounts, Notifier(os.environ), is_dry=is_dry, as_json=arguments.json)
        for text in host.recovered if host else ():
            out.say(f"restored after a killed run: {text}")
        for text in host.left if host else ():
            out.say(f"left: {text}")
        absent = groups.absent(admitted.cgroups) if groups else ()
        if is_dry and is_raised_by_a_governor():
            out.say(words.RAISED_NOW)
        for sentence in words.notes(
            *(targets, admitted.words, absent, low_bound(limits, reader.read())),
            counts_every_group=every_group,
        ):
            out.say(sentence)
        bound_bytes = limits.max_at_risk_bytes
        out.begin(words.begin_line(targets, own, bound_bytes, admitted.words, is_dry=is_dry))
        privileges.keep_only({privileges.DAC_READ_SEARCH, privileges.SYS_PTRACE})
        loop = Loop(reader.read_news, limits, out, host, events=events)
        with stopped_by_signals() as stop:
            changed = _run(loop, stop, out)
    summary = words.summary_line(accounts.state.sums, is_dry=is_dry)
    remember(arguments, summary)
    if arguments.json:
        document = words.govern_document(accounts, admitted.words, changed, is_dry=is_dry)
        emit(NAME, document)
    else:
        print(summary, flush=True)
    return exit_codes.STOOD_DOWN if changed else exit_codes.SUCCESS


def _run(loop: Loop, stop: Stop, out: Output) -> Changed | None:
    try:
        return loop.run(stop)
    finally:
        out.end()


class Output:
    """Prints the reports of the loop, sums them up, and notifies systemd."""

    def __init__(
        self, accounts: Accounts, notifier: Notifier, *, is_dry: bool, as_json: bool
    ) -> None:
        self._accounts, self._notifier = accounts, notifier
        self._is_dry, self._as_json = is_dry, as_json

    def say(self, text: str) -> None:
        """Print a line, unless a document is printed at the end."""
        if not self._as_json:
            print(text, flush=True)

    def begin(self, text: str) -> None:
        """Print the first line and report that the service is ready."""
        self.say(text)
        self._end_days()
        self._notifier.ready("at rest")

    def burst(self, account: BurstAccount) -> None:
        """Print the burst and add it up."""
        from profiler.report.govern import burst_line

        self._accounts.burst(account)
        targets = self._accounts.state.volumes
        self.say(burst_line(account, targets, _time_of_day, is_dry=self._is_dry))

    def changed(self, changed: Changed) -> None:
        """Print what another program changed."""
        from profiler.report.govern import changed_lines

        if not self._is_dry:
            self._accounts.stood_down(changed.before, changed.after)
        now = _time_of_day(time.monotonic_ns())
        for line in changed_lines(changed, now, is_dry=self._is_dry):
            self.say(line)

    def unhelped(self, burst: Unhelped) -> None:
        """Print that nothing is raised for a burst."""
        from profiler.report.govern import unhelped_line

        self.say(unhelped_line(burst, _time_of_day))

    def raised(self, is_raised: bool) -> None:
        """Report whether the thresholds are raised."""
        self._accounts.raised(is_raised)
        raised = "a burst: a dry run, nothing is raised" if self._is_dry else "raised for a burst"
        self._notifier.status(raised if is_raised else "at rest")

    def alive(self) -> None:
        """Report to systemd that the loop works; print the summary of a day that is over."""
        self._notifier.alive()
        if self._accounts.beat():
            self._end_days()

    def _end_days(self) -> None:
        """Print the summary of each day that is over, unless a document is printed at the end."""
        if self._as_json:  # then no day counts as printed either
            return
        from profiler.report.govern import day_line

        for day in self._accounts.finished_days():
            self.say(day_line(day, is_dry=self._is_dry))

    def end(self) -> None:
        """Report that the service is ending, and note the time."""
        self._accounts.ended()
        self._notifier.stopping()


def _time_of_day(monotonic_ns: int) -> str:
    """Return the local time of a time of the monotonic clock."""
    ago_s = (time.monotonic_ns() - monotonic_ns) / 10**9
    return time.strftime("%H:%M:%S", time.localtime(time.time() - ago_s))


def _print_unit(arguments: argparse.Namespace) -> int:
    """Print the unit with the same options."""
    from contracts.shared.units import exact_size
    from profiler.govern.admission import admission
    from sysctl.apply.governor_unit import governor_unit
    from sysctl.apply.units import program

    chosen = ["--max-raise", duration_word(arguments.max_raise)]
    if arguments.max_at_risk is not None:
        chosen += ["--max-at-risk", exact_size(arguments.max_at_risk)]
    if arguments.dry_run:
        chosen.append("--dry-run")
    if arguments.admit:
        chosen += [each for word in admission(arguments.admit).words for each in ("--admit", word)]
    print(governor_unit(program(), chosen, unit_paths(arguments.destinations)), end="")
    return 0
