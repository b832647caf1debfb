# SPDX-License-Identifier: Apache-2.0
"""Compare two measurements: what differs in settings, circumstances and outcome.

A file is what `--json` of pull, profile, run, sweep, advise, transfer tune, bench-clients or plan
printed, the results of a sweep, or a recommendation.json. A file may have several documents of
pulls, profiles or runs, one after the other (`--json >> before.json`): these are repeats. With
repeats in both files each ratio has an interval, so a difference can be told from chance.
"""

from __future__ import annotations

import argparse
from functools import partial

from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.html_option import add_html, html_file
from profiler.cli.json_documents import emit

NAME = "compare"
HELP = "compare two measurements, before and after a change"
NEEDS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two files."""
    for name in ("before", "after"):
        parser.add_argument(
            name,
            metavar=f"{name.upper()}.json",
            type=types.file,
            help=f"the measurement {name} the change",
        )
    options.add_json(parser)
    add_html(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print; return 1 if the files are not comparable."""
    from profiler.compare.comparing import compare_subjects
    from profiler.compare.reading import read_subject
    from profiler.report.comparison import comparison_file_document, print_comparison
    from profiler.report.console import plain_console

    found = compare_subjects(*map(read_subject, (arguments.before, arguments.after)))
    content = partial(comparison_file_document, found)
    with html_file(arguments) as write_html:
        if arguments.json:
            emit(NAME, content())
        else:
            print_comparison(found, plain_console())
        write_html(NAME, content)
    return 0 if found.obstacle is None else 1
