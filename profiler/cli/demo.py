"""The whole promise on one host: a slow pull, a sweep, a recommendation, and the host as before.

A lab is set up (an emulated EBS volume, a small instance's memory, an S3 endpoint), the present
settings are measured under the case study's contract, the default space is swept, and the
recommendation is written to ./writewise-demo/. The lab goes down again, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli.common import terminable
from profiler.cli.needs import LAB, PULL

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.lab.lab import Lab
    from sysctl.advice.advise import Recommendation
    from sysctl.evidence.results import Results

NAME = "demo"
HELP = "the whole promise on an emulated volume, in less than five minutes"
NEEDS = (*PULL, *LAB[1:], "memory")

FOLDER = Path("writewise-demo")
#: Enough for a sweep on a quiet host; on a busy one it leaves time for what comes after it.
SWEEP_S = 210


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the results and the snippet go."""
    parser.add_argument(
        "--output-directory", metavar="DIR", type=Path, default=FOLDER, help=f"./{FOLDER}/"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 when it ran to its end and the host is as before."""
    from profiler.requirements import require

    require(*NEEDS)
    from rich.console import Console

    from profiler.lab import lab
    from profiler.report.advice import print_advice
    from sysctl.advice.advise import advise

    console, folder = Console(), arguments.output_directory
    before = _host_state()
    with terminable():
        _heading(console, "1  A slow pull: the lab goes up")
        with lab.running(lab.LabSpec(), say=lambda text: console.print(f"   {text}")) as present:
            _heading(
                console, "2  The sweep: the present settings, a search, its best again in pairs"
            )
            results = _sweep(present, console, folder)
    _heading(console, "3  The recommendation")
    recommendation = advise(results)
    print_advice(recommendation, console)
    _heading(console, "4  Written down")
    for path in _write(recommendation, folder):
        console.print(f"   {path}", markup=False)
    return _check_host(before, _host_state(), console)


def _heading(console: Console, text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def _sweep(present: Lab, console: Console, folder: Path) -> Results:
    from contracts.loading import load_contract
    from contracts.shared.writing import make_directories, remove
    from profiler.pull.access import S3Access
    from profiler.pull.settings import TransferSettings
    from profiler.pull.source import parse_location
    from profiler.report.sweep_view import shown_sweep
    from profiler.study.study import StudyRequest, run_study
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
    """The snippets that every host has, without those of an earlier demo."""
    from profiler.report.advised_change import change_of
    from profiler.study.snippet_files import remove_earlier, write_snippets
    from sysctl.render.formats import DEFAULT, render_all

    change = change_of(recommendation)
    remove_earlier(folder, change)
    return write_snippets(render_all(change, DEFAULT).snippets, folder) if change else []


def _host_state() -> dict[str, object]:
    """What the demo changes and must put back: sysctls, huge pages and mounts."""
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
        console.print(f"[red]not as before: {', '.join(changed)}; run `writewise rollback`[/red]")
        return 1
    console.print("\nThe lab is down; sysctls, huge pages and mounts are as before.")
    return 0
