"""Recommend settings from a sweep's results, with reasons, and write them down as files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sysctl.advise import Recommendation

NAME = "advise"
HELP = "recommend settings from a sweep's results and write the sysctl.d snippet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The results, and where the files go."""
    parser.add_argument("results", metavar="RESULTS.json", type=Path)
    parser.add_argument(
        "--output-directory", metavar="DIR", type=Path, default=Path(), help="default: here"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print the recommendation; when a change is recommended also write its files."""
    import json

    from rich.console import Console

    from profiler.report.advice import advice_document, print_advice
    from sysctl.advise import advise
    from sysctl.results import load

    recommendation = advise(load(arguments.results))
    if arguments.json:
        print(json.dumps(advice_document(recommendation), indent=2))
    else:
        print_advice(recommendation, Console())
    if recommendation.best is not None:
        for path in write_files(recommendation, arguments.output_directory):
            if not arguments.json:
                print(f"wrote {path}")
    return 0


def write_files(recommendation: Recommendation, folder: Path) -> list[Path]:
    """Write the sysctl.d snippet and the fstab line to `folder`; the paths. Raises UsageError."""
    from contracts.errors import UsageError
    from sysctl.render import fstab, sysctl_d
    from sysctl.results import write_atomically

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot use {folder}: {error.strerror}") from None
    texts = {
        folder / sysctl_d.FILE_NAME: sysctl_d.render(recommendation),
        folder / fstab.FILE_NAME: fstab.render(recommendation),
    }
    for path, text in texts.items():
        write_atomically(path, text)
    return list(texts)
