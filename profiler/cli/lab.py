# SPDX-License-Identifier: Apache-2.0
"""Emulate an EBS volume, a small instance's memory and an S3 endpoint on this host."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from profiler.cli import argument_types as types
from profiler.cli import emulated_volume, options, volume_arguments
from profiler.cli.common import terminable
from profiler.cli.needs import LAB

if TYPE_CHECKING:
    from profiler.lab.follower import CreditsNow
    from profiler.lab.lab import Lab

NAME = "lab"
HELP = "set up an emulated volume, memory and S3 endpoint"
NEEDS = LAB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `lab up|down|status`, and what `up` emulates."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    up = actions.add_parser("up", help="set the lab up", description="Set the lab up.")
    _add_what_to_emulate(up)
    down = actions.add_parser("down", help="take the lab down", description="Take the lab down.")
    status = actions.add_parser(
        "status",
        help="print whether the lab is up, and where",
        description="Print whether the lab is up, and where. The exit code is 1 if it is down.",
    )
    for action, call in ((up, _up), (down, _down), (status, _status)):
        options.add_json(action)
        action.set_defaults(action=call)


def _add_what_to_emulate(up: argparse.ArgumentParser) -> None:
    up.add_argument(
        "--memory", type=types.amount, metavar="SIZE", help="available memory (default: 4GiB)"
    )
    up.add_argument(
        "--volume",
        type=types.amount,
        metavar="SIZE",
        help="size of the file system (default: 16GiB)",
    )
    up.add_argument(
        "--fstype", choices=("xfs", "ext4"), metavar="NAME", help="xfs (default) or ext4"
    )
    up.add_argument(
        "--rate",
        type=volume_arguments.throughput,
        metavar="RATE",
        help="fixed throughput of the volume, in MiB/s (default: 62.5)",
    )
    up.add_argument(
        "--objects", type=types.count, metavar="N", help="number of objects (default: 40)"
    )
    up.add_argument(
        "--object-size",
        type=types.positive_amount,
        metavar="SIZE",
        help="size of each object (default: 48MiB)",
    )
    emulated_volume.add_arguments(up.add_argument_group("an EBS volume, instead of --rate"))


def run(arguments: argparse.Namespace) -> int:
    """Run one of the three actions."""
    return int(arguments.action(arguments))


def _up(arguments: argparse.Namespace) -> int:
    from profiler.lab import lab
    from profiler.requirements import require

    require(*NEEDS)
    emulated = emulated_volume.read(arguments)
    asked = {
        "memory_bytes": arguments.memory,
        "volume_bytes": arguments.volume,
        "fstype": arguments.fstype,
        "rate_bytes_per_s": arguments.rate and round(arguments.rate.mib_per_s * 2**20),
        "iops": None if emulated else arguments.iops,
        "emulated": emulated and emulated.volume,
        "object_count": arguments.objects,
        "object_bytes": arguments.object_size,
    }
    spec = lab.LabSpec(**{name: value for name, value in asked.items() if value is not None})
    progress = options.progress_console(arguments) if arguments.json else None

    def say(text: str) -> None:
        if progress is not None:
            progress.print(f"lab: {text}", markup=False, highlight=False)
        elif not options.is_quiet(arguments):
            print(f"lab: {text}", flush=True)

    for note in emulated.notes if emulated else ():
        say(note)
    with terminable():
        made = lab.up(spec, say=say)
    now = lab.credits_now(made)
    if arguments.json:
        _emit(made, now=now)
    else:
        _print(made, now)
    return 0


def _down(arguments: argparse.Namespace) -> int:
    from profiler.lab import lab
    from profiler.requirements import require

    require("root")
    undone = [str(change) for change in lab.down()]
    if arguments.json:
        _emit(None, restored=undone)
        return 0
    for change in undone:
        print(f"restored: {change}")
    print("lab: down" if undone else "lab: was not up")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from profiler.lab import lab
    from profiler.requirements import require

    require("root")
    present = lab.status()
    problem = lab.cap_problem(present) if present else None
    now = lab.credits_now(present) if present else None
    if arguments.json:
        _emit(present, problem, now=now)
    elif present is None:
        print("lab: down")
    else:
        _print(present, now)
        if problem:
            print(f"warning: {problem}\n  → writewise lab down, then writewise lab up")
    return 1 if problem or present is None else 0


def _emit(
    made: Lab | None,
    problem: str | None = None,
    restored: Sequence[str] = (),
    now: CreditsNow | None = None,
) -> None:
    from dataclasses import asdict

    from profiler.cli.json_documents import emit

    content = {
        "up": made is not None,
        "lab": asdict(made) if made else None,
        "credits": asdict(now) if now else None,
        "problem": problem or None,
        "restored": list(restored),
    }
    emit(NAME, content)


def _print(made: Lab, now: CreditsNow | None) -> None:
    from contracts.shared.units import format_size
    from profiler.report.lab import limits_text, volume_lines

    spec = made.spec
    total = spec.object_count * spec.object_bytes
    volume = f"{spec.fstype} on {made.device}"
    if spec.emulated is None:
        volume += f", {limits_text(spec.limits[0])}"
    print(f"""lab: up
  source       {made.source} ({spec.object_count} objects, {format_size(total)})
  endpoint     {made.endpoint_url}
  destination  {made.destination} ({volume})""")
    for line in volume_lines(spec.emulated, now):
        print(f"  {line}")
    print(f"""  memory       {format_size(made.available_bytes)} available
try:  writewise pull {made.source} {made.destination} --endpoint-url {made.endpoint_url} \
--no-sign-request""")
    if made.cap.group:
        print(f"first:  echo $$ > {made.cap.group}/cgroup.procs   # the cap holds for that group")
