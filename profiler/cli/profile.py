# SPDX-License-Identifier: Apache-2.0
"""Count and time the calls of a command, a process or the whole host under a contract.

Without arguments it watches the writes and fsyncs of the whole host for a minute and says whether
its writers wait for write-back: the first step on a node, while its job runs as it always does. It
changes nothing.

The report goes to standard output, and next to a command to standard error. With --json the
document alone goes to standard output, and the command's own output to standard error. With
--output FILE the report goes to that file, and the command's output is left alone. --html FILE
writes it as a page for the browser in addition. --live draws on the terminal itself, so a command's
output must then go to a file or a pipe.

Under sudo the command runs as the user who called it, not as root, unless --user names another.

The exit code is that of the command; 125 if Writewise itself failed, 126 if the command is not
executable, 127 if it was not found.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import IO, TYPE_CHECKING

from contracts.shared.errors import UsageError
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.html_option import add_html, html_file
from profiler.cli.json_documents import emit
from profiler.cli.needs import PROFILE
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from contracts.model import Contract
    from profiler.bpf.loader import Compiler
    from profiler.bpf.session import ProfileSession
    from profiler.recording.identity import Identity
    from profiler.recording.recording import Profile, Recording
    from profiler.recording.scope import ProfileScope
    from profiler.report.log import RecordLog

NAME = "profile"
HELP = "measure the calls of a command, a process or the host"
NEEDS = PROFILE
IS_REMEMBERED = True

_STDOUT, _STDERR = 1, 2
#: How long a first look at the host takes.
LOOK_NS = 60 * 10**9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to profile, under which contract, and where the report goes."""
    parser.add_argument(
        "--pid",
        metavar="N",
        type=types.process_id,
        help="profile a process and all that it starts",
    )
    parser.add_argument("--comm", metavar="NAME", help="only threads with this name")
    parser.add_argument("--cgroup", metavar="DIR", help="only tasks in this control group")
    parser.add_argument(
        "--duration",
        metavar="DURATION",
        type=types.positive_duration,
        help="how long, such as 10s (default for the whole host: 60s)",
    )
    options.add_user(parser)
    options.add_contract(parser)
    options.add_json(parser)
    options.add_output(parser, "report")
    add_html(parser)
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="append a record for each violated rule and timeframe, in the format of Mistral's log",
    )
    parser.add_argument("--live", action="store_true", help="show the figures while it runs")
    options.add_details(parser)
    options.add_command(parser)


def run(arguments: argparse.Namespace) -> int:
    """Profile and report; return the command's exit code, or 0. Raises WritewiseError."""
    from profiler.bpf.loader import Compiler
    from profiler.cli.common import terminable

    argv = options.command_of(arguments)
    _check(arguments, argv)
    # Start the compiler first: the steps before its first request take as long as its start.
    with (
        terminable((signal.SIGTERM, signal.SIGHUP)),
        Compiler(while_compiling=_import_report) as compiler,
    ):
        from dataclasses import replace

        from contracts.loading import FIRST_LOOK, load_contract
        from profiler.recording.identity import chosen, command_user
        from profiler.recording.timeframes import check_timeframe
        from profiler.report.history import profile_outcome
        from profiler.report.origin import origin_here
        from profiler.report.profile import profile_document
        from profiler.requirements import require

        is_look = _is_look(arguments, argv)
        if is_look and arguments.duration is None:
            arguments.duration = LOOK_NS
        contract = load_contract(str(FIRST_LOOK) if is_look else arguments.contract)
        check_timeframe(contract)
        require(*NEEDS)
        identity = chosen(arguments.user) if argv else None
        measured = origin_here()
        with (
            _log(arguments, contract, argv) as log,
            _output(arguments, bool(argv)) as output,
            html_file(arguments) as write_html,
        ):
            recording, exit_code = _record(arguments, contract, argv, identity, log, compiler)
            profile = replace(
                recording.profile,
                command_user=command_user(argv, identity),
                scope=_scope(arguments, argv),
            )
            content = cache(lambda: profile_document(profile, measured))
            if arguments.json:
                emit(NAME, content(), output)
            else:
                _report(profile, output, is_look=is_look and not arguments.details)
            write_html(NAME, content)
            remember(arguments, profile_outcome(profile))
            recording.check()
    return exit_code


def _is_look(arguments: argparse.Namespace, argv: list[str]) -> bool:
    """Return whether it is a first look at the whole host: no target was named."""
    named = (arguments.pid, arguments.comm, arguments.cgroup, arguments.contract, arguments.log)
    return not argv and all(each is None for each in named)


def _scope(arguments: argparse.Namespace, argv: list[str]) -> ProfileScope:
    from profiler.recording.scope import ProfileScope, ProfileTarget

    if argv:
        target = ProfileTarget.COMMAND
    elif arguments.pid:
        target = ProfileTarget.PROCESS
    else:
        target = ProfileTarget.HOST
    return ProfileScope(target, arguments.comm, arguments.cgroup)


def _import_report() -> None:
    import profiler.report.profile  # noqa: F401


def _check(arguments: argparse.Namespace, argv: list[str]) -> None:
    others = arguments.pid is not None or arguments.duration is not None
    if argv and others:
        raise UsageError("--pid and --duration cannot be used with a command", "omit them")
    if arguments.user is not None and not argv:
        raise UsageError("--user needs a command", "writewise profile --user NAME -- COMMAND")
    if argv and arguments.live and any(map(os.isatty, _command_outputs(arguments))):
        message = "the live view and the command's output would mix on the terminal"
        raise UsageError(message, "send the output elsewhere: … -- COMMAND >out.txt 2>err.txt")


