# SPDX-License-Identifier: Apache-2.0
"""`--metrics-textfile`: what a batch command measured, for the node_exporter.

A file that cannot be written costs a sentence before the command begins, and the command goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from profiler.cli import argument_types as types
from profiler.cli.parser import rare

if TYPE_CHECKING:
    from sysctl.evidence.results import Results


def add_metrics_textfile(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    rare(
        parser.add_argument(
            "--metrics-textfile",
            metavar="FILE",
            type=types.file,
            help="write the times for the node_exporter: DIR/writewise.prom",
        )
    )


def usable_textfile(arguments: argparse.Namespace) -> Path | None:
    """Return the file, or None after a sentence if it cannot be written."""
    path: Path | None = arguments.metrics_textfile
    if path is None:
        return None
    from profiler.metrics.textfile import check_textfile

    try:
        check_textfile(path)
    except UsageError as error:
        _say(error)
        return None
    return path


def write_pull(path: Path | None, return_s: float, durable_s: float | None) -> None:
    """Write the times of a pull that ended now; without a file, nothing."""
    if path is None:
        return
    from profiler.metrics import definitions as metrics
    from profiler.metrics.definitions import MetricValue
    from profiler.metrics.textfile import write_textfile

    values = [MetricValue(metrics.PULL_RETURN, return_s)]
    if durable_s is not None:
        values.append(MetricValue(metrics.PULL_DURABLE, durable_s))
    values.append(MetricValue(metrics.PULL_TIME, time.time()))
    try:
        write_textfile(path, values)
    except UsageError as error:  # what was measured is reported all the same
        _say(error)


def write_sweep(path: Path | None, results: Results) -> None:
    """Write the times of a sweep's last valid pull with the current settings, if it has one."""
    from sysctl.evidence.runs import Runs

    present = Runs.of(results).valid_present
    if path is not None and present:
        write_pull(path, present[-1].return_s, present[-1].durable_s)


def _say(error: UsageError) -> None:
    print(printable(f"writewise: {error.message}"), file=sys.stderr)
    print(printable(f"  → {error.hint}"), file=sys.stderr, flush=True)
