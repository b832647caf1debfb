# SPDX-License-Identifier: Apache-2.0
"""Pull objects from S3 under a contract: measure the time, and what the writes waited for."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from contracts.shared.errors import UsageError
from profiler.cli import options
from profiler.cli.common import access_from, terminable
from profiler.cli.html_option import WriteHtml, add_html, html_file
from profiler.cli.json_documents import emit
from profiler.cli.metrics_textfile import add_metrics_textfile, usable_textfile, write_pull
from profiler.cli.needs import PULL
from profiler.cli.record_option import add_record, pull_record
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from contracts.model import Contract
    from profiler.pull.access import S3Access
    from profiler.pull.measured import PullMeasurement
    from profiler.pull.resume import Resumed
    from profiler.pull.source import Location

NAME = "pull"
HELP = "pull objects from S3, measured and verified"
NEEDS = PULL
IS_REMEMBERED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source, destination, and how to pull."""
    options.add_source(parser, is_optional=True)
    options.add_destination(parser)
    parser.add_argument(
        "--workload",
        metavar="NAME",
        help="instead of a bucket: pull objects made for measuring from a server on this host, and "
        "delete them; a shipped workload or a YAML file",
    )
    options.add_max_bytes(parser)
    options.add_client(parser)
    options.add_workers(parser)
    options.add_contract(parser)
    parser.add_argument(
        "--verify",
        choices=("checksum", "full", "size"),
        metavar="HOW",
        default="checksum",
        help="checksum: of what was received (default); full: of what the device returns; size",
    )
    parser.add_argument(
        "--all", action="store_true", help="also pull what the destination already has"
    )
    options.add_json(parser)
    add_html(parser)
    add_metrics_textfile(parser)
    add_record(parser)
    options.add_access(parser)
    options.add_transfer(parser)


def run(arguments: argparse.Namespace) -> int:
    """Pull and print; return 0, or 1 if an object is missing or differs from S3's."""
    from contracts.loading import load_contract_of_calls
    from profiler.report.history import pull_outcome
    from profiler.report.origin import circumstances_of_pull, origin_of_pull
    from profiler.requirements import require

    _check_source(arguments)
    contract = load_contract_of_calls(arguments.contract)
    require(*NEEDS)
    textfile = usable_textfile(arguments)
    asked = _asked(arguments, contract)
    here = circumstances_of_pull(arguments.destination, asked["client"])
    origin = origin_of_pull(here, asked)
    with html_file(arguments) as write_html:
        with pull_record(arguments, here) as to_record, terminable():
            resumed, measured = pull_and_measure(arguments, contract)
        remember(arguments, pull_outcome(measured))
        if resumed.missing.objects and not measured.failures:  # else it was no whole pull
            write_pull(textfile, measured.return_s, measured.durable_s)
        _report(resumed, measured, contract, origin, write_html, as_json=arguments.json)
        if resumed.missing.objects:
            to_record.write(measured)
    return 1 if measured.failures else 0


def _asked(arguments: argparse.Namespace, contract: Contract) -> dict[str, str | None]:
    """Return what is pulled and how, for the report."""
    from profiler.pull.clients.catalogue import DEFAULT
    from profiler.pull.settings import settings_for
    from profiler.recording.log_origin import without_secrets

    settings, client = settings_for(arguments.transfer, arguments.client)
    endpoint_url, workload = arguments.endpoint_url, arguments.workload
    return {
        "source": arguments.source or f"workload {workload}",
        "endpoint_url": without_secrets([endpoint_url])[0] if endpoint_url else None,
        "client": client or DEFAULT.name,
        "transfer": str(settings),
        "contract": contract.source,
    }


def pull_and_measure(
    arguments: argparse.Namespace, contract: Contract
) -> tuple[Resumed, PullMeasurement]:
    """Pull the objects that the destination lacks; return these and the measurement."""
    from profiler.bpf.session import ProfileSession
    from profiler.pull.clients.catalogue import usable
    from profiler.pull.destination import Destination
    from profiler.pull.measured import Verify, measure_pull
    from profiler.pull.resume import Resumed, find_missing
    from profiler.pull.sample import check_sampling, sampled
    from profiler.pull.settings import settings_for
    from profiler.pull.source import list_plan
    from profiler.pull.workers import WorkerPool
    from profiler.report.progress import shown_progress
    from profiler.watch.volumes import EbsVolumes

    settings, client_name = settings_for(arguments.transfer, arguments.client)
    client, destination = usable(client_name), Destination(arguments.destination)
    with contextlib.ExitStack() as stack:
        destination.check()  # report its errors before any request to S3 or change on disk
        access, location, workers = stack.enter_context(source_of(arguments))
        pool = WorkerPool(access, settings, workers, client.make)
        check_sampling(client, arguments.max_bytes)
        plan = sampled(list_plan(access, location, needs_all=False), arguments.max_bytes)
        stack.enter_context(pool)
        pulls_all = arguments.all or arguments.workload is not None
        resumed = Resumed(plan, ()) if pulls_all else find_missing(pool, plan, destination)
        session = stack.enter_context(ProfileSession(contract))
        volumes = stack.enter_context(EbsVolumes.below(arguments.destination))
        show = stack.enter_context(shown_progress(options.progress_console(arguments)))
        measured = measure_pull(
            *(pool, resumed.missing, destination, session),
            keep=arguments.workload is None,
            verify=Verify(arguments.verify),
            on_phase=show,
            volumes=volumes,
        )
        return resumed, measured


def _check_source(arguments: argparse.Namespace) -> None:
    """Raise UsageError unless there is one source, a bucket or a workload."""
    if (arguments.workload is None) == (arguments.source is None):
        raise UsageError(
            "pull needs either s3://BUCKET/PREFIX or --workload NAME", "see `writewise pull --help`"
        )
    if arguments.workload is not None and arguments.endpoint_url is not None:
        raise UsageError("--workload has its own server", "omit --endpoint-url")


@contextlib.contextmanager
def source_of(arguments: argparse.Namespace) -> Iterator[tuple[S3Access, Location, int | None]]:
    """Yield how S3 is reached, what is pulled, and by how many workers (None: one per core)."""
    from profiler.pull.access import S3Access
    from profiler.pull.source import Location, parse_location

    _check_source(arguments)
    if arguments.source is not None:
        yield access_from(arguments), parse_location(arguments.source), arguments.workers
        return
    from profiler.client_bench.sources import check_space
    from profiler.workloads.catalogue import find_workload
    from profiler.workloads.serving import BUCKET, served

    workload = find_workload(arguments.workload)
    check_space([workload], arguments.destination)
    with served(workload) as server:
        access = S3Access(server.endpoint_url, sign_requests=False)
        yield access, Location(BUCKET, ""), arguments.workers or workload.workers


def _report(
    resumed: Resumed,
    measured: PullMeasurement,
    contract: Contract,
    origin: Mapping[str, str],
    write_html: WriteHtml,
    *,
    as_json: bool,
) -> None:
    """Print the pull, and write the page."""
    from contracts.evaluate import evaluate
    from profiler.report.console import plain_console
    from profiler.report.pulls import print_pull, pull_document

    stats = measured.snapshot.stats if measured.snapshot else ()
    findings = evaluate(contract, stats)
    content = cache(lambda: pull_document(measured, findings, resumed, origin))
    if as_json:
        emit(NAME, content())
    else:
        print_pull(measured, findings, contract.timeframe_ns, plain_console(), resumed)
    write_html(NAME, content)
