# SPDX-License-Identifier: Apache-2.0
"""Run tests on other kernels: `python -m tests.guests --help`.

The results are kept in results.json, and docs/development/kernels.md shows them.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.guests import cost, results
from tests.guests.catalogue import GUESTS, Guest, Role, guest_of
from tests.guests.images import bootable
from tests.guests.machine import GuestError, booted
from tests.guests.running import GuestResult, run_features, run_tests, stop_all


def main() -> int:
    """Do what the command line asks; return exit code 0 if every test passed."""
    arguments = _parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # `&` in a shell ignores SIGINT
        signal.signal(number, signal.default_int_handler)  # ends guests and deletes overlays
    try:
        return int(arguments.do(arguments))
    except KeyError as error:
        print(f"guests: {error.args[0]}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except (GuestError, OSError, subprocess.CalledProcessError) as error:
        print(f"guests: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.guests", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    names = ", ".join(guest.name for guest in GUESTS)
    for name, do, help_text in (
        ("build", _build, "make the images that are missing"),
        ("test", _test, "run tests in one guest"),
        ("all", _all, "run every feature on every guest and keep the results"),
        ("cost", _cost, "count the instructions that probes add to a write"),
        ("shell", _shell, "boot a guest and say how to reach it, until Ctrl-C"),
    ):
        command = commands.add_parser(name, help=help_text, description=help_text)
        command.set_defaults(do=do)
        many = name in ("build", "all", "cost")
        guest_help = f"a guest or its kernel: {names}"
        command.add_argument("guest", nargs="*" if many else None, help=guest_help)
        if name == "test":
            command.add_argument("tests", nargs="...", help="test files and options of pytest")
        if name == "all":
            only = "run only those whose name contains one of these"
            command.add_argument("--jobs", type=int, default=2, help="guests at a time; default 2")
            command.add_argument("--features", nargs="+", default=(), metavar="TEXT", help=only)
    return parser


def _chosen(arguments: argparse.Namespace) -> list[Guest]:
    return [guest_of(name) for name in arguments.guest] or list(GUESTS)


def _build(arguments: argparse.Namespace) -> int:
    for guest in _chosen(arguments):
        print(f"{guest.name}: {bootable(guest).kernel.name}")
    return 0


def _test(arguments: argparse.Namespace) -> int:
    with booted(guest_of(arguments.guest)) as machine:
        print(f"guests: {machine.guest.name} answered after {machine.boot_s:.0f} s", flush=True)
        return run_tests(machine, arguments.tests)


def _all(arguments: argparse.Namespace) -> int:
    guests = _chosen(arguments)
    for guest in guests:
        bootable(guest)  # one after the other, and not during another's timing
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [
            pool.submit(run_features, guest, arguments.features, results.keep) for guest in guests
        ]
        try:
            is_good = [_is_good(guest, run) for guest, run in zip(guests, runs)]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise
    results.write_docs("matrix", results.matrix())
    return int(not all(is_good))


def _is_good(guest: Guest, run: Future[GuestResult]) -> bool:
    """Run one guest, and return whether all passed. A failed guest loses only its own results."""
    try:
        result = run.result()
    except Exception as error:
        print(f"guests: {guest.name}: {type(error).__name__}: {error}", file=sys.stderr)
        results.forget(guest)
        return False
    print(results.summary(result), flush=True)
    return not result.has_failed


def _cost(arguments: argparse.Namespace) -> int:
    chosen = [guest_of(name) for name in arguments.guest] or [
        guest for guest in GUESTS if guest.role is Role.CORE
    ]
    table = cost.table({guest.name: cost.added_ns(guest) for guest in chosen})
    print(table)
    results.write_docs("cost", table)
    return 0


def _shell(arguments: argparse.Namespace) -> int:
    with booted(guest_of(arguments.guest)) as machine:
        print(" ".join(machine.ssh()), f"# console: {machine.console}", sep="\n", flush=True)
        try:
            machine.wait_for_end()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.exit(main())
