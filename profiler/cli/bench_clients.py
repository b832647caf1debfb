"""Compare pull clients: the same objects by each in turns, from workloads or from a bucket."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

from contracts.shared.errors import RequirementError, UsageError
from profiler.cli.common import access_from, add_access_arguments, measuring_alone, terminable
from profiler.cli.needs import PROFILE

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.bpf.session import ProfileSession
    from profiler.client_bench.client_comparison import ClientComparison
    from profiler.client_bench.run import Source
    from profiler.client_bench.sources import Conditions
    from profiler.pull.clients.interface import Client
    from profiler.workloads.catalogue import Workload

NAME = "bench-clients"
HELP = "compare pull clients by measured pulls, and say which is fastest"
NEEDS = ("boto3",)
_FORMS = ("json", "markdown")
_DEFAULT_ROWS = "synapse-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Source, destination, which clients, and where the tables go."""
    from profiler.cli import argument_types as types

    parser.add_argument(
        "source",
        metavar="s3://BUCKET/PREFIX",
        nargs="?",
        help="what to pull; default: workloads, from a server on this host (made in TMPDIR)",
    )
    parser.add_argument("destination", metavar="DEST", type=types.directory, help="on the volume")
    add_access_arguments(parser)
    parser.add_argument(
        "--workload",
        metavar="NAME,…",
        type=types.words,
        help="workloads, or YAML files of one; default: the seven rows synapse-*",
    )
    parser.add_argument(
        "--clients",
        metavar="NAME,…",
        type=types.words,
        help="default: all that `clients` finds on this host",
    )
    parser.add_argument(
        "--pulls",
        metavar="N",
        type=types.count,
        default=4,
        help="of each row by each client, after one that does not count; default 4; an even number "
        "meets all clients alike",
    )
    parser.add_argument("--workers", metavar="N", type=types.count, help="processes, one per core")
    for form in _FORMS:
        parser.add_argument(f"--{form}", metavar="FILE", help="write it to a new file; - prints it")


def run(arguments: argparse.Namespace) -> int:
    """Compare and print; 0, or 1 when a row, or a client in one, could not be measured."""
    from rich.console import Console

    from profiler.requirements import require

    require(*NEEDS)
    if arguments.json == arguments.markdown == "-":
        raise UsageError("--json and --markdown cannot both be printed", "name a file for one")
    with terminable(), _outputs(arguments) as outputs:
        comparison = compare_clients(arguments, Console(stderr=True))
        _write(comparison, outputs)
    if comparison.ended_by is not None:
        raise comparison.ended_by
    return 1 if comparison.problems else 0


@contextlib.contextmanager
def _outputs(arguments: argparse.Namespace) -> Iterator[dict[str, IO[str]]]:
    """Form → stream; files are made before anything is measured. A table where none is printed."""
    from profiler.report.destination import new_file

    paths = {form: getattr(arguments, form) for form in _FORMS}
    with contextlib.ExitStack() as stack:
        streams: dict[str, IO[str]] = {
            form: sys.stdout if path == "-" else stack.enter_context(new_file(path))
            for form, path in paths.items()
            if path is not None
        }
        if "-" not in paths.values():
            streams["table"] = sys.stdout
        yield streams


def _write(comparison: ClientComparison, outputs: dict[str, IO[str]]) -> None:
    from profiler.report import client_bench as report
    from profiler.report.console import plain_console

    if "table" in outputs:
        report.print_comparison(comparison, plain_console())
    if "markdown" in outputs:
        outputs["markdown"].write(report.markdown(comparison))
    if "json" in outputs:
        json.dump(report.comparison_document(comparison), outputs["json"], indent=2)
        outputs["json"].write("\n")


def compare_clients(arguments: argparse.Namespace, progress: Console) -> ClientComparison:
    """Pull what was asked for by each client in turns; `progress` shows each pull."""
    from dataclasses import replace

    from profiler.client_bench.context import context_of
    from profiler.client_bench.run import compare
    from profiler.client_bench.sources import Conditions
    from profiler.pull.destination import Destination
    from profiler.pull.settings import parse_settings
    from profiler.report.client_bench import print_plan, print_pull

    settings, destination = parse_settings(arguments.transfer), Destination(arguments.destination)
    with destination.open():
        pass  # what is wrong with it is said before anything is asked of S3, or made
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
    """Return those asked for, else all that can be used here; and their versions, as resolved."""
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
    """What makes the rows, once the conditions are known; mistakes are told at once."""
    from profiler.client_bench.sources import BucketSource, WorkloadSource, check_space

    if arguments.source is not None:
        from profiler.pull.source import parse_location

        if arguments.workload:
            raise UsageError("a bucket and --workload do not go together", "give one of them")
        access = access_from(arguments)
        location = parse_location(arguments.source)
        return lambda given: [BucketSource(access, location, given)]
    if arguments.endpoint_url is not None:
        raise UsageError("workloads have a server of their own", "leave --endpoint-url out")
    workloads = workloads_asked_for(arguments.workload)
    check_space(workloads, arguments.destination)
    return lambda given: [WorkloadSource(workload, given) for workload in workloads]


def workloads_asked_for(names: Sequence[str] | None) -> list[Workload]:
    """Return the workloads of these names, each once; without names the default rows."""
    from profiler.workloads.catalogue import find_workload, shipped_workloads

    if names:
        return [find_workload(name) for name in dict.fromkeys(names)]
    return [each for each in shipped_workloads() if each.name.startswith(_DEFAULT_ROWS)]


def _session(stack: contextlib.ExitStack) -> tuple[ProfileSession | None, str | None]:
    """A session that sees stalls; without root or BPF None, and why."""
    from contracts.loading import load_contract_of_calls
    from profiler.bpf.session import ProfileSession
    from profiler.requirements import require

    try:
        require(*PROFILE)
        return stack.enter_context(ProfileSession(load_contract_of_calls(None))), None
    except RequirementError as error:
        return None, error.message
