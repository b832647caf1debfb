# SPDX-License-Identifier: Apache-2.0
"""Run a command with write-back settings that are in force only while it runs.

The originals are journaled, the settings applied and read back, and the command is run. When it has
returned, Writewise waits until the data is on the devices and restores the originals. Ctrl-C,
SIGTERM and SIGHUP are passed to the command; one that comes later ends the wait. After SIGKILL or a
reboot the next command that changes the host, or `writewise rollback`, restores.

A second run with the same settings joins the first, and the last one restores. With other settings
it is refused. So are sweep, apply and rollback until then.

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

if TYPE_CHECKING:
    from profiler.recording.identity import Identity
    from profiler.report.run import RunReport
    from sysctl.apply.temporary import TemporaryLimits, TemporaryPlan
    from sysctl.change.recommendation import RecommendedChange
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.holding import Hold

NAME = "run"
HELP = "run a command with settings in force only while it runs"
NEEDS = ("root",)

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
    for name in THRESHOLDS:
        add_sysctl(parser, name, takes_several=False)
    parser.add_argument(
        "--no-drain",
        action="store_true",
        help="return with the command; a process stays behind, which drains and restores",
    )
    options.add_bound(parser)
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
    from profiler.report.run import print_run, run_document
    from profiler.requirements import require

    argv = options.command_of(arguments)
    if not argv:
        raise UsageError("COMMAND is missing", _EXAMPLE)
    wanted = _wanted(arguments)
    require(*NEEDS)
    identity = chosen(arguments.user)
    with _output(arguments) as output, terminable():
        report = _run(arguments, argv, identity, wanted)
        if arguments.json:
            emit(NAME, run_document(report), output)
        else:
            print_run(report, plain_console(output))
    return report.run.exit_code


def _wanted(arguments: argparse.Namespace) -> Mapping[str, int] | RecommendedChange:
    """Return the sysctl values of the flags, or the recommendation. Raises UsageError."""
    from profiler.cli.space_arguments import check_ranges
    from sysctl.knobs.vm import BY_NAME, THRESHOLDS

    asked = {name: getattr(arguments, name) for name in THRESHOLDS}
    values = {name: value for name, value in asked.items() if value is not None}
    if arguments.settings is None and not values:
        raise UsageError("the settings are missing", f"pass --settings FILE, or as in {_EXAMPLE}")
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
            ran = run_held(hold, command, on_progress, waits=not arguments.no_drain)
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


def _takes_stdout(arguments: argparse.Namespace) -> bool:
    """Return whether the document takes standard output, so that the command must not."""
    return bool(arguments.json) and arguments.output is None


def _short(argv: list[str]) -> str:
    """Return the command without secrets, for the messages of other commands."""
    from contracts.shared.text import printable
    from profiler.recording.log_origin import without_secrets

    text = printable(" ".join(without_secrets(argv)))
    return f"`{text}`" if len(text) <= _COMMAND_LENGTH else f"`{text[:_COMMAND_LENGTH]}…`"
