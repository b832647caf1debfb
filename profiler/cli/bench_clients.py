# SPDX-License-Identifier: Apache-2.0
"""Compare pull clients: pull the same objects with each in turn, of workloads or of a bucket."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING

from contracts.shared.errors import RequirementError, UsageError
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.common import access_from, measuring_alone, terminable
from profiler.cli.html_option import add_html, html_file
from profiler.cli.json_documents import emit
from profiler.cli.needs import PROFILE
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.bpf.session import ProfileSession
    from profiler.client_bench.client_comparison import ClientComparison
    from profiler.client_bench.run import Source
    from profiler.client_bench.sources import Conditions
    from profiler.pull.clients.interface import Client
    from profiler.workloads.catalogue import Workload

NAME = "bench-clients"
HELP = "compare pull clients by measured pulls"
NEEDS = ("boto3",)
IS_REMEMBERED = True
_DEFAULT_ROWS = "synapse-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source, destination, clients, and where the tables go."""
    options.add_source(
        parser,
        is_optional=True,
        help="what to pull (default: workloads, from a server on this host)",
    )
    options.add_destination(parser)
    parser.add_argument(
        "--workload",
        metavar="NAME,…",
        type=types.words,
        help="workloads, or YAML files with one (default: the seven synapse-*)",
    )
    parser.add_argument(
        "--clients",
        metavar="NAME,…",
        type=types.words,
        help="clients to compare (default: all that are installed)",
    )
    parser.add_argument(
        "--pulls",
        metavar="N",
        type=types.count,
        default=4,
        help="counted pulls by each client; use an even number, so that order has no effect "
        "(default: 4)",
    )
    options.add_workers(parser)
    options.add_json(parser)
    options.add_output(parser, "report")
    add_html(parser)
    parser.add_argument(
        "--markdown", metavar="FILE", help="also write Markdown tables to FILE; - prints them"
    )
    options.add_access(parser)
    options.add_transfer(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print; return 0, or 1 if a row, or a client in one, could not be measured."""
    from profiler.report.history import bench_outcome
    from profiler.requirements import require

    require(*NEEDS)
    if arguments.markdown == "-" and arguments.output is None:
        if arguments.json:
            message = "--json and --markdown - cannot both print to standard output"
            raise UsageError(
                message, "write one of them to a file, with --output or --markdown FILE"
            )
        report = None  # the tables alone
    else:
        report = "json" if arguments.json else "table"
    with terminable(), _outputs(arguments) as outputs, html_file(arguments) as write_html:
        comparison = compare_clients(arguments, options.progress_console(arguments))
        remember(arguments, *bench_outcome(comparison))
        _write(comparison, report, *outputs)
        write_html(NAME, partial(_document, comparison))
    if comparison.ended_by is not None:
        raise comparison.ended_by
    return 1 if comparison.problems else 0


@contextlib.contextmanager
def _outputs(arguments: argparse.Namespace) -> Iterator[tuple[IO[str], IO[str] | None]]:
    """Yield where the report and the Markdown go; files are created before any measurement."""
    from profiler.report.destination import new_file

    with contextlib.ExitStack() as stack:

        def opened(path: str) -> IO[str]:
            return sys.stdout if path == "-" else stack.enter_context(new_file(path))

        report = opened(str(arguments.output or "-"))
        yield report, None if arguments.markdown is None else opened(arguments.markdown)


def _write(
    comparison: ClientComparison, form: str | None, output: IO[str], markdown: IO[str] | None
) -> None:
    from profiler.report import client_bench as report
    from profiler.report.console import plain_console

    if form == "table":
        report.print_comparison(comparison, plain_console(output))
    if markdown is not None:
        markdown.write(report.markdown(comparison))
    if form == "json":
        emit(NAME, _document(comparison), output)


def _document(comparison: ClientComparison) -> dict[str, object]:
    from profiler.report.client_bench import comparison_document

    return comparison_document(comparison)


def compare_clients(arguments: argparse.Namespace, progress: Console) -> ClientComparison:
    """Pull the objects with each client in turn; `progress` shows each pull."""
    from dataclasses import replace

    from profiler.client_bench.context import context_of
    from profiler.client_bench.run import compare
    from profiler.client_bench.sources import Conditions
    from profiler.pull.destination import Destination
    from profiler.pull.settings import parse_settings
    from profiler.report.client_bench import print_plan, print_pull

    settings, destination = parse_settings(arguments.transfer), Destination(arguments.destination)
    destination.check()  # report its errors before any request to S3 or change on disk
    make_sources = _sources(arguments)
    clients, versions = clients_asked_for(arguments.clients)
    with contextlib.ExitStack() as stack:
        stack.enter_context(measuring_alone(f"bench-clients to {arguments.destination}"))
        session, no_stalls = _session(stack)
        context = context_of(arguments.destination, settings, arguments.pulls, versions, no_stalls)
        given = Conditions(destination, settings, arguments.workers, session)
        sources, names = make_sources(given), [client.name for client in clients]
        print_plan(len(sources), names, arguments.pulls, progress)
        found = compare(
            sources,
            clients,
            lambda row, client, pull: print_pull(row, client, pull, progress),
            arguments.pulls,
        )
    return replace(found, context=context)


def clients_asked_for(names: Sequence[str] | None) -> tuple[list[Client], dict[str, str]]:
    """Return the clients asked for, else all usable ones, and their resolved versions."""
    from profiler.pull.clients.catalogue import by_name, usable
    from profiler.pull.clients.survey import survey

    clients = [usable(name) for name in dict.fromkeys(names or ())]
    found = {
        each.name: f"{each.version} ({each.transfer_client})"
        for each in survey()
        if each.version is not None
    }
    clients = clients or [by_name(name) for name in found]
    return clients, {client.name: found[client.name] for client in clients}


def _sources(arguments: argparse.Namespace) -> Callable[[Conditions], list[Source]]:
    """Return what makes the rows once the conditions are known; raise errors at once."""
    from profiler.client_bench.sources import BucketSource, WorkloadSource, check_space

    if arguments.source is not None:
        from profiler.pull.source import parse_location

        if arguments.workload:
            raise UsageError(
                "a bucket and --workload cannot be used together", "pass only one of them"
            )
        access = access_from(arguments)
        location = parse_location(arguments.source)
        return lambda given: [BucketSource(access, location, given)]
    if arguments.endpoint_url is not None:
        raise UsageError("workloads have their own server", "omit --endpoint-url")
    workloads = workloads_asked_for(arguments.workload)
    check_space(workloads, arguments.destination)
    return lambda given: [WorkloadSource(workload, given) for workload in workloads]


def workloads_asked_for(names: Sequence[str] | None) -> list[Workload]:
    """Return the workloads with these names, each once; without names the default rows."""
    from profiler.workloads.catalogue import find_workload, shipped_workloads

    if names:
        return [find_workload(name) for name in dict.fromkeys(names)]
    return [each for each in shipped_workloads() if each.name.startswith(_DEFAULT_ROWS)]


def _session(stack: contextlib.ExitStack) -> tuple[ProfileSession | None, str | None]:
    """Return a session that sees stalls; without root or BPF None, and why."""
    from contracts.loading import load_contract_of_calls
    from profiler.bpf.session import ProfileSession
    from profiler.requirements import require

    try:
        require(*PROFILE)
        return stack.enter_context(ProfileSession(load_contract_of_calls(None))), None
    except RequirementError as error:
        return None, error.message
