"""Measure a pull under other write-back settings and mount options, and recheck the best in pairs.

The present settings are measured first, and again beside each of the best. Every change of the host
is journaled before it is made and taken back at the end, on an error, on Ctrl-C and on SIGTERM;
after SIGKILL the next sweep or `writewise rollback` takes it back.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted
from profiler.cli.advise import group_lines_here
from profiler.cli.common import (
    access_from,
    add_access_arguments,
    add_recovery_argument,
    terminable,
)
from profiler.cli.limit_arguments import add_limit_arguments, limits_from
from profiler.cli.needs import PULL
from profiler.cli.space_arguments import TRANSFER, add_space_arguments, space_of

if TYPE_CHECKING:
    from contracts.model import Contract
    from profiler.pull.clients.interface import Client
    from profiler.study.space import Space
    from profiler.study.study import StudyRequest

NAME = "sweep"
HELP = "measure a pull under other write-back settings and recheck the best"
NEEDS = PULL

DEFAULT_OUTPUT = Path("writewise-results.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Source, destination, how to pull, and a flag for each knob."""
    from profiler.cli import argument_types as types

    parser.add_argument("source", metavar="s3://BUCKET/PREFIX", help="a directory of keys, or one")
    parser.add_argument(
        "destination", metavar="DEST", type=types.directory, help="an existing directory"
    )
    add_space_arguments(parser)
    parser.add_argument(
        "--budget",
        metavar="N|Nmin",
        type=types.budget,
        help="at most so many trials or minutes, the recheck included; default: no limit",
    )
    add_limit_arguments(parser)
    add_access_arguments(parser)
    parser.add_argument("--workers", metavar="N", type=types.count, help="processes, one per core")
    parser.add_argument("--client", metavar="NAME", help="one of those that `clients` lists")
    parser.add_argument("--contract", metavar="FILE", help="default: the case study's contract")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, default=DEFAULT_OUTPUT, help=str(DEFAULT_OUTPUT)
    )
    parser.add_argument("--resume", action="store_true", help="go on with the output file")
    add_recovery_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sweep, keep the results, and print what they say."""
    from contracts.loading import load_contract_of_calls
    from profiler.requirements import require

    # once: what was checked is what is used
    contract = load_contract_of_calls(arguments.contract, trusted=True)
    require(*NEEDS)
    from rich.console import Console

    from profiler.report.advice import print_advice
    from profiler.report.sweep_view import shown_sweep
    from profiler.study.study import run_study
    from sysctl.advice.advise import advise

    request = request_of(arguments, contract)
    if arguments.install_recovery:
        _install_recovery()
    with terminable(), shown_sweep(Console(stderr=True)) as view:
        results = run_study(request, view)
    recommendation = advise(results)
    print_advice(recommendation, Console(), group_lines_here(recommendation))
    if recommendation.best is not None:
        print(f"\nwrite it down:  writewise advise {request.output}")
    return 0


def _install_recovery() -> None:
    from sysctl.apply.applying import install_recovery
    from sysctl.host.applied_host import applying

    with applying("installation of the recovery at boot") as host:
        print(install_recovery(host))


def request_of(arguments: argparse.Namespace, contract: Contract) -> StudyRequest:
    """Return what the command line asks for. Raises UsageError."""
    from profiler.pull.settings import settings_for
    from profiler.pull.source import parse_location
    from profiler.study.study import StudyRequest
    from sysctl.sweep.budget import Budget

    space = space_of(arguments)
    transfer, client_name = settings_for(arguments.transfer, arguments.client)
    return StudyRequest(
        location=parse_location(arguments.source),
        destination=arguments.destination,
        access=access_from(arguments),
        transfer=transfer,
        contract=contract,
        output=arguments.output,
        client=_client(client_name, space),
        space=space,
        budget=arguments.budget or Budget(),
        limits=limits_from(arguments),
        workers=arguments.workers,
        resume=arguments.resume,
    )


def _client(name: str | None, space: Space) -> Client:
    """Which client pulls. Raises UsageError where it does not heed the settings to be varied."""
    from profiler.pull.clients.catalogue import usable
    from sysctl.knobs.transfer import TRANSFER_CLIENT

    if not space.transfer:
        return usable(name)
    if name is not None and name != TRANSFER_CLIENT:
        raise UsageError(
            f"--space transfer varies the settings of {TRANSFER_CLIENT}, not of {quoted(name)}",
            f"give --transfer as NAME=VALUE,…, no --client, or no {TRANSFER} in --space",
        )
    return usable(TRANSFER_CLIENT)
