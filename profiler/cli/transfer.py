"""Tune boto3's transfer settings: a sweep of these alone, which changes nothing on the host.

It takes no root and no probes. As root, `sweep --space transfer` measures the same and sees stalls
in dirty throttling, too; `--space transfer,vm` tries them together with the write-back settings.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli.common import access_from, add_access_arguments, measuring_alone, terminable
from profiler.cli.space_arguments import STRATEGIES
from sysctl.knobs.transfer import SWEPT_BY_DEFAULT, TRANSFER_BY_NAME, TRANSFER_CLIENT

if TYPE_CHECKING:
    from profiler.study.study import StudyRequest

NAME = "transfer"
HELP = "tune boto3's transfer settings for a pull, by measuring it"
NEEDS = ("syncfs", "boto3")

DEFAULT_OUTPUT = Path("writewise-transfer")
RESULTS_NAME = "writewise-results.json"
_FORMATS = "transfer,transfer-config,aws-config"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action and its arguments."""
    from profiler.cli import argument_types as types

    actions = parser.add_subparsers(metavar="ACTION", required=True)
    tune = actions.add_parser("tune", help="search, recheck, and write the settings down")
    tune.add_argument("source", metavar="s3://BUCKET/KEY", help="an object, or a directory of keys")
    tune.add_argument("destination", metavar="DEST", type=types.directory, help="on the volume")
    add_access_arguments(tune)
    others = ", ".join(name for name in TRANSFER_BY_NAME if name not in SWEPT_BY_DEFAULT)
    tune.add_argument(
        "--space",
        metavar="NAME,…",
        type=types.words,
        default=SWEPT_BY_DEFAULT,
        help=f"settings to vary; default: {', '.join(SWEPT_BY_DEFAULT)}; also {others}",
    )
    tune.add_argument(
        "--strategy",
        choices=[name for name in STRATEGIES if name != "edge"],  # which goes by the thresholds
        help="how to search: bayes where it is installed, else random",
    )
    tune.add_argument("--seed", metavar="N", type=types.seed, default=0, help="of the search")
    tune.add_argument(
        "--budget",
        metavar="N|Nmin",
        type=types.budget,
        default="5min",
        help="at most so many trials or minutes, the recheck included; default 5min",
    )
    tune.add_argument("--workers", metavar="N", type=types.count, help="processes, one per core")
    tune.add_argument(
        "--output", metavar="DIR", type=Path, default=DEFAULT_OUTPUT, help=f"./{DEFAULT_OUTPUT}/"
    )
    tune.add_argument("--resume", action="store_true", help="go on with the results in DIR")
    tune.set_defaults(action=_tune)


def run(arguments: argparse.Namespace) -> int:
    """Run the action. Raises WritewiseError."""
    return int(arguments.action(arguments))


def _tune(arguments: argparse.Namespace) -> int:
    from profiler.requirements import require

    require(*NEEDS)
    from rich.console import Console

    from contracts.shared.writing import make_directories
    from profiler.cli.advise import write_and_tell
    from profiler.report.advice import print_advice
    from profiler.report.sweep_view import shown_sweep
    from profiler.study.study import run_study
    from sysctl.advice.advise import advise
    from sysctl.render.formats import formats_named

    request = _request(arguments)
    make_directories(arguments.output)
    purpose = f"transfer tune to {arguments.destination}"
    with terminable(), measuring_alone(purpose), shown_sweep(Console(stderr=True)) as view:
        results = run_study(request, view)
    recommendation = advise(results)
    print_advice(recommendation, Console())
    write_and_tell(recommendation, arguments.output, formats_named(_FORMATS))
    return 0


def _request(arguments: argparse.Namespace) -> StudyRequest:
    from contracts.loading import load_contract
    from profiler.pull.clients.catalogue import usable
    from profiler.pull.settings import settings_for
    from profiler.pull.source import parse_location
    from profiler.study.space import Space
    from profiler.study.study import StudyRequest

    transfer, _ = settings_for(arguments.transfer, TRANSFER_CLIENT)
    return StudyRequest(
        location=parse_location(arguments.source),
        destination=arguments.destination,
        access=access_from(arguments),
        transfer=transfer,
        contract=load_contract(None),
        output=arguments.output / RESULTS_NAME,
        client=usable(TRANSFER_CLIENT),
        space=Space(
            vm=False, transfer=arguments.space, strategy=arguments.strategy, seed=arguments.seed
        ),
        budget=arguments.budget,
        workers=arguments.workers,
        resume=arguments.resume,
        changes_host=False,
    )
