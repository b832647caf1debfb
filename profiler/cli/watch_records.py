# SPDX-License-Identifier: Apache-2.0
"""`watch --record`: a small record of each day, for the report on a fleet.

A record that cannot be written costs a sentence, never the service.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared.errors import UsageError, WritewiseError
from profiler.cli.parser import rare

if TYPE_CHECKING:
    from profiler.bpf.stall_session import StallSession
    from profiler.fleet.writing import RecordPlace
    from profiler.service.day_records import DayRecords
    from sysctl.evidence.class_key import ClassKey
    from sysctl.host.system import System


def add_day_record(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    rare(
        parser.add_argument(
            "--record",
            metavar="WHERE",
            help="write a small record of each day (UTC) for `writewise fleet`: s3://BUCKET/PREFIX "
            "or a directory",
        )
    )


def record_place(arguments: argparse.Namespace) -> RecordPlace | None:
    """Return where records go; None for no records. Raises UsageError."""
    if arguments.record is None:
        return None
    from profiler.fleet.writing import parse_place

    if not arguments.destinations:
        raise UsageError(
            "--record needs DEST", "name the directory of the volume that the node's class has"
        )
    return parse_place(arguments.record)


def unit_options(place: RecordPlace | None) -> list[str]:
    """Return the option for a unit of systemd."""
    if place is None:
        return []
    where = f"s3://{place.bucket}/{place.prefix}" if place.path is None else place.path.resolve()
    return ["--record", str(where)]


@contextlib.contextmanager
def recorded_days(
    place: RecordPlace | None,
    destination: Path | None,
    stalls: StallSession,
    say: Callable[[str], None],
) -> Iterator[DayRecords | None]:
    """Yield what takes the samples of a watch, and write the last record at the end.

    To be entered with root's privileges. The class of the node is that of the destination.
    """
    if place is None or destination is None:
        yield None
        return
    from profiler.fleet.node_id import node_id
    from profiler.service.day_records import DayRecords
    from profiler.service.exporting import drop_privileges
    from profiler.service.record_sender import RecordSender
    from sysctl.host.system import System

    system = System()
    try:
        node, key = node_id(system), _class_of(destination, system)
    except (WritewiseError, OSError) as error:
        say(f"no records are written: {error}")
        yield None
        return
    sender = RecordSender(place, say, drop_privileges)
    records = DayRecords(node, key, stalls, sender.send, say, system)
    sender.start()
    try:
        yield records
    finally:
        records.finish()
        sender.close()


def _class_of(destination: Path, system: System) -> ClassKey:
    """Return the class of the destination; who writes there, and under which limit, is unknown."""
    from profiler.report.origin import circumstances_of_pull
    from sysctl.evidence.class_key import class_key_of
    from sysctl.host.memory_group import cgroup_version

    shared = circumstances_of_pull(destination).node_class
    return class_key_of(shared, cgroup_version=cgroup_version(system), memory_limit_bytes=None)
