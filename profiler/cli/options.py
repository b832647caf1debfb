# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, each declared once: its name, its form and its help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli import argument_types as types
from profiler.cli.parser import rare

if TYPE_CHECKING:
    from rich.console import Console

#: The order in which `--strategy` lists them; the same as `sysctl.search.strategies.NAMES`, whose
#: import would take too long for the help.
STRATEGIES = ("edge", "grid", "random", "bayes", "syne-tune")

Container = argparse._ActionsContainer


def add_source(parser: Container, *, is_optional: bool = False, help: str = "") -> None:
    """Add `s3://BUCKET/PREFIX`, the objects to pull."""
    parser.add_argument(
        "source",
        metavar="s3://BUCKET/PREFIX",
        nargs="?" if is_optional else None,
        help=help or "an object, or a prefix",
    )


def add_destination(parser: Container) -> None:
    """Add `DEST`, where a pull writes."""
    parser.add_argument(
        "destination", metavar="DEST", type=types.destination, help="an existing directory"
    )


def add_results(parser: Container) -> None:
    """Add `RESULTS.json`, what `writewise sweep` wrote."""
    parser.add_argument(
        "results", metavar="RESULTS.json", type=types.file, help="written by `writewise sweep`"
    )


def add_access(parser: Container) -> None:
    """Add how S3 is reached."""
    parser.add_argument("--endpoint-url", metavar="URL", help="S3 endpoint (default: AWS)")
    parser.add_argument("--region", metavar="NAME", help="AWS region")
    parser.add_argument("--profile", metavar="NAME", help="AWS profile, of ~/.aws/config")
    parser.add_argument(
        "--no-sign-request", action="store_true", help="send no credentials (public buckets)"
    )


def add_transfer(parser: Container) -> None:
    """Add the settings of the pull."""
    from sysctl.knobs.transfer import TRANSFER_BY_NAME

    rare(
        parser.add_argument(
            "--transfer",
            metavar="NAME=VALUE,…|FILE",
            default="",
            help=f"settings of the pull: {', '.join(TRANSFER_BY_NAME)}; or a .json file that "
            "`writewise transfer tune` wrote",
        )
    )


def add_workers(parser: Container) -> None:
    """Add the number of processes that pull."""
    parser.add_argument(
        "--workers",
        metavar="N",
        type=types.count,
        help="processes that pull (default: one per core)",
    )


def add_client(parser: Container) -> None:
    """Add the program or library that pulls."""
    parser.add_argument("--client", metavar="NAME", help="pull client, one of `writewise clients`")


def add_contract(parser: Container) -> argparse.Action:
    """Add the contract under which calls are measured, and return it."""
    return parser.add_argument(
        "--contract", metavar="FILE", help="contract file (default: all writes on all file systems)"
    )


def add_budget(parser: Container, default: str | None = None) -> None:
    """Add the budget of a search."""
    parser.add_argument(
        "--budget",
        metavar="BUDGET",
        type=types.budget,
        default=default,
        help="maximum: 12 (trials), 20m or 12,20m" + f" (default: {default or 'none'})",
    )


def add_search(parser: Container, strategies: tuple[str, ...] = STRATEGIES) -> None:
    """Add how a search proposes settings."""
    rare(
        parser.add_argument(
            "--strategy",
            choices=strategies,
            metavar="NAME",
            help=f"search strategy: {', '.join(strategies)} (default: the one that fits)",
        )
    )
    rare(
        parser.add_argument(
            "--seed",
            metavar="N",
            type=types.seed,
            default=0,
            help="random seed of the search (default: 0)",
        )
    )


def add_resume(parser: Container) -> None:
    """Add `--resume`, to continue an earlier search."""
    parser.add_argument(
        "--resume", action="store_true", help="resume from the results written so far"
    )


def add_output(parser: Container, what: str, default: Path | None = None) -> None:
    """Add `--output FILE`: `what` is written to that file."""
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=types.file,
        default=default,
        help=f"{what} file (default: {default})" if default else f"write the {what} to FILE",
    )


def add_output_dir(parser: Container, what: str, default: Path) -> None:
    """Add `--output-dir DIR`: `what` is written into a directory."""
    parser.add_argument(
        "--output-dir",
        metavar="DIR",
        type=types.directory,
        default=default,
        help=f"write {what} into DIR (default: {default})",
    )


def add_details(parser: Container) -> None:
    """Add `--details`: the long report."""
    parser.add_argument("--details", action="store_true", help="print every figure and reason")


def add_dry_run(parser: Container) -> None:
    """Add `--dry-run`: what a sweep would do."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the plan; pull and change nothing",
    )


def add_json(parser: Container) -> None:
    """Add `--json`: the report as a JSON document on standard output."""
    parser.add_argument("--json", action="store_true", help="print one JSON document instead")


def add_limits(parser: Container) -> None:
    """Add the limits on what speed may cost."""
    parser.add_argument(
        "--max-at-risk",
        metavar="SIZE",
        type=types.amount,
        help="maximum data that exists only in memory: 1GiB",
    )
    parser.add_argument(
        "--max-durable",
        metavar="DURATION",
        type=types.duration,
        help="maximum time until durable, such as 60s",
    )


def add_max_bytes(parser: Container) -> None:
    """Add how much of a large prefix is pulled."""
    parser.add_argument(
        "--max-bytes",
        metavar="SIZE",
        type=types.amount,
        help="pull at most SIZE, with the same object sizes",
    )


def add_user(parser: Container) -> None:
    """Add the user that the command runs as."""
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="user to run the command as (default: the user who called sudo)",
    )


def add_command(parser: Container) -> None:
    """Add the command to run, after `--`; `command_of` returns it."""
    parser.add_argument(
        "argv",
        metavar="-- COMMAND ARG…",
        nargs=argparse.REMAINDER,
        help="run a command and return its exit code",
    )


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the words of the command; none if it is missing."""
    argv: list[str] = arguments.argv
    return argv[1:] if argv[:1] == ["--"] else argv


def add_bound(parser: Container, more: str = "") -> None:
    """Add the highest dirty threshold that may be set; `more` continues its help."""
    parser.add_argument(
        "--max-at-risk",
        metavar="SIZE",
        type=types.amount,
        help="refuse a dirty threshold above SIZE on this host, such as 1GiB" + more,
    )


def add_other_memory(parser: Container, unmeasured: str) -> None:
    """Add what holds on a host with other memory; `unmeasured` is the help of the first option."""
    rare(parser.add_argument("--yes-unmeasured", action="store_true", help=unmeasured))
    rare(
        parser.add_argument(
            "--as-ratio",
            action="store_true",
            help="on a host with a different memory size, keep the percentages, not the bytes",
        )
    )


def add_install_recovery(parser: Container) -> None:
    """Add the option to install the unit that recovers at boot."""
    rare(
        parser.add_argument(
            "--install-recovery",
            action="store_true",
            help="install a systemd unit that restores at boot what a killed run changed",
        )
    )


def progress_console(arguments: argparse.Namespace) -> Console:
    """Return the console for progress: standard error, or nothing with `--quiet`."""
    from profiler.report.console import error_console

    console = error_console()
    console.quiet = is_quiet(arguments)
    return console


def is_quiet(arguments: argparse.Namespace) -> bool:
    """Return whether only results and errors are to be printed."""
    return bool(getattr(arguments, "quiet", False))
