"""Tune boto3's transfer settings: search, recheck against the defaults, write them down."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared.installation import how_to_add
from contracts.shared.text import printable
from profiler.cli.common import add_access_arguments, measuring_alone, terminable

if TYPE_CHECKING:
    from profiler.tune.bench import TransferBench
    from profiler.tune.tuner import OnTrial, Tuner, Tuning

NAME = "transfer"
HELP = "tune boto3's transfer settings for a pull, by measuring it"
NEEDS = ("syncfs", "boto3")

DEFAULT_OUTPUT = Path("writewise-transfer")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action and its arguments."""
    from profiler.cli import argument_types as types

    actions = parser.add_subparsers(metavar="ACTION", required=True)
    tune = actions.add_parser("tune", help="search, recheck, and write the settings down")
    tune.add_argument("source", metavar="s3://BUCKET/KEY", help="an object, or a directory of keys")
    tune.add_argument("destination", metavar="DEST", type=types.directory, help="on the volume")
    add_access_arguments(tune)
    _add_search_arguments(tune)
    tune.add_argument("--workers", metavar="N", type=types.count, help="processes, one per core")
    tune.add_argument("--durable", action="store_true", help="time until it is on the device")
    tune.add_argument(
        "--output", metavar="DIR", type=Path, default=DEFAULT_OUTPUT, help=f"./{DEFAULT_OUTPUT}/"
    )
    tune.set_defaults(action=_tune)


def _add_search_arguments(tune: argparse.ArgumentParser) -> None:
    from profiler.cli import argument_types as types

    tune.add_argument(
        "--budget", metavar="TIME", type=types.duration, default=125 * 10**9, help="default 125s"
    )
    tune.add_argument("--trials", metavar="N", type=types.count, help="at most so many")
    tune.add_argument(
        "--patience", metavar="N", type=types.count, help="end after N trials without improvement"
    )
    tune.add_argument(
        "--pulls", metavar="N", type=types.count, default=3, help="the mean of so many; default 3"
    )
    tune.add_argument(
        "--pairs",
        metavar="N",
        type=types.count,
        default=6,
        help="of the recheck at most; 6",
    )
    tune.add_argument(
        "--strategy", metavar="NAME", help="optuna (default if installed), syne-tune or random"
    )
    tune.add_argument("--seed", metavar="N", type=types.seed, default=0, help="of the search")
    tune.add_argument(
        "--space",
        metavar="NAME,…",
        type=types.words,
        help="what to search; default: max_concurrency,multipart_chunksize,max_io_queue,"
        "io_chunksize; also multipart_threshold, use_threads",
    )
    tune.add_argument(
        "--clients", metavar="NAME,…", type=types.words, help="search these pull clients too"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the action; 1 when a tuning has no verdict, since pulls failed. Raises WritewiseError."""
    return int(arguments.action(arguments))


def _tune(arguments: argparse.Namespace) -> int:
    from profiler.requirements import require

    require("syncfs", "boto3")
    from rich.console import Console

    from profiler.report.tuning import plan_text, print_trial, print_tuning
    from profiler.tune.folder import prepare
    from profiler.tune.outputs import write_outputs

    progress = Console(stderr=True)
    with terminable():
        bench = _bench(arguments)
        tuner = _tuner(arguments, bench, lambda trial: print_trial(trial, progress))
        with measuring_alone(f"transfer tune to {arguments.destination}"):
            prepare(arguments.output)  # what is wrong with it is said before the search
            context = bench.context()
            progress.print(plan_text(tuner), style="dim", soft_wrap=True, highlight=False)
            tuning = replace(tuner.run(), context=context)
        try:
            written, left_out = write_outputs(tuning, arguments.output)
        finally:  # whatever became of the folder meanwhile
            print_tuning(tuning, Console())
    _tell_files(tuning, arguments.output, written, left_out)
    if tuning.ended_by is not None:
        raise tuning.ended_by
    return 0 if tuning.has_verdict else 1


def _tell_files(
    tuning: Tuning, folder: Path, written: Sequence[str], left_out: Sequence[str]
) -> None:
    shown = printable(str(folder))
    print(f"\nwritten to {shown}/: {', '.join(written)}")
    if left_out:
        print(f"left out: {', '.join(left_out)} (`{how_to_add('tune')}` installs what writes them)")
    if tuning.recommended is not None:
        file = shlex.quote(f"{shown}/transfer.json")
        print(f"pull with it:  writewise pull --transfer {file} …")
        _tell_default_client(tuning)


def _tell_default_client(tuning: Tuning) -> None:
    """That a pull without these settings is by another client, where that was not measured."""
    from profiler.pull.clients.catalogue import DEFAULT
    from profiler.tune.space import client_at

    if all(client_at(trial.point) != DEFAULT.name for trial in tuning.trials):
        print(
            f"not measured: {DEFAULT.name}, the default client; to compare both:  writewise "
            f"bench-clients --clients {DEFAULT.name},{tuning.recommended_client} …"
        )


def _bench(arguments: argparse.Namespace) -> TransferBench:
    from profiler.pull.access import S3Access
    from profiler.pull.destination import Destination
    from profiler.pull.settings import settings_for
    from profiler.pull.source import list_plan, parse_location
    from profiler.tune.bench import TransferBench
    from sysctl.knobs.transfer import TRANSFER_CLIENT

    location = parse_location(arguments.source)
    base, _ = settings_for(arguments.transfer, TRANSFER_CLIENT)
    access = S3Access(arguments.endpoint_url, sign_requests=not arguments.no_sign_request)
    destination = Destination(arguments.destination)
    with destination.open():
        pass  # what is wrong with it is said before anything is asked of S3
    plan = list_plan(access, location)
    return TransferBench(access, plan, destination, base, arguments.workers, arguments.durable)


def _tuner(arguments: argparse.Namespace, bench: TransferBench, on_trial: OnTrial) -> Tuner:
    from profiler.tune.budget import Budget
    from profiler.tune.space import DEFAULT_NAMES, axes_named, client_axis, defaults_beyond, fitted
    from profiler.tune.strategies import make_strategy, present_strategy
    from profiler.tune.trial import TrialRunner
    from profiler.tune.tuner import Tuner, first_points

    named = axes_named(arguments.space or DEFAULT_NAMES)
    axes = fitted(named, bench.largest_object_bytes, bench.base)
    if arguments.clients:
        axes = (*axes, client_axis(arguments.clients))
    name = arguments.strategy or present_strategy()
    return Tuner(
        runner=TrialRunner(bench, arguments.pulls),
        strategy=make_strategy(name, axes, first_points(bench.base, axes), arguments.seed),
        budget=Budget(arguments.budget / 1e9, arguments.trials, arguments.patience),
        base=bench.base,
        load=bench.load,
        apart=defaults_beyond(bench.base, axes),
        pairs=arguments.pairs,
        on_trial=on_trial,
    )
