"""Count and time the calls of a command, a process or the whole host under a contract.

Standard output stays usable: beside a command the report goes to standard error. With --json the
document is all that goes to standard output, and the command's own goes to standard error. With
--output FILE the report goes to that file and the command's output is left alone. --live draws on
the terminal itself, so a command's output must go elsewhere: to a file or a pipe.

Under sudo the command runs as the user who called it, not as root; --user says otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING

from contracts.shared.errors import UsageError
from profiler.cli import argument_types
from profiler.cli.needs import PROFILE

if TYPE_CHECKING:
    from contracts.model import Contract
    from profiler.bpf.loader import Compiler
    from profiler.bpf.session import ProfileSession
    from profiler.recording.identity import Identity
    from profiler.recording.recording import Profile, Recording
    from profiler.report.log import RecordLog

NAME = "profile"
HELP = "count and time the calls of a command, a process or the host under a contract"
NEEDS = PROFILE

_STDOUT, _STDERR = 1, 2
#: They end the command in order even before anything is counted; Ctrl-C does by itself.
_ENDS = (signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to profile, under which contract, and where the report goes."""
    parser.add_argument("--contract", metavar="FILE", help="default: the case study's")
    _add_output_arguments(parser)
    parser.add_argument(
        "--pid",
        metavar="N",
        type=argument_types.process_id,
        help="profile a process and all it starts",
    )
    parser.add_argument("--comm", metavar="NAME", help="only threads of this name")
    parser.add_argument("--cgroup", metavar="DIR", help="only tasks in this control group")
    parser.add_argument(
        "--duration",
        metavar="TIME",
        type=argument_types.duration,
        help="how long, e.g. 10s; without --pid the whole host is profiled",
    )
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="whom the command runs as; default: who called sudo, else root",
    )
    parser.add_argument(
        "argv",
        metavar="-- COMMAND ARG…",
        nargs=argparse.REMAINDER,
        help="run a command; the exit code is its own",
    )


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="report as a JSON document")
    parser.add_argument("--output", metavar="FILE", help="write the report to a new file")
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="append a record for each violated rule and timeframe, in the format of Mistral's log",
    )
    parser.add_argument("--live", action="store_true", help="show the figures while it runs")


def run(arguments: argparse.Namespace) -> int:
    """Profile and report; the command's exit code, or 0. Raises WritewiseError."""
    from profiler.bpf.loader import Compiler
    from profiler.cli.common import terminable

    argv = arguments.argv[1:] if arguments.argv[:1] == ["--"] else arguments.argv
    _check(arguments, argv)
    # The compiler first: all that comes before it is asked takes as long as its start.
    with (
        terminable((signal.SIGTERM, signal.SIGHUP)),
        Compiler(meanwhile=_import_report) as compiler,
    ):
        from contracts.loading import load_contract
        from profiler.recording.identity import chosen, command_user
        from profiler.recording.timeframes import check_timeframe
        from profiler.requirements import require

        contract = load_contract(arguments.contract)
        check_timeframe(contract)
        require(*NEEDS)
        identity = chosen(arguments.user) if argv else None
        with _log(arguments, contract, argv) as log, _output(arguments, bool(argv)) as output:
            recording, exit_code = _record(arguments, contract, argv, identity, log, compiler)
            profile = replace(recording.profile, command_user=command_user(argv, identity))
            _report(profile, output, arguments.json)
            recording.check()
    return exit_code


def _import_report() -> None:
    import profiler.report.profile  # noqa: F401


def _check(arguments: argparse.Namespace, argv: list[str]) -> None:
    others = arguments.pid is not None or arguments.duration is not None
    if argv and others:
        raise UsageError("a command is profiled until it ends; leave --pid and --duration out")
    if arguments.user is not None and not argv:
        raise UsageError("--user is for a command", "writewise profile --user NAME -- COMMAND")
    if not (argv or others or arguments.comm or arguments.cgroup):
        hint = "writewise profile -- COMMAND, or --pid N, or --duration 10s for the whole host"
        raise UsageError("nothing to profile was named", hint)
    if argv and arguments.live and any(map(os.isatty, _command_outputs(arguments))):
        message = "the live view and the command's output would mix on the terminal"
        raise UsageError(message, "send the output elsewhere: … -- COMMAND >out.txt 2>err.txt")


def _command_outputs(arguments: argparse.Namespace) -> set[int]:
    """The descriptors that a command's output and errors go to."""
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
    """Where the report goes."""
    if arguments.output is None:
        yield sys.stderr if beside_command and not arguments.json else sys.stdout
        return
    from profiler.report.destination import new_file

    with new_file(arguments.output) as file:
        yield file


def _record(
    arguments: argparse.Namespace,
    contract: Contract,
    argv: list[str],
    identity: Identity | None,
    log: RecordLog | None,
    compiler: Compiler,
) -> tuple[Recording, int]:
    """Let what is profiled happen; what was recorded, and the exit code."""
    from profiler.bpf.filter import ScopeFilter
    from profiler.bpf.session import ProfileSession
    from profiler.recording import privileges
    from profiler.recording.recording import Recording

    scope_filter = ScopeFilter(comm=arguments.comm, cgroup=arguments.cgroup)
    host_wide = not argv and arguments.pid is None
    with ProfileSession(
        contract, host_wide=host_wide, scope_filter=scope_filter, compiler=compiler
    ) as session:
        needed = privileges.needed_to_profile(
            changes_user=identity is not None, may_remove_output=arguments.output is not None
        )
        privileges.keep_only(needed)  # before there is a second thread: they are of a thread
        recording = Recording(
            session, contract, lambda: _pids(arguments, argv), [log] if log else []
        )
        with _live_view(arguments, contract, recording), recording:
            exit_code = _wait(session, arguments, argv, identity, log)
    return recording, exit_code


def _pids(arguments: argparse.Namespace, argv: list[str]) -> Callable[[], Iterable[int]]:
    """The processes whose memory and CPU time rules of resources measure."""
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
    if not arguments.live:
        yield
        return
    from profiler.report import live
    from profiler.watch.ticker import Beat

    with live.LiveView(live.open_terminal(), contract, recording.timeframes.so_far) as view:
        recording.add(Beat(live.REFRESH_INTERVAL_NS, view.refresh, live.REFRESH_SHARE))
        yield


def _wait(
    session: ProfileSession,
    arguments: argparse.Namespace,
    argv: list[str],
    identity: Identity | None,
    log: RecordLog | None,
) -> int:
    """Until what is profiled is over; the exit code."""
    if argv:
        from profiler.recording.command import run_command

        stdout_fd = None if _STDOUT in _command_outputs(arguments) else _STDERR
        on_start = log.set_pid if log else None
        return run_command(session, argv, identity=identity, stdout_fd=stdout_fd, on_start=on_start)
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
    """That calls are counted from now on; the live view shows it otherwise."""
    if not arguments.live:
        print(f"profiling {what}; Ctrl-C ends it and reports", file=sys.stderr, flush=True)


def _report(profile: Profile, output: IO[str], as_json: bool) -> None:
    from profiler.report.profile import print_profile, write_document

    (write_document if as_json else print_profile)(profile, output)
