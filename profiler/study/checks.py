# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a sweep's arguments on this host, found before S3 is asked."""

from __future__ import annotations

from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from profiler.pull.destination import Destination
from profiler.pull.worker_processes import check_count

_NO_RESUME = "omit --resume, or pass the file of an earlier sweep with --output"


def check_arguments(
    destination: Path, output: Path, workers: int | None, *, resume: bool, makes_folder: bool
) -> None:
    """Raise UsageError for a destination, a results file or workers that a sweep cannot use.

    With `makes_folder` the folder of the results file is made later. Raises PullError for a
    destination that cannot be written.
    """
    Destination(destination).check()
    _check_output(output, resume=resume, makes_folder=makes_folder)
    check_count(workers)


def _check_output(output: Path, *, resume: bool, makes_folder: bool) -> None:
    name = printable(str(output))
    if output.is_dir():
        raise UsageError(f"{name} is a directory", "name a file in it with --output")
    if output.exists() and not resume:
        raise UsageError(
            f"{name} already exists",
            "continue it with --resume, or use another file with --output",
        )
    if resume and not output.exists():
        raise UsageError(f"{name} does not exist, so it cannot be resumed", _NO_RESUME)
    if not makes_folder and not output.parent.is_dir():
        raise UsageError(
            f"{printable(str(output.parent))} is not a directory",
            "create it, or name a file in another directory with --output",
        )
