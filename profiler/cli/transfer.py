# SPDX-License-Identifier: Apache-2.0
"""Tune boto3's transfer settings for a pull; nothing on the host is changed.

It needs neither root nor probes. As root, `sweep --space transfer` measures the same and also sees
stalls in dirty throttling; `--space transfer,vm` tries them together with the write-back settings.
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.common import access_from, measuring_alone, show_dry_run, terminable
from profiler.cli.html_option import add_html, html_file, refuse_html
from profiler.cli.json_documents import emit
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from profiler.study.request import StudyRequest

NAME = "transfer"
HELP = "tune boto3's transfer settings for a pull"
NEEDS = ("syncfs", "boto3")
IS_REMEMBERED = True

DEFAULT_OUTPUT = Path("writewise-transfer")
RESULTS_NAME = "writewise-results.json"
_FORMATS = "transfer,transfer-config,aws-config"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and its arguments."""
    from sysctl.knobs.transfer import SWEPT_BY_DEFAULT, TRANSFER_BY_NAME

    actions = parser.add_subparsers(metavar="ACTION", required=True)
    tune = actions.add_parser(
        "tune",
        help="search, recheck in pairs, and save the settings",
        description="Search for the transfer settings that make a pull fastest, recheck the best "
        "in pairs, and save them.",
    )
    options.add_source(tune)
    options.add_destination(tune)
    others = ", ".join(name for name in TRANSFER_BY_NAME if name not in SWEPT_BY_DEFAULT)
    tune.add_argument(
        "--vary",
        metavar="NAME,…",
        type=types.words,
        default=SWEPT_BY_DEFAULT,
        help=f"settings to vary (default: {', '.join(SWEPT_BY_DEFAULT)}); also {others}",
    )
    options.add_budget(tune, default="5m")
    options.add_max_bytes(tune)
    options.add_output_dir(tune, "the results and the settings", DEFAULT_OUTPUT)
    options.add_resume(tune)
    options.add_details(tune)
    options.add_dry_run(tune)
    options.add_json(tune)
    add_html(tune)
    options.add_workers(tune)
    options.add_access(tune)
    options.add_transfer(tune)
    # edge varies the thresholds, which stay unchanged here
    options.add_search(tune, tuple(name for name in options.STRATEGIES if name != "edge"))
    tune.set_defaults(action=_tune)


def run(arguments: argparse.Namespace) -> int:
    """Run the action. Raises WritewiseError."""
    return int(arguments.action(arguments))


def _tune(arguments: argparse.Namespace) -> int:
    from profiler.requirements import require

    if arguments.dry_run:
        refuse_html(arguments)
        return show_dry_run(_request(arguments), "transfer tune", as_json=arguments.json)
    require(*NEEDS)
    from contracts.shared.writing import make_directories
    from profiler.cli.advise import write_and_report, write_files
    from profiler.report.advice import print_advice
    from profiler.report.advice_document import advice_document
    from profiler.report.console import plain_console
    from profiler.report.history import advice_outcome
    from profiler.report.next_steps import next_steps, print_next
    from profiler.report.sweep_view import shown_sweep
    from profiler.study.study import run_study
    from sysctl.advice.advise import advise
    from sysctl.render.formats import formats_named

    request = _request(arguments)
    make_directories(arguments.output_dir)
    purpose = f"transfer tune to {arguments.destination}"
    progress = options.progress_console(arguments)
    folder, formats = arguments.output_dir, formats_named(_FORMATS)
    with html_file(arguments) as write_html:
        with terminable(), measuring_alone(purpose), shown_sweep(progress) as view:
            results = run_study(request, view)
        recommendation = advise(results)
        remember(arguments, advice_outcome(recommendation))
        content = cache(lambda: advice_document(recommendation))
        if arguments.json:
            files = write_files(recommendation, folder, formats).to_json()
            emit("transfer tune", {"results": str(request.output), **content(), **files})
        else:
            console = plain_console()
            print_advice(recommendation, console, details=arguments.details)
            written = write_and_report(recommendation, folder, console, formats)
            if not options.is_quiet(arguments):
                results_file, details = request.output, arguments.details
                steps = next_steps(recommendation, results_file, written, has_details=details)
                print_next(steps, console)
        write_html("transfer tune", content)
    return 0


def _request(arguments: argparse.Namespace) -> StudyRequest:
    from contracts.loading import load_contract
    from profiler.pull.clients.catalogue import usable
    from profiler.pull.settings import settings_for
    from profiler.pull.source import parse_location
    from profiler.study.request import StudyRequest
    from profiler.study.space import Space
    from sysctl.knobs.transfer import TRANSFER_CLIENT

    transfer, _ = settings_for(arguments.transfer, TRANSFER_CLIENT)
    return StudyRequest(
        location=parse_location(arguments.source),
        destination=arguments.destination,
        access=access_from(arguments),
        transfer=transfer,
        contract=load_contract(None),
        output=arguments.output_dir / RESULTS_NAME,
        client=usable(TRANSFER_CLIENT),
        space=Space(
            vm=False, transfer=arguments.vary, strategy=arguments.strategy, seed=arguments.seed
        ),
        budget=arguments.budget,
        workers=arguments.workers,
        resume=arguments.resume,
        max_bytes=arguments.max_bytes,
        changes_host=False,
    )
