# SPDX-License-Identifier: Apache-2.0
"""Run the whole workflow on this host: a slow pull, a sweep, a recommendation, then clean up.

It sets up a lab (an emulated EBS volume, a small instance's memory, an S3 endpoint), measures the
current settings under the case study's contract, sweeps the default space, and writes the
recommendation to ./writewise-demo/. Then it pulls once under the governor, which raises the
thresholds only while that pull is written. It takes the lab down at the end, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli import options
from profiler.cli.common import terminable
from profiler.cli.needs import LAB, PULL

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.lab.lab import Lab
    from profiler.report.next_steps import NextStep
    from sysctl.advice.advise import Recommendation
    from sysctl.evidence.results import Results

NAME = "demo"
HELP = "run the whole workflow on an emulated volume (5 minutes)"
NEEDS = (*PULL, *LAB[1:], "memory")

FOLDER, REPORT = Path("writewise-demo"), "report.html"
#: Enough for a sweep on a quiet host; on a busy host it leaves time for the steps after it.
SWEEP_S = 210


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where the results and the snippet go."""
    options.add_output_dir(parser, "the results and the recommendation", FOLDER)
    options.add_details(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; return 0 if it ran to its end and the host is as before."""
    from profiler.requirements import require

    require(*NEEDS)
    from profiler.cli.governed_pull import pull_governed
    from profiler.lab import lab
    from profiler.report.advice import print_advice
    from profiler.report.console import plain_console
    from profiler.report.next_steps import print_next
    from profiler.report.three_ways import print_three_ways
    from profiler.report.written import print_written
    from sysctl.advice.advise import advise

    console, folder = plain_console(), arguments.output_dir
    steps = plain_console()
    steps.quiet = options.is_quiet(arguments)
    before = _host_state()
    with terminable():
        _heading(steps, "1  A slow pull: the lab goes up")
        with lab.running(lab.LabSpec(), say=lambda text: steps.print(f"   {text}")) as present:
            _heading(steps, "2  The sweep: the current settings, a search, its best again in pairs")
            recommendation = advise(_sweep(present, steps, folder))
            _heading(steps, "3  The same pull, with high thresholds only while it is written")
            governed = pull_governed(present, steps)
    _heading(steps, "4  The recommendation")
    print_advice(recommendation, console, details=arguments.details)
    written = [*_write(recommendation, folder), _write_report(recommendation, folder)]
    print_written(written, (), (), console)
    _heading(console, "Three ways to have it")
    print_three_ways(recommendation, governed, console)
    exit_code = _check_host(before, _host_state(), console)
    if not options.is_quiet(arguments):
        print_next(_next_steps(written), console)
    return exit_code


def _next_steps(written: list[Path]) -> list[NextStep]:
    """Return a dry run here, since the demo's volume is emulated, and a look at a real node."""
    from profiler.report.next_steps import NextStep, command
    from sysctl.change.recommendation import FILE_NAME

    shown = [path for path in written if path.name == FILE_NAME]
    steps = [
        NextStep(
            command("apply", "--dry-run", str(path.absolute()), as_root=True),
            "It shows what applying this would change here, and changes nothing.",
        )
        for path in shown
    ]
    look = NextStep(
        command("profile", as_root=True),
        "On a node of your own, while its job runs: is it write-back?",
    )
    dry = NextStep(
        command("govern", "DEST", "--dry-run", as_root=True),
        "There, too: what the governor would raise and save. It changes nothing.",
    )
    return [*steps, look, dry]


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="bold")


def _sweep(present: Lab, console: Console, folder: Path) -> Results:
    from contracts.loading import load_contract
    from contracts.shared.writing import make_directories, remove
    from profiler.pull.access import S3Access
    from profiler.pull.settings import TransferSettings
    from profiler.pull.source import parse_location
    from profiler.report.sweep_view import shown_sweep
    from profiler.study.request import StudyRequest
    from profiler.study.study import run_study
    from sysctl.sweep.budget import Budget

    make_directories(folder)
    output = folder / "results.json"
    remove(output)
    request = StudyRequest(
        location=parse_location(present.source),
        destination=Path(present.destination),
        access=S3Access(present.endpoint_url, sign_requests=False),
        transfer=TransferSettings(),
        contract=load_contract(None),
        output=output,
        budget=Budget(time_s=SWEEP_S),
    )
    with shown_sweep(console) as view:
        return run_study(request, view)


def _write(recommendation: Recommendation, folder: Path) -> list[Path]:
    """Write the snippets for every host; remove those of an earlier demo."""
    from profiler.report.advised_change import change_of
    from profiler.study.snippet_files import remove_earlier, write_snippets
    from sysctl.render.formats import DEFAULT, render_all

    change = change_of(recommendation)
    remove_earlier(folder, change)
    return write_snippets(render_all(change, DEFAULT).snippets, folder) if change else []


def _write_report(recommendation: Recommendation, folder: Path) -> Path:
    """Write the HTML report in place of that of an earlier demo."""
    from contracts.shared.writing import remove
    from profiler.cli.html_option import write_html
    from profiler.report.advice_document import advice_document
    from profiler.report.destination import new_file

    path = folder / REPORT
    remove(path)
    with new_file(str(path)) as file:
        write_html("advise", advice_document(recommendation), file)
    return path


def _host_state() -> dict[str, object]:
    """Return what the demo changes and must restore: sysctls, huge pages and mounts."""
    from sysctl.host.sysctls import read_sysctl, read_writeback
    from sysctl.host.system import System

    system = System()
    return {
        **read_writeback(system),
        "vm.nr_hugepages": read_sysctl(system, "vm.nr_hugepages"),
        "mounts": sorted(mount.target for mount in system.mounts()),
    }


def _check_host(before: dict[str, object], after: dict[str, object], console: Console) -> int:
    changed = [name for name, value in before.items() if after[name] != value]
    if changed:
        from profiler.report.next_steps import command

        undo = command("rollback", as_root=True)
        text = f"not as before: {', '.join(changed)}; run `{undo}`"
        console.print(text, style="red")
        return 1
    console.print("\nThe lab is down; sysctls, huge pages and mounts are as before.")
    return 0