def _command_outputs(arguments: argparse.Namespace) -> set[int]:
    """Return the descriptors for a command's output and errors."""
    own_stdout = not arguments.json or arguments.output
    return {_STDOUT if own_stdout else _STDERR, _STDERR}


@contextlib.contextmanager
def _log(
    arguments: argparse.Namespace, contract: Contract, argv: list[str]
) -> Iterator[RecordLog | None]:
    if arguments.log is None:
        yield None
        return
    from profiler.recording.append_only import open_to_append
    from profiler.recording.log_origin import command_of, origin
    from profiler.report.log import RecordLog, is_record

    pid = arguments.pid or 0
    words = argv or (command_of(pid) if pid else [])
    where = origin([rule.path for rule in contract.rules], pid, words)
    log = RecordLog(open_to_append(arguments.log, is_record), contract, where)
    try:
        yield log
    finally:
        log.close()


@contextlib.contextmanager
def _output(arguments: argparse.Namespace, beside_command: bool) -> Iterator[IO[str]]:
    """Yield where the report goes."""
    if arguments.output is None:
        yield sys.stderr if beside_command and not arguments.json else sys.stdout
        return
    from profiler.report.destination import new_file

    with new_file(str(arguments.output)) as file:
        yield file


def _record(
    arguments: argparse.Namespace,
    contract: Contract,
    argv: list[str],
    identity: Identity | None,
    log: RecordLog | None,
    compiler: Compiler,
) -> tuple[Recording, int]:
    """Run the profile; return what was recorded, and the exit code."""
    from profiler.bpf.filter import ScopeFilter
    from profiler.bpf.session import ProfileSession
    from profiler.recording import privileges
    from profiler.recording.recording import Recording
    from profiler.watch.volumes import EbsVolumes

    scope_filter = ScopeFilter(comm=arguments.comm, cgroup=arguments.cgroup)
    host_wide = not argv and arguments.pid is None
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(
            ProfileSession(
                contract, host_wide=host_wide, scope_filter=scope_filter, compiler=compiler
            )
        )
        volumes = stack.enter_context(EbsVolumes(disk.name for disk in session.devices))
        needed = privileges.needed_to_profile(
            changes_user=identity is not None,
            may_remove_output=bool(arguments.output or arguments.html),
            reads_log_page=bool(volumes.volumes),
        )
        privileges.keep_only(needed)  # before a second thread starts: privileges are per thread
        logs = [log] if log else []
        recording = Recording(
            session, contract, lambda: _pids(arguments, argv), logs, volumes.recorder()
        )
        with _live_view(arguments, contract, recording), recording:
            exit_code = _wait(session, arguments, argv, identity, log)
    return recording, exit_code


def _pids(arguments: argparse.Namespace, argv: list[str]) -> Callable[[], Iterable[int]]:
    """Return the processes whose memory and CPU time resource rules measure."""
    from profiler.watch import resources

    if argv or arguments.pid:
        pids = resources.tree_below(arguments.pid or os.getpid())
    else:
        pids = resources.every_process
    return resources.narrowed(pids, arguments.comm, arguments.cgroup)


@contextlib.contextmanager
def _live_view(
    arguments: argparse.Namespace, contract: Contract, recording: Recording
) -> Iterator[None]:
    from profiler.report import live
    from profiler.watch.ticker import Beat

    if _shows_look(arguments):
        read = recording.timeframes.so_far
        with live.LookView(arguments.duration, read) as look:
            recording.add(Beat(live.LOOK_INTERVAL_NS, look.refresh, live.REFRESH_SHARE))
            yield
        return
    if not arguments.live:
        yield
        return
    with live.LiveView(live.open_terminal(), contract, recording.timeframes.so_far) as view:
        recording.add(Beat(live.REFRESH_INTERVAL_NS, view.refresh, live.REFRESH_SHARE))
        yield


def _shows_look(arguments: argparse.Namespace) -> bool:
    """Return whether a terminal shows the progress of a look at the whole host."""
    is_host_wide = not arguments.argv and arguments.pid is None
    is_timed = arguments.duration is not None
    return is_host_wide and is_timed and not arguments.live and sys.stderr.isatty()


def _wait(
    session: ProfileSession,
    arguments: argparse.Namespace,
    argv: list[str],
    identity: Identity | None,
    log: RecordLog | None,
) -> int:
    """Wait until the profile ends; return the exit code."""
    if argv:
        from profiler.recording.command import run_command

        stdout_fd = None if _STDOUT in _command_outputs(arguments) else _STDERR
        on_start = log.set_pid if log else None
        return run_command(
            argv,
            starting=session.tracking_new(),
            identity=identity,
            stdout_fd=stdout_fd,
            on_start=on_start,
        )
    from profiler.recording.waiting import until_interrupted, wait, wait_for_process

    with until_interrupted():
        if arguments.pid is None:
            _say(arguments, "the host")
            wait(arguments.duration)
        else:
            name = f"process {arguments.pid}"
            on_start = partial(_say, arguments, name)
            wait_for_process(session, arguments.pid, arguments.duration, on_start)
    return 0


def _say(arguments: argparse.Namespace, what: str) -> None:
    """Print that calls are counted from now on; with the live view that is visible."""
    is_silent = arguments.live or _shows_look(arguments) or options.is_quiet(arguments)
    if not is_silent:
        print(f"profiling {what}; Ctrl-C ends it and reports", file=sys.stderr, flush=True)


def _report(profile: Profile, output: IO[str], *, is_look: bool) -> None:
    from profiler.report.profile import print_profile

    print_profile(profile, output, is_look=is_look)
