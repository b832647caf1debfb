"""Recommend settings from a sweep's results, with reasons, and write them down as files.

The cheapest setting is recommended among those that cannot be told from the fastest, and none where
the evidence does not carry it: docs/advice.md. Limits that are not given are those of the sweep.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared.text import printable
from profiler.cli.limit_arguments import add_limit_arguments, limits_from

if TYPE_CHECKING:
    from sysctl.advice.advise import Recommendation
    from sysctl.render.snippet import Format

NAME = "advise"
HELP = "recommend settings from a sweep's results and write them down as files"
NEEDS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The results, what may be paid, and where the files go."""
    parser.add_argument("results", metavar="RESULTS.json", type=Path)
    add_limit_arguments(parser)
    parser.add_argument(
        "--output-directory", metavar="DIR", type=Path, default=Path(), help="default: here"
    )
    parser.add_argument(
        "--format",
        metavar="NAME[,NAME…]|all",
        type=_formats,
        action=_FormatAction,
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document")


class _FormatAction(argparse.Action):
    """Names the formats in its help, and imports them only where that is shown."""

    @property
    def help(self) -> str:
        from sysctl.render.formats import DEFAULT, NAMES

        defaults = [each.name for each in DEFAULT]
        others = [name for name in NAMES if name not in defaults]
        return f"by default {', '.join(defaults)}; or {', '.join(others)}"

    @help.setter
    def help(self, _: object) -> None:
        """What argparse sets at first."""

    def __call__(
        self, _: object, namespace: argparse.Namespace, values: object, *__: object
    ) -> None:
        setattr(namespace, self.dest, values)


def _formats(text: str) -> tuple[Format, ...]:
    from sysctl.render.formats import formats_named

    try:
        return formats_named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(arguments: argparse.Namespace) -> int:
    """Print the recommendation; when a change is recommended also write its files."""
    import json

    from rich.console import Console

    from profiler.report.advice import advice_document, print_advice
    from sysctl.advice.advise import advise
    from sysctl.evidence.price import limits_of
    from sysctl.evidence.results import load

    results = load(arguments.results)
    recommendation = advise(results, limits_from(arguments, limits_of(results.circumstances)))
    lines = group_lines_here(recommendation)
    if arguments.json:
        print(json.dumps(advice_document(recommendation, lines), indent=2))
    else:
        print_advice(recommendation, Console(), lines)
    write_and_tell(
        recommendation, arguments.output_directory, arguments.format, is_silent=arguments.json
    )
    return 0


def write_and_tell(
    recommendation: Recommendation,
    folder: Path,
    formats: Sequence[Format] | None = None,
    *,
    is_silent: bool = False,
) -> None:
    """Write the files, remove an earlier advice's, and say so, and what no file could say.

    In `formats`, or by default in those that every host has.
    """
    from profiler.report.advised_change import change_of
    from profiler.study.snippet_files import remove_earlier, write_snippets
    from sysctl.render.formats import DEFAULT, render_all

    change = change_of(recommendation)
    rendered = render_all(change, formats or DEFAULT) if change else None
    written = write_snippets(rendered.snippets, folder) if rendered else []
    removed = remove_earlier(folder, change)
    if is_silent:
        return
    left_out: tuple[str, ...] = ()
    if rendered:
        left_out = rendered.left_out if formats else rendered.inexpressible
    for verb, told in (("wrote", written), ("not written:", left_out), ("removed", removed)):
        print("".join(f"{verb} {printable(str(each))}\n" for each in told), end="")
    if removed:
        print("What was removed was written for an earlier advice, and this one differs.")
    if written:
        print("The first lines of each snippet say how to use it and how to undo it.")


def group_lines_here(recommendation: Recommendation) -> list[str]:
    """What the memory limit of this process's control group means; no lines without one."""
    from profiler.report.groups import group_lines
    from sysctl.advice.group_advice import group_advice
    from sysctl.host.memory_group import memory_group
    from sysctl.host.sysctls import read_dirty_bytes
    from sysctl.host.system import System

    system = System()
    group = memory_group(system)
    if group is None:
        return []
    return group_lines(group_advice(recommendation, group, read_dirty_bytes(system)))
