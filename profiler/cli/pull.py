"""Pull objects from S3 under a contract: how long it took, and what the writes met."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from contracts.shared.errors import UsageError
from profiler.cli.common import add_access_arguments, terminable
from profiler.cli.needs import PULL

if TYPE_CHECKING:
    from contracts.model import Contract
    from profiler.pull.access import S3Access
    from profiler.pull.measured import PullMeasurement
    from profiler.pull.resume import Resumed
    from profiler.pull.source import Location

NAME = "pull"
HELP = "pull objects from S3 under a contract, measured and verified"
NEEDS = PULL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Source, destination, and how to pull."""
    from profiler.cli import argument_types as types

    parser.add_argument(
        "source",
        metavar="s3://BUCKET/PREFIX",
        help="a directory of keys, or one; with --workload its name, or a YAML file",
    )
    parser.add_argument(
        "destination", metavar="DEST", type=types.directory, help="an existing directory"
    )
    add_access_arguments(parser)
    parser.add_argument("--workers", metavar="N", type=types.count, help="processes, one per core")
    parser.add_argument("--client", metavar="NAME", help="one of those that `clients` lists")
    parser.add_argument(
        "--workload",
        action="store_true",
        help="pull a set of objects made for measuring from a server on this host (in TMPDIR), "
        "and delete it at the end",
    )
    parser.add_argument("--contract", metavar="FILE", help="default: the case study's contract")
    parser.add_argument(
        "--verify",
        choices=("checksum", "full", "size"),
        default="checksum",
        help="compare checksums (default), those of what the device gives back, or sizes alone",
    )
    parser.add_argument(
        "--all", action="store_true", help="pull also what the destination has already"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Pull, print, and return 0; 1 when an object did not arrive or is not what S3 has."""
    from contracts.loading import load_contract_of_calls
    from profiler.requirements import require

    contract = load_contract_of_calls(arguments.contract)
    require(*NEEDS)
    with terminable():
        resumed, measured = pull_and_measure(arguments, contract)
    _print(resumed, measured, contract, as_json=arguments.json)
    return 1 if measured.failures else 0


def pull_and_measure(
    arguments: argparse.Namespace, contract: Contract
) -> tuple[Resumed, PullMeasurement]:
    """Pull what the destination lacks; return what that was, and what was measured."""
    from rich.console import Console

    from profiler.bpf.session import ProfileSession
    from profiler.pull.clients.catalogue import usable
    from profiler.pull.destination import Destination
    from profiler.pull.measured import Verify, measure_pull
    from profiler.pull.resume import Resumed, find_missing
    from profiler.pull.settings import settings_for
    from profiler.pull.source import list_plan
    from profiler.pull.workers import WorkerPool
    from profiler.report.progress import shown_progress

    settings, client_name = settings_for(arguments.transfer, arguments.client)
    client, destination = usable(client_name), Destination(arguments.destination)
    with contextlib.ExitStack() as stack:
        with destination.open():
            pass  # what is wrong with it is said before anything is asked of S3, or made
        access, location, workers = stack.enter_context(source_of(arguments))
        pool = WorkerPool(access, settings, workers, client.make)
        plan = list_plan(access, location, needs_all=False)
        stack.enter_context(pool)
        pulls_all = arguments.all or arguments.workload
        resumed = Resumed(plan, ()) if pulls_all else find_missing(pool, plan, destination)
        session = stack.enter_context(ProfileSession(contract))
        show = stack.enter_context(shown_progress(Console(stderr=True)))
        measured = measure_pull(
            *(pool, resumed.missing, destination, session),
            keep=not arguments.workload,
            verify=Verify(arguments.verify),
            on_phase=show,
        )
        return resumed, measured


@contextlib.contextmanager
def source_of(arguments: argparse.Namespace) -> Iterator[tuple[S3Access, Location, int | None]]:
    """Yield how S3 is reached, what is pulled, and by how many workers (None: one per core)."""
    from profiler.pull.access import S3Access
    from profiler.pull.source import Location, parse_location

    if not arguments.workload:
        is_signed = not arguments.no_sign_request
        access = S3Access(arguments.endpoint_url, sign_requests=is_signed)
        yield access, parse_location(arguments.source), arguments.workers
        return
    from profiler.client_bench.sources import check_space
    from profiler.workloads.catalogue import find_workload
    from profiler.workloads.serving import BUCKET, served

    if arguments.endpoint_url is not None:
        raise UsageError("--workload has a server of its own", "leave --endpoint-url out")
    workload = find_workload(arguments.source)
    check_space([workload], arguments.destination)
    with served(workload) as server:
        access = S3Access(server.endpoint_url, sign_requests=False)
        yield access, Location(BUCKET, ""), arguments.workers or workload.workers


def _print(
    resumed: Resumed, measured: PullMeasurement, contract: Contract, *, as_json: bool
) -> None:
    from rich.console import Console

    from contracts.evaluate import evaluate
    from profiler.report.pulls import print_pull, pull_document

    stats = measured.snapshot.stats if measured.snapshot else ()
    findings = evaluate(contract, stats)
    if as_json:
        json.dump(pull_document(measured, findings, resumed), sys.stdout, indent=2)
        print()
    else:
        print_pull(measured, findings, contract.timeframe_ns, Console(), resumed)
