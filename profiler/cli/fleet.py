# SPDX-License-Identifier: Apache-2.0
"""Merge the records of many nodes, and report on their classes.

A node writes a record of each pull with `writewise pull --record`. `ingest` merges the records into
tables in Parquet, which `report` reads, and Athena or Spark can read too. Neither needs root. Both
need the extra `fleet`, on the host where records are merged only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.common import access_from
from profiler.cli.json_documents import emit

NAME = "fleet"
HELP = "report on the records of many nodes"
NEEDS: tuple[str, ...] = ()

_INGEST, _REPORT = f"{NAME} ingest", f"{NAME} report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two actions."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    ingest = actions.add_parser(
        "ingest",
        help="merge records into tables",
        description="Merge the records of a directory or a prefix in S3 into tables in Parquet. "
        "Broken records are counted and named, and do not count.",
    )
    ingest.add_argument(
        "source", metavar="SOURCE", help="s3://BUCKET/PREFIX or a directory, as in --record"
    )
    ingest.add_argument(
        "folder", metavar="DIR", type=types.directory, help="write the tables into DIR"
    )
    ingest.add_argument(
        "--since",
        metavar="DATE",
        type=types.typed(_day),
        help="leave out records of earlier days (UTC), such as 2026-11-01",
    )
    options.add_json(ingest)
    options.add_access(ingest)
    ingest.set_defaults(action=_ingest)
    report = actions.add_parser(
        "report",
        help="report on the classes of nodes",
        description="Report for each class of nodes how many have writers that wait and why, what "
        "other settings would save as predicted, and which nodes are outliers.",
    )
    report.add_argument(
        "folder", metavar="DIR", type=types.directory, help="what `fleet ingest` wrote"
    )
    options.add_json(report)
    report.set_defaults(action=_report)


def _day(text: str) -> str:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(f"invalid day {text[:20]!r}; use YYYY-MM-DD") from None


def run(arguments: argparse.Namespace) -> int:
    """Run the action. Raises WritewiseError."""
    return int(arguments.action(arguments))


def _ingest(arguments: argparse.Namespace) -> int:
    """Merge and print; return 0 also if records are broken."""
    from profiler.fleet.ingest import ingest
    from profiler.fleet.sources import files_at
    from profiler.fleet.tables import require_engine
    from profiler.fleet.writing import parse_place
    from profiler.report.console import plain_console
    from profiler.report.fleet import ingested_document, print_ingested
    from profiler.report.progress import shown_count

    require_engine()
    folder: Path = arguments.folder
    files = files_at(parse_place(arguments.source), access_from(arguments), arguments.since or "")
    with shown_count(options.progress_console(arguments), "files") as show:
        done = ingest(files, folder, show)
    if arguments.json:
        emit(_INGEST, ingested_document(done))
    else:
        print_ingested(done, plain_console())
    return 0


def _report(arguments: argparse.Namespace) -> int:
    """Print the report."""
    from profiler.fleet.report import report_on
    from profiler.report.console import plain_console
    from profiler.report.fleet import fleet_document, print_fleet

    found = report_on(arguments.folder)
    if arguments.json:
        emit(_REPORT, fleet_document(found))
    else:
        print_fleet(found, plain_console())
    return 0
