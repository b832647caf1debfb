# SPDX-License-Identifier: Apache-2.0
"""Plan a pull: how long it takes on an EBS volume, when credits run out, and what to buy.

Needs no root and changes nothing. It works on any host: name the pull, the volume and the instance.
Limits and prices are from dated tables; a time is counted from when the volume begins to write.

On an EC2 node it finds the instance type and the volume itself, with the credits that they have
now. Elsewhere it asks AWS only if --volume-id, --region or --profile is given.

With --idle pulls are repeated: the report has the first slow pull and the time that each takes in
the end. With --cheapest the volumes are listed that meet the deadline for the least money.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from profiler.cli import argument_types as types
from profiler.cli import options, volume_arguments
from profiler.cli.html_option import WriteHtml, add_html, html_file
from profiler.cli.json_documents import emit
from profiler.cli.parser import rare

if TYPE_CHECKING:
    from profiler.cli.plan_request import Request

NAME = "plan"
HELP = "plan a pull on an EBS volume: time, credits, price"
NEEDS: tuple[str, ...] = ()

BURST, BASELINE = "burst", "baseline"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pull, the volume, the instance, and the question."""
    _add_pull(parser.add_argument_group("the pull"))
    _add_volume(parser.add_argument_group("the volume"))
    _add_instance(parser.add_argument_group("the instance"))
    _add_aws(parser.add_argument_group("AWS"))
    asked = parser.add_argument_group("the answer")
    asked.add_argument(
        "--deadline",
        metavar="DURATION",
        type=types.positive_duration,
        help="time within which each pull must be durable, such as 300s",
    )
    asked.add_argument(
        "--cheapest", action="store_true", help="list the cheapest volumes that meet --deadline"
    )
    asked.add_argument(
        "--capacity",
        metavar="SIZE",
        type=volume_arguments.gib,
        help="with --cheapest: what the volume must hold, in GiB",
    )
    volume_arguments.add_prices(asked)
    options.add_json(asked)
    add_html(asked)


def _add_pull(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--burst", metavar="SIZE", type=types.positive_amount, help="size of the pull"
    )
    group.add_argument(
        "--idle",
        metavar="DURATION",
        type=types.duration,
        help="repeat it: time from the end of one pull to the start of the next",
    )
    rare(
        group.add_argument(
            "--io-size",
            metavar="SIZE",
            type=types.positive_amount,
            help="size of random I/Os (default: sequential I/O)",
        )
    )
    group.add_argument(
        "--results",
        metavar="FILE",
        type=types.file,
        help="use the size and the rates that a sweep measured",
    )


def _add_volume(group: argparse._ArgumentGroup) -> None:
    volume_arguments.add_volume(group)
    group.add_argument(
        "--volume-id", metavar="ID", help="plan an existing volume, as AWS reports it: vol-…"
    )
    volume_arguments.add_credits(
        group, " (default: those of a volume that was looked up; else full, and empty too)"
    )


def _add_instance(group: argparse._ArgumentGroup) -> None:
    volume_arguments.add_instance_type(group)
    group.add_argument(
        "--network",
        choices=(BURST, BASELINE),
        metavar="RATE",
        default=BURST,
        help="the network's rate: burst (default) or baseline",
    )
    volume_arguments.add_instance_credits(group)
    rare(
        group.add_argument(
            "--memory",
            metavar="SIZE",
            type=types.positive_amount,
            help="memory that can be dirtied (default: 15/16 of the instance's)",
        )
    )


def _add_aws(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--region", metavar="NAME", help="AWS region to look up in (default: this node's)"
    )
    group.add_argument("--profile", metavar="NAME", help="AWS profile, of ~/.aws/config")


def run(arguments: argparse.Namespace) -> int:
    """Plan, or search, and print."""
    from profiler.cli.plan_request import request_from

    request = request_from(arguments)
    with html_file(arguments) as write_html:
        if arguments.cheapest:
            _show_cheapest(request, arguments, write_html)
        else:
            _show_plan(request, arguments, write_html)
    return 0


def _show_plan(request: Request, arguments: argparse.Namespace, write_html: WriteHtml) -> None:
    from profiler.report.console import plain_console
    from profiler.report.next_steps import print_next
    from profiler.report.plan import next_step, print_volume_plan
    from profiler.report.plan_document import plan_document

    planned, console = request.plan(), plain_console()
    content = partial(plan_document, planned, request.asked)
    write_html(NAME, content)
    if arguments.json:
        emit(NAME, content())
        return
    print_volume_plan(planned, request.asked, console)
    if not options.is_quiet(arguments):
        print_next([next_step(planned, request.asked)], console)


def _show_cheapest(request: Request, arguments: argparse.Namespace, write_html: WriteHtml) -> None:
    from profiler.report.cheapest import next_step, print_cheapest
    from profiler.report.console import plain_console
    from profiler.report.next_steps import print_next
    from profiler.report.plan_document import cheapest_document
    from sysctl.volume.cheapest import cheapest

    wanted = request.wanted()
    found = cheapest(wanted)
    command, content = (
        f"{NAME} --cheapest",
        partial(cheapest_document, found, wanted, request.asked),
    )
    write_html(command, content)
    if arguments.json:
        emit(command, content())
        return
    console = plain_console()
    print_cheapest(found, wanted, request.asked, console)
    if found.plans and not options.is_quiet(arguments):
        print_next([next_step(found.plans[0], request.asked)], console)
