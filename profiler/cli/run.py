# SPDX-License-Identifier: Apache-2.0
"""Run a command with write-back settings that are in force only while it runs.

The originals are journaled, the settings applied and read back, and the command is run. When it has
returned, Writewise waits until the data is on the devices and restores the originals. Ctrl-C,
SIGTERM and SIGHUP are passed to the command; after its end they end the wait. After SIGKILL or a
reboot the next command that changes the host, or `writewise rollback`, restores.

A second run with the same settings joins the first, and the last one restores. With other settings
it is refused. So are sweep, apply and rollback until then.

--auto needs no settings: the thresholds are raised only while a burst would otherwise be throttled,
at most to --max-at-risk, as by `writewise govern`. It governs every volume, or those of --on DIR.
If another governor runs, that one governs, and this one when it has ended.

The report goes to standard error. With --json the document alone goes to standard output, and the
command's own output to standard error. Under sudo the command runs as the user who called it, not
as root, unless --user names another.

The exit code is that of the command; 125 if Writewise itself failed, 126 if the command is not
executable, 127 if it was not found.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING

from contracts.shared.errors import UsageError
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.json_documents import emit
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from profiler.govern.child import GovernRequest
    from profiler.recording.identity import Identity
    from profiler.report.run import RunReport
    from sysctl.apply.temporary import TemporaryLimits, TemporaryPlan
    from sysctl.change.recommendation import RecommendedChange
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.holding import Hold

NAME = "run"
HELP = "run a command with settings in force only while it runs"
NEEDS = ("root",)
IS_REMEMBERED = True

_STDOUT, _STDERR = 1, 2
#: Characters of the command that other commands print for this one.
_COMMAND_LENGTH = 60
_EXAMPLE = "writewise run --dirty-ratio 80 -- COMMAND"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the settings, the command, and what happens after it."""
    from profiler.cli.space_arguments import add_sysctl
    from sysctl.knobs.vm import THRESHOLDS

    parser.add_argument(
        "--settings",
        metavar="FILE",
        type=types.file,
        help="recommendation.json of `writewise advise`, or results of `writewise sweep`",
    )
    parser.add_argument(
        "--auto",
        action="store_true",
        help="raise the thresholds only while a burst would be throttled; no settings are needed",
    )
    parser.add_argument(
        "--on",
        metavar="DIR",
        action="append",
        default=[],
        type=types.destination,
        help="with --auto, only bursts onto the volume of DIR count; may be repeated (default: "
        "every volume)",
    )
    for name in THRESHOLDS:
        add_sysctl(parser, name, takes_several=False)
    parser.add_argument(
        "--no-drain",
        action="store_true",
        help="return with the command; a process stays behind, which drains and restores",
    )
    options.add_bound(
        parser, "; with --auto the bound of a raise (default: a quarter of the available memory)"
    )
    options.add_user(parser)
    options.add_other_memory(
        parser, "accept settings that were measured with a different memory size"
    )
    options.add_json(parser)
    options.add_output(parser, "report")
    options.add_command(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command under the settings; return its exit code. Raises WritewiseError."""
    from profiler.cli.common import terminable
    from profiler.recording.identity import chosen
    from profiler.report.console import plain_console
    from profiler.report.history import run_outcome
    from profiler.report.origin import origin_here
    from profiler.report.run import print_run, run_document
    from profiler.requirements import require
    from sysctl.host.system import System

    argv = options.command_of(arguments)
    if not argv:
        raise UsageError("COMMAND is missing", _EXAMPLE)
    _check_auto(arguments)
    wanted = None if arguments.auto else _wanted(arguments)
    require(*NEEDS)
    identity = chosen(arguments.user)
    origin = origin_here(System())
    with _output(arguments) as output, terminable():
        if wanted is None:
            report = _run_governed(arguments, argv, identity)
        else:
            report = _run(arguments, argv, identity, wanted)
        remember(arguments, run_outcome(report))
        if arguments.json:
            emit(NAME, {"measured": origin, **run_document(report)}, output)
        else:
            print_run(report, plain_console(output))
    return report.run.exit_code


def _check_auto(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that --auto does not go with, or that need it."""
    from sysctl.knobs.vm import BY_NAME, THRESHOLDS

    if not arguments.auto and arguments.on:
        raise UsageError("--on is an option of --auto", "pass --auto, too")
    flags = [BY_NAME[name].flag for name in THRESHOLDS if getattr(arguments, name) is not None]
    if arguments.auto and (flags or arguments.settings):
        other = flags[0] if flags else "--settings"
        raise UsageError(f"--auto and {other} cannot be used together", "pass one of them")


def _wanted(arguments: argparse.Namespace) -> Mapping[str, int] | RecommendedChange:
    """Return the sysctl values of the flags, or the recommendation. Raises UsageError."""
    from profiler.cli.space_arguments import check_ranges
    from sysctl.knobs.vm import BY_NAME, THRESHOLDS

    asked = {name: getattr(arguments, name) for name in THRESHOLDS}
    values = {name: value for name, value in asked.items() if value is not None}
    if arguments.settings is None and not values:
        hint = f"pass --auto, --settings FILE, or as in {_EXAMPLE}"
        raise UsageError("the settings are missing", hint)
    if arguments.settings is not None and values:
        flag = BY_NAME[next(iter(values))].flag
        raise UsageError(f"--settings and {flag} cannot be used together", "pass one of them")
    check_ranges({name: (value,) for name, value in values.items()})
    if arguments.settings is None:
        return values
    from profiler.cli.change_source import read_change

    return read_change(arguments.settings, trusted=True)


@contextlib.contextmanager
def _output(arguments: argparse.Namespace) -> Iterator[IO[str]]:
    """Yield where the report goes."""
    if arguments.output is None:
        yield sys.stdout if arguments.json else sys.stderr
        return
    from profiler.report.destination import new_file

    with new_file(str(arguments.output)) as file:
        yield file


class _Settings:
    """The settings that the first of several runs applies; `plan` is None for one that joins."""

    def __init__(
        self, wanted: Mapping[str, int] | RecommendedChange, limits: TemporaryLimits
    ) -> None:
        self._wanted, self._limits = wanted, limits
        self.plan: TemporaryPlan | None = None

    def apply(self, host: AppliedHost) -> None:
        """Plan for this host and apply all of it. Raises HostError and UsageError."""
        from sysctl.apply.temporary import perform, plan

        self.plan = plan(host.system, self._wanted, self._limits)
        perform(host, self.plan)

    def notes(self, hold: Hold) -> list[str]:
        """Return remarks on the settings in force. Raises HostError if they exceed the limit."""
        from sysctl.apply.temporary import check_in_force
        from sysctl.host.system import System

        if self.plan is not None:
            return [*self.plan.notes, *(f"left: {sentence}" for sentence in hold.left)]
        check_in_force(System(), self._limits)
        return hold.changed_since()


def _run(
    arguments: argparse.Namespace,
    argv: list[str],
    identity: Identity | None,
    wanted: Mapping[str, int] | RecommendedChange,
) -> RunReport:
    from profiler.recording.identity import command_user
    from profiler.report.run import RunReport, print_start, shown_drain
    from profiler.running.draining import HoldKeeper
    from profiler.running.run import HeldCommand, run_held
    from sysctl.apply.temporary import TemporaryLimits, settings_of
    from sysctl.host.holding import holding

    limits = TemporaryLimits(arguments.max_at_risk, arguments.yes_unmeasured, arguments.as_ratio)
    settings = _Settings(wanted, limits)
    console = options.progress_console(arguments)
    with holding(settings_of(wanted), _short(argv), settings.apply) as hold:
        notes = settings.notes(hold)
        print_start(hold.recovered, hold.others, notes, console)
        command = HeldCommand(argv, identity, _STDERR if _takes_stdout(arguments) else None)
        with shown_drain(console) as on_progress:
            keeper = HoldKeeper(hold)
            ran = run_held(keeper, command, on_progress, waits=not arguments.no_drain)
    before, during = (settings.plan.before, settings.plan.during) if settings.plan else ({}, {})
    return RunReport(
        run=ran,
        command_user=command_user(argv, identity) or str(os.geteuid()),
        before=before,
        during=during,
        joined=hold.others,
        remaining=hold.remaining,
        recovered=hold.recovered,
        restored=hold.restored,
        left=hold.not_restored,
        notes=notes,
    )


def _run_governed(
    arguments: argparse.Namespace, argv: list[str], identity: Identity | None
) -> RunReport:
    """Run the command while a process of this one governs."""
    from profiler.govern.beside import governed_beside
    from profiler.recording.identity import command_user
    from profiler.report.govern import values_words
    from profiler.report.run import (
        GovernedRun,
        RunReport,
        governed_notes,
        print_start,
        shown_drain,
    )
    from profiler.running.run import HeldCommand, run_held

    console = options.progress_console(arguments)
    with governed_beside(_request(arguments, argv)) as (governor, start):
        notes = governed_notes(start, arguments.on and start.volumes)
        print_start(start.recovered, (), notes, console)
        command = HeldCommand(argv, identity, _STDERR if _takes_stdout(arguments) else None)
        with shown_drain(console) as on_progress:
            ran = run_held(governor, command, on_progress, waits=not arguments.no_drain)
    state = governor.state
    is_lowered = state and state.sums.bursts and not state.is_raised and not state.stood_down
    return RunReport(
        run=ran,
        command_user=command_user(argv, identity) or str(os.geteuid()),
        before={},
        during={},
        joined=(),
        remaining=(),
        recovered=start.recovered,
        restored=[values_words(state.at_rest)] if state and is_lowered else [],
        left=[],
        notes=notes,
        governed=GovernedRun(start, state, governor.problem),
    )


def _request(arguments: argparse.Namespace, argv: list[str]) -> GovernRequest:
    """Return what is to be governed: the volumes of --on, or all. Raises UsageError."""
    from profiler.govern.child import GovernRequest
    from profiler.govern.volumes import every_volume, named_volumes
    from sysctl.govern.bounds import UNLIMITED_NS, RaiseLimits
    from sysctl.host.system import System

    mounts = System().mounts()
    volumes = named_volumes(arguments.on, mounts) if arguments.on else every_volume(mounts)
    limits = RaiseLimits(arguments.max_at_risk, UNLIMITED_NS)  # the command's life is the limit
    return GovernRequest(_short(argv), volumes, limits, are_named=bool(arguments.on))


def _takes_stdout(arguments: argparse.Namespace) -> bool:
    """Return whether the document takes standard output, so that the command must not."""
    return bool(arguments.json) and arguments.output is None


def _short(argv: list[str]) -> str:
    """Return the command without secrets, for the messages of other commands."""
    from contracts.shared.text import printable
    from profiler.recording.log_origin import without_secrets

    text = printable(" ".join(without_secrets(argv)))
    return f"`{text}`" if len(text) <= _COMMAND_LENGTH else f"`{text[:_COMMAND_LENGTH]}…`"
