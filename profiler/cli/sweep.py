# SPDX-License-Identifier: Apache-2.0
"""Measure a pull under other write-back settings and mount options, and recheck the best in pairs.

The current settings are measured first, and again next to each of the best. Every change of the
host is journaled before it is made and restored at the end, on an error, on Ctrl-C and on SIGTERM;
after SIGKILL the next sweep or `writewise rollback` restores it.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted
from profiler.cli import options, volume_arguments
from profiler.cli.advise import group_lines_here
from profiler.cli.common import access_from, show_dry_run, terminable
from profiler.cli.html_option import add_html, html_file, refuse_html
from profiler.cli.json_documents import emit
from profiler.cli.limit_arguments import limits_from
from profiler.cli.metrics_textfile import add_metrics_textfile, usable_textfile, write_sweep
from profiler.cli.needs import PULL
from profiler.cli.parser import rare
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from contracts.model import Contract
    from profiler.pull.clients.interface import Client
    from profiler.study.request import StudyRequest
    from profiler.study.space import Space
    from profiler.study.volume_here import VolumeHere

NAME = "sweep"
HELP = "measure a pull under other write-back settings"
NEEDS = PULL
IS_REMEMBERED = True

DEFAULT_OUTPUT = Path("writewise-results.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source, destination, how to pull, and a flag for each knob."""
    from profiler.cli.space_arguments import add_space_arguments

    options.add_source(parser)
    options.add_destination(parser)
    options.add_budget(parser)
    options.add_limits(parser)
    options.add_max_bytes(parser)
    options.add_output(parser, "results", DEFAULT_OUTPUT)
    options.add_resume(parser)
    options.add_details(parser)
    options.add_dry_run(parser)
    options.add_json(parser)
    rare(add_html(parser))
    add_metrics_textfile(parser)
    options.add_client(parser)
    options.add_workers(parser)
    options.add_access(parser)
    options.add_transfer(parser)
    rare(options.add_contract(parser))
    options.add_install_recovery(parser)
    volume_arguments.add_volume(parser, is_rare=True)
    rare(volume_arguments.add_credits(parser))
    rare(volume_arguments.add_instance_type(parser))
    volume_arguments.add_prices(parser)
    add_space_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sweep, keep the results, and print the conclusions."""
    from contracts.loading import load_contract_of_calls
    from profiler.requirements import require

    # loaded once, so the checked contract is the one used
    contract = load_contract_of_calls(arguments.contract, trusted=True)
    request = request_of(arguments, contract)  # first, since its errors need no root
    prices = volume_arguments.prices_from(arguments)
    if arguments.dry_run:
        refuse_html(arguments)
        return show_dry_run(request, NAME, as_json=arguments.json)
    require(*NEEDS)
    from profiler.report.advice import print_advice
    from profiler.report.advice_document import advice_document
    from profiler.report.console import plain_console
    from profiler.report.history import advice_outcome
    from profiler.report.next_steps import next_steps, print_next
    from profiler.report.sweep_view import shown_sweep
    from profiler.study.study import run_study
    from sysctl.advice.advise import advise

    console, textfile = plain_console(), usable_textfile(arguments)
    if arguments.install_recovery:
        _install_recovery(sys.stderr if arguments.json else sys.stdout)
    with html_file(arguments) as write_html:
        with terminable(), shown_sweep(options.progress_console(arguments)) as view:
            results = run_study(request, view)
        write_sweep(textfile, results)
        recommendation = advise(results, prices=prices)
        remember(arguments, advice_outcome(recommendation))
        lines = group_lines_here(recommendation)
        content = cache(lambda: advice_document(recommendation, lines))
        if arguments.json:
            emit(NAME, {"results": str(request.output), **content()})
        else:
            print_advice(recommendation, console, lines, details=arguments.details)
            if not options.is_quiet(arguments):
                steps = next_steps(recommendation, request.output, has_details=arguments.details)
                print_next(steps, console)
        write_html(NAME, content)
    return 0


def _install_recovery(output: IO[str]) -> None:
    from sysctl.apply.applying import install_recovery
    from sysctl.host.applied_host import applying

    with applying("installation of the recovery at boot") as host:
        print(install_recovery(host), file=output)


def request_of(arguments: argparse.Namespace, contract: Contract) -> StudyRequest:
    """Return what the command line asks for. Raises UsageError."""
    from profiler.cli.space_arguments import space_of
    from profiler.pull.settings import settings_for
    from profiler.pull.source import parse_location
    from profiler.study.request import StudyRequest
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
        max_bytes=arguments.max_bytes,
        volume=_volume(arguments),
    )


def _volume(arguments: argparse.Namespace) -> VolumeHere:
    """Return what the options say about the volume and the instance. Raises UsageError."""
    from profiler.study.volume_here import of_options
    from sysctl.volume import instances, volume_types

    checked = volume_arguments.volume_from(arguments)
    name = arguments.instance_type
    instance = instances.table().find(name).name if name else None
    if checked is None:
        return of_options(None, instance, arguments.credits)
    said = [*checked.notes, *checked.warnings]
    credits = arguments.credits
    if credits is not None and not volume_types.path(checked.volume).buckets:
        said.append(f"this {checked.volume.type} has no credits: --credits changes nothing")
        credits = None
    notes = tuple(f"{each[:1].upper()}{each[1:]}." for each in said)
    return of_options(checked.volume, instance, credits, notes)


def _client(name: str | None, space: Space) -> Client:
    """Return the client. Raises UsageError if it ignores the settings to vary."""
    from profiler.pull.clients.catalogue import usable
    from sysctl.knobs.transfer import TRANSFER_CLIENT

    if not space.transfer:
        return usable(name)
    if name is not None and name != TRANSFER_CLIENT:
        raise UsageError(
            f"--space transfer varies the settings of {TRANSFER_CLIENT}, not of {quoted(name)}",
            "pass --transfer as NAME=VALUE,…, no --client, or no transfer in --space",
        )
    return usable(TRANSFER_CLIENT)
