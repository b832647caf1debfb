# SPDX-License-Identifier: Apache-2.0
"""`--record`: a small record of a pull, for the report on a fleet.

A record that cannot be written costs a sentence, never the pull.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from profiler.cli.common import access_from
from profiler.cli.parser import rare

if TYPE_CHECKING:
    from profiler.fleet.measured import PullRecorder
    from profiler.fleet.writing import RecordPlace
    from profiler.pull.measured import PullMeasurement
    from sysctl.evidence.circumstances import Circumstances


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    rare(
        parser.add_argument(
            "--record",
            metavar="WHERE",
            help="write a small record for `writewise fleet`: s3://BUCKET/PREFIX, a directory, or "
            "a file FILE.json.gz",
        )
    )


@contextlib.contextmanager
def pull_record(arguments: argparse.Namespace, here: Circumstances) -> Iterator[PullToRecord]:
    """Yield what takes the measurement; a pull that S3 or the disk ends is recorded as failed.

    Raises UsageError for a place that cannot be used, before anything is pulled.
    """
    if arguments.record is None:
        yield PullToRecord(arguments, None, None)
        return
    from profiler.fleet.measured import PullRecorder
    from profiler.fleet.writing import parse_place
    from profiler.pull.errors import PullError

    to_record = PullToRecord(arguments, parse_place(arguments.record), PullRecorder(here))
    try:
        yield to_record
    except PullError:
        to_record.write(None)
        raise


class PullToRecord:
    """A pull that is recorded if there is a place for its record."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        place: RecordPlace | None,
        recorder: PullRecorder | None,
    ) -> None:
        self._arguments = arguments
        self._place = place
        self._recorder = recorder

    def write(self, measured: PullMeasurement | None) -> None:
        """Write the record; without a place, nothing."""
        if self._place is None or self._recorder is None:
            return
        from profiler.fleet.writing import write_record

        try:
            access = access_from(self._arguments)
            write_record(self._recorder.record(measured), self._place, access)
        except (WritewiseError, OSError) as error:  # what was measured is reported all the same
            _say(error)


def _say(error: WritewiseError | OSError) -> None:
    hint = error.hint if isinstance(error, WritewiseError) else ""
    print(printable(f"writewise: no record was written: {error}"), file=sys.stderr)
    if hint:
        print(printable(f"  → {hint}"), file=sys.stderr, flush=True)
