# SPDX-License-Identifier: Apache-2.0
"""Recommend settings from a sweep's results, with reasons, and write them to files.

Among the settings that are statistically tied with the fastest, the least risky is recommended, and
none if the evidence is too weak: docs/explanation/advice.md. Limits that are not given are those of
the sweep.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from profiler.cli import options, volume_arguments
from profiler.cli.html_option import add_html, html_file
from profiler.cli.json_documents import emit
from profiler.cli.limit_arguments import limits_from
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from rich.console import Console

    from sysctl.advice.advise import Recommendation
    from sysctl.change.recommendation import RecommendedChange
    from sysctl.render.snippet import Format

NAME = "advise"
HELP = "recommend settings from a sweep, and write them to files"
NEEDS: tuple[str, ...] = ()
IS_REMEMBERED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the results, the limits, and where the files go."""
    options.add_results(parser)
    options.add_limits(parser)
    options.add_output_dir(parser, "the files", Path())
    parser.add_argument("--format", metavar="NAME,…", type=_formats, action=_FormatAction)
    volume_arguments.add_prices(parser)
    options.add_details(parser)
    options.add_json(parser)
    add_html(parser)


class _FormatAction(argparse.Action):
    """Names the formats in its help, and imports them only when the help is shown."""

    @property
    def help(self) -> str:
        from sysctl.render.formats import DEFAULT, NAMES

        defaults = [each.name for each in DEFAULT]
        others = [name for name in NAMES if name not in defaults]
        return f"formats to write: all, {', '.join(others)} (default: {','.join(defaults)})"

    @help.setter
    def help(self, _: object) -> None:
        """The text that argparse sets at first."""

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
    """Print the recommendation; if it is a change, also write its files."""

    from contracts.shared.writing import check_directory
    from profiler.report.advice import print_advice
    from profiler.report.advice_document import advice_document
    from profiler.report.console import plain_console
    from profiler.report.history import advice_outcome
    from profiler.report.next_steps import next_steps, print_next
    from sysctl.advice.advise import advise
    from sysctl.evidence.price import limits_of
    from sysctl.evidence.results import load

    results = load(arguments.results)
    limits = limits_from(arguments, limits_of(results.circumstances))
    recommendation = advise(results, limits, volume_arguments.prices_from(arguments))
    remember(arguments, advice_outcome(recommendation))
    lines = group_lines_here(recommendation)
    folder, formats = arguments.output_dir, arguments.format
    content = cache(lambda: advice_document(recommendation, lines))
    with html_file(arguments) as write_html:
        if arguments.json:
            files = write_files(recommendation, folder, formats)
            emit(NAME, {**content(), **files.to_json()})
        else:
            check_directory(folder)  # before the report, which would hide the error
            console = plain_console()
            print_advice(recommendation, console, lines, details=arguments.details)
            written = write_and_report(recommendation, folder, console, formats)
            if not options.is_quiet(arguments):
                results_file, details = arguments.results, arguments.details
                steps = next_steps(recommendation, results_file, written, has_details=details)
                print_next(steps, console)
        write_html(NAME, content)
    return 0


class WrittenFiles(NamedTuple):
    """What was written, which formats could not express the change, and what was removed."""

    written: Sequence[Path]
    left_out: Sequence[str]
    removed: Sequence[Path]

    def to_json(self) -> dict[str, object]:
        """Return the paths for a JSON document."""
        return {"written": list(map(str, self.written)), "removed": list(map(str, self.removed))}


def write_files(
    recommendation: Recommendation, folder: Path, formats: Sequence[Format] | None
) -> WrittenFiles:
    """Write the files in `formats` (default: those for every host); remove older ones."""
    from profiler.report.advised_change import change_of

    return write_change(change_of(recommendation), folder, formats)


def write_change(
    change: RecommendedChange | None, folder: Path, formats: Sequence[Format] | None
) -> WrittenFiles:
    """Write the files of a change, or of none; remove older ones."""
    from profiler.study.snippet_files import remove_earlier, write_snippets
    from sysctl.render.formats import DEFAULT, render_all

    rendered = render_all(change, formats or DEFAULT) if change else None
    written = write_snippets(rendered.snippets, folder) if rendered else []
    removed = remove_earlier(folder, change)
    left_out: Sequence[str] = ()
    if rendered:
        left_out = rendered.left_out if formats else rendered.inexpressible
    return WrittenFiles(written, left_out, removed)


def write_and_report(
    recommendation: Recommendation,
    folder: Path,
    console: Console,
    formats: Sequence[Format] | None = None,
) -> Sequence[Path]:
    """Write the files and print them; return those written."""
    from profiler.report.written import print_written

    files = write_files(recommendation, folder, formats)
    print_written(files.written, files.left_out, files.removed, console)
    return files.written


def group_lines_here(recommendation: Recommendation) -> list[str]:
    """Return what the memory limit of this process's control group means; empty without one."""
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
