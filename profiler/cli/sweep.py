"""Measure a pull under each combination of write-back settings and mount options.

The present settings are measured first, in the middle and last. Every change of the host is
journaled before it is made and taken back at the end, on an error, on Ctrl-C and on SIGTERM; after
SIGKILL the next sweep or `writewise rollback` takes it back.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli.common import add_access_arguments, terminable
from sysctl.knobs.vm import KNOBS

if TYPE_CHECKING:
    from profiler.study import StudyRequest

NAME = "sweep"
HELP = "measure a pull under each combination of write-back settings"

DEFAULT_OUTPUT = Path("writewise-results.json")
#: Swept when no sysctl is named.
DEFAULT_VALUES = {"vm.dirty_ratio": (20, 40, 60, 80), "vm.dirty_background_ratio": (5, 10)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Source, destination, how to pull, and a flag for each sysctl."""
    from profiler.cli import argument_types as types

    parser.add_argument("source", metavar="s3://BUCKET/PREFIX", help="a directory of keys, or one")
    parser.add_argument(
        "destination", metavar="DEST", type=types.directory, help="an existing directory"
    )
    for knob in KNOBS:
        parser.add_argument(
            knob.flag,
            metavar="N,N…",
            type=types.integers,
            dest=knob.name,
            help=f"{knob.what}, in {knob.unit}".replace("%", "%%"),
        )
    parser.add_argument(
        "--mount-options",
        metavar="OPTIONS",
        nargs="+",
        default=(),
        help="texts such as noatime,logbsize=256k to try on DEST's own volume",
    )
    add_access_arguments(parser)
    parser.add_argument("--workers", metavar="N", type=types.count, help="processes, one per core")
    parser.add_argument("--contract", metavar="FILE", help="default: the case study's contract")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, default=DEFAULT_OUTPUT, help=str(DEFAULT_OUTPUT)
    )
    parser.add_argument("--resume", action="store_true", help="go on with the output file")


def run(arguments: argparse.Namespace) -> int:
    """Sweep, keep the results, and print what they say."""
    from contracts.loading import load_contract_of_calls
    from profiler.requirements import NEEDED_BY, require

    load_contract_of_calls(arguments.contract)
    require(*NEEDED_BY[NAME])
    from rich.console import Console

    from profiler.report.advice import print_advice
    from profiler.report.sweep_view import shown_sweep
    from profiler.study import run_study
    from sysctl.advise import advise

    request = _request(arguments)
    with terminable(), shown_sweep(Console(stderr=True)) as view:
        results = run_study(request, view)
    recommendation = advise(results)
    print_advice(recommendation, Console())
    if recommendation.best is not None:
        print(f"\nwrite it down:  writewise advise {request.output}")
    return 0


def _request(arguments: argparse.Namespace) -> StudyRequest:
    from contracts.loading import load_contract_of_calls
    from profiler.pull.access import S3Access
    from profiler.pull.settings import parse_settings
    from profiler.pull.source import parse_location
    from profiler.study import StudyRequest

    asked = {knob.name: getattr(arguments, knob.name) for knob in KNOBS}
    values = {name: chosen for name, chosen in asked.items() if chosen}
    check_ranges(values)
    return StudyRequest(
        location=parse_location(arguments.source),
        destination=arguments.destination,
        access=S3Access(arguments.endpoint_url, sign_requests=not arguments.no_sign_request),
        transfer=parse_settings(arguments.transfer),
        contract=load_contract_of_calls(arguments.contract),
        output=arguments.output,
        values=values or (DEFAULT_VALUES if not arguments.mount_options else {}),
        mount_options=arguments.mount_options,
        workers=arguments.workers,
        resume=arguments.resume,
    )


def check_ranges(values: dict[str, tuple[int, ...]]) -> None:
    """Raise UsageError for a value out of its sysctl's range, or both members of a pair."""
    from contracts.errors import UsageError
    from sysctl.knobs.vm import BY_NAME

    for name, chosen in values.items():
        knob = BY_NAME[name]
        wrong = [value for value in chosen if not knob.minimum <= value <= knob.maximum]
        if wrong:
            span = f"{knob.minimum} to {knob.maximum}"
            raise UsageError(f"{knob.flag}: {wrong[0]} is out of range, use {span} ({knob.unit})")
        if knob.counterpart in values:
            other = BY_NAME[str(knob.counterpart)].flag
            raise UsageError(
                f"{knob.flag} and {other} set the same threshold: each zeroes the other",
                "sweep one of them",
            )
