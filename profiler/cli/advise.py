"""Recommend settings from a sweep's results, with reasons, and write them down as files.

The cheapest setting is recommended among those that cannot be told from the fastest, and none where
the evidence does not carry it: docs/advice.md. Limits that are not given are those of the sweep.
"""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.text import printable
from profiler.cli.limit_arguments import add_limit_arguments, limits_from

if TYPE_CHECKING:
    from sysctl.advise import Recommendation

NAME = "advise"
HELP = "recommend settings from a sweep's results and write the sysctl.d snippet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The results, what may be paid, and where the files go."""
    parser.add_argument("results", metavar="RESULTS.json", type=Path)
    add_limit_arguments(parser)
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
    from sysctl.price import limits_of
    from sysctl.results import load

    results = load(arguments.results)
    recommendation = advise(results, limits_from(arguments, limits_of(results)))
    lines = group_lines_here(recommendation)
    if arguments.json:
        print(json.dumps(advice_document(recommendation, lines), indent=2))
    else:
        print_advice(recommendation, Console(), lines)
    folder = arguments.output_directory
    written = [] if recommendation.best is None else write_files(recommendation, folder)
    removed = remove_earlier(folder, written)
    if not arguments.json:
        for verb, paths in (("wrote", written), ("removed", removed)):
            print("".join(f"{verb} {printable(str(path))}\n" for path in paths), end="")
        if removed:
            print("What was removed was written for an earlier advice, and this one differs.")
        if written:
            print("The first lines of a .conf say how to use it and how to undo it.")
    return 0


def group_lines_here(recommendation: Recommendation) -> list[str]:
    """What the memory limit of this process's control group means; empty where there is none."""
    from sysctl.group_advice import group_lines
    from sysctl.host.memory_group import memory_group
    from sysctl.host.system import System

    group = memory_group(System())
    return group_lines(recommendation, group) if group else []


def write_files(recommendation: Recommendation, folder: Path) -> list[Path]:
    """Write the sysctl.d snippets and the fstab line to `folder`; the paths. Raises UsageError."""
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
    other = sysctl_d.other_form(recommendation)
    if other is not None:
        text = sysctl_d.render(recommendation, other)
        texts[folder / sysctl_d.other_file_name(other)] = text
    for path, text in texts.items():
        write_atomically(path, text)
    return list(texts)


def remove_earlier(folder: Path, written: Sequence[Path]) -> list[Path]:
    """Remove the files of an earlier advice in `folder` that are not `written`; their paths.

    Of two that contradict each other the wrong one may be installed. Only a regular file goes that
    has the name and the first line of ours. Raises UsageError where one cannot be removed.
    """
    from contracts.errors import UsageError
    from sysctl.render import fstab, sysctl_d

    removed = []
    for path in (folder / name for name in (*sysctl_d.FILE_NAMES, fstab.FILE_NAME)):
        if path not in written and _is_ours(path):
            try:
                path.unlink()
            except OSError as error:
                raise UsageError(f"cannot remove the old {path}: {error.strerror}") from None
            removed.append(path)
    return removed


def _is_ours(path: Path) -> bool:
    """Whether it is a regular file, no link to one, that begins as ours do."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    mark = b"# Written by writewise: "
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with os.fdopen(os.open(path, flags), "rb") as file:
            return stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(len(mark)) == mark
    except OSError:
        return False
