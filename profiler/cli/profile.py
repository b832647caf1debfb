"""Count and time the writes of a command, a process or the whole host under a contract.

Standard output stays usable: beside a command the report goes to standard error. With --json the
document is all that goes to standard output, and the command's own goes to standard error. With
--output FILE the report goes to that file and the command's output is left alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from contracts.errors import UsageError, WritewiseError
from profiler.cli import argument_types

if TYPE_CHECKING:
    from types import FrameType

    from contracts.model import Contract
    from profiler.session import ProfileSession, ProfileSnapshot

NAME = "profile"
HELP = "count and time the writes of a command, a process or the host under a contract"

_STDOUT, _STDERR = 1, 2
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FILE_COLUMNS = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to profile, under which contract, and where the report goes."""
    parser.add_argument("--contract", metavar="FILE", help="default: the case study's")
    parser.add_argument("--json", action="store_true", help="report as a JSON document")
    parser.add_argument("--output", metavar="FILE", help="write the report to a new file")
    parser.add_argument(
        "--pid",
        metavar="N",
        type=argument_types.process_id,
        help="profile a process and all it starts",
    )
    parser.add_argument(
        "--duration",
        metavar="TIME",
        type=argument_types.duration,
        help="how long, e.g. 10s; without --pid the whole host is profiled",
    )
    parser.add_argument(
        "argv",
        metavar="-- COMMAND ARG…",
        nargs=argparse.REMAINDER,
        help="run a command; the exit code is its own",
    )


def run(arguments: argparse.Namespace) -> int:
    """Profile and report; the command's exit code, or 0. Raises WritewiseError."""
    from contracts.loading import load_contract
    from profiler.requirements import NEEDED_BY, require
    from profiler.session import ProfileSession

    argv = arguments.argv[1:] if arguments.argv[:1] == ["--"] else arguments.argv
    _check(arguments, argv)
    contract = load_contract(arguments.contract)
    require(*NEEDED_BY[NAME])
    host_wide = not argv and arguments.pid is None
    with _output(arguments, bool(argv)) as output:
        with ProfileSession(contract, host_wide=host_wide) as session:
            exit_code = _wait(session, arguments, argv)
            threads_left = session.threads_followed()  # first: the calls of one that ends are in
            snapshot = session.snapshot()
        _report(contract, snapshot, threads_left, output, arguments.json)
    return exit_code


def _check(arguments: argparse.Namespace, argv: list[str]) -> None:
    others = arguments.pid is not None or arguments.duration is not None
    if argv and others:
        raise UsageError("a command is profiled until it ends; leave --pid and --duration out")
    if not argv and not others:
        hint = "writewise profile -- COMMAND, or --pid N, or --duration 10s for the whole host"
        raise UsageError("nothing to profile was named", hint)


def _wait(session: ProfileSession, arguments: argparse.Namespace, argv: list[str]) -> int:
    """Let what is profiled happen; the exit code."""
    from profiler.command import run_command

    if argv:
        own_stdout = not arguments.json or arguments.output
        return run_command(session, argv, stdout_fd=None if own_stdout else _STDERR)
    duration_ms = None if arguments.duration is None else arguments.duration // 10**6
    with _until_interrupted():
        if arguments.pid is None:
            time.sleep(arguments.duration / 10**9)
        else:
            _follow(session, arguments.pid, duration_ms)
    return 0


def _follow(session: ProfileSession, pid: int, duration_ms: int | None) -> None:
    """Until the process ends or the time is over."""
    try:
        process_fd = os.pidfd_open(pid)
    except OSError as error:
        message = f"cannot follow process {pid}: {error.strerror}"
        raise UsageError(message, "give the id of a running process") from None
    try:
        session.track(pid)
        poll = select.poll()
        poll.register(process_fd, select.POLLIN)
        poll.poll(duration_ms)
    finally:
        os.close(process_fd)


class _InterruptedError(Exception):
    """SIGINT, SIGTERM or SIGHUP: stop waiting, and report."""


@contextlib.contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a lost connection end what is inside, and nothing else.

    What is ignored stays so (nohup).
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        restore()  # a second one is not meant for the wait, which is over
        raise _InterruptedError

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: was for number, was in before.items() if was is not signal.SIG_IGN}
    try:
        with contextlib.suppress(_InterruptedError):
            for number in before:
                signal.signal(number, stop)
            yield
    finally:
        restore()


@contextlib.contextmanager
def _output(arguments: argparse.Namespace, beside_command: bool) -> Iterator[IO[str]]:
    """Where the report goes. A file is made before the run, and taken away if there is none."""
    if arguments.output is None:
        yield sys.stderr if beside_command and not arguments.json else sys.stdout
        return
    from contracts.text import printable

    try:  # O_EXCL follows no symlink
        file = open(arguments.output, "x", encoding="utf-8")  # noqa: PTH123, SIM115
    except OSError as error:
        message = f"cannot write {printable(arguments.output)}: {error.strerror}"
        raise UsageError(message, "name a new file in a directory that exists") from None
    try:
        with file:
            report = io.StringIO()
            yield report
            _save(report.getvalue(), file)
    except BaseException:
        os.unlink(arguments.output)  # noqa: PTH108
        raise


def _save(text: str, file: IO[str]) -> None:
    from contracts.text import printable

    try:
        with file:  # what the disk refuses is told by the close at the latest
            file.write(text)
    except OSError as error:
        message = f"the report cannot be written to {printable(file.name)}: {error.strerror}"
        raise WritewiseError(message, "name a file on a disk with room") from None


def _report(
    contract: Contract,
    snapshot: ProfileSnapshot,
    threads_left: int,
    output: IO[str],
    json: bool,
) -> None:
    from contracts.evaluate import evaluate

    findings = evaluate(contract, snapshot.stats)
    if json:
        from json import dump

        from contracts.text import printable
        from profiler.report.findings import findings_document
        from profiler.report.snapshot import snapshot_document

        document = {
            "contract": printable(contract.source),
            "timeframe_ns": contract.timeframe_ns,
            **snapshot_document(snapshot),
            "threads_left": threads_left,
            "findings": findings_document(findings),
        }
        dump(document, output, indent=2)
        output.write("\n")
        return
    from rich.console import Console
    from rich.text import Text

    from profiler.report.findings import print_findings
    from profiler.report.snapshot import snapshot_lines

    console = Console(file=output, width=None if output.isatty() else _FILE_COLUMNS)
    print_findings(
        findings, console, timeframe_ns=contract.timeframe_ns, elapsed_ns=snapshot.elapsed_ns
    )
    for line in snapshot_lines(snapshot, threads_left):
        console.print(Text(line), soft_wrap=True)
