"""An emulated EBS volume, a small instance's memory and an S3 endpoint on this host."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from profiler.cli.common import terminable
from profiler.cli.needs import LAB

if TYPE_CHECKING:
    from profiler.lab.lab import Lab

NAME = "lab"
HELP = "an emulated EBS volume, memory and S3 endpoint: up, down, status"
NEEDS = LAB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`lab up|down|status`, and what `up` emulates."""
    from profiler.cli import argument_types as types

    parser.add_argument("action", choices=("up", "down", "status"))
    parser.add_argument("--memory", type=types.size, metavar="SIZE", help="available memory, 4GiB")
    parser.add_argument("--volume", type=types.size, metavar="SIZE", help="volume size, 16GiB")
    parser.add_argument("--fstype", choices=("xfs", "ext4"), help="file system, xfs")
    parser.add_argument("--rate", type=types.size, metavar="SIZE", help="per second, 62.5 MiB")
    parser.add_argument("--iops", type=types.count, metavar="N", help="volume's operations/s, 3000")
    parser.add_argument("--objects", type=types.count, metavar="N", help="number of objects, 40")
    parser.add_argument("--object-size", type=types.size, metavar="SIZE", help="each, 48MiB")


def run(arguments: argparse.Namespace) -> int:
    """Carry out one of the three actions."""
    from profiler.requirements import require

    if arguments.action == "up":
        require(*NEEDS)
        return _up(arguments)
    require("root")
    return _down() if arguments.action == "down" else _status()


def _up(arguments: argparse.Namespace) -> int:
    from profiler.lab import lab

    asked = {
        "memory_bytes": arguments.memory,
        "volume_bytes": arguments.volume,
        "fstype": arguments.fstype,
        "rate_bytes_per_s": arguments.rate,
        "iops": arguments.iops,
        "object_count": arguments.objects,
        "object_bytes": arguments.object_size,
    }
    spec = lab.LabSpec(**{name: value for name, value in asked.items() if value is not None})
    with terminable():
        made = lab.up(spec, say=lambda text: print(f"lab: {text}", flush=True))
    _print(made)
    return 0


def _down() -> int:
    from profiler.lab import lab

    undone = lab.down()
    for change in undone:
        print(f"restored: {change}")
    print("lab: down" if undone else "lab: was not up")
    return 0


def _status() -> int:
    from profiler.lab import lab

    present = lab.status()
    if present is None:
        print("lab: down")
        return 1
    _print(present)
    problem = lab.cap_problem(present)
    if problem:
        print(f"warning: {problem}\n  → writewise lab down, then writewise lab up")
    return 1 if problem else 0


def _print(made: Lab) -> None:
    from contracts.shared.units import format_rate, format_size

    spec = made.spec
    total = spec.object_count * spec.object_bytes
    print(f"""lab: up
  source       {made.source} ({spec.object_count} objects, {format_size(total)})
  endpoint     {made.endpoint_url}
  destination  {made.destination} ({spec.fstype} on {made.device}, {
        format_rate(spec.rate_bytes_per_s)
    }, {spec.iops} IOPS)
  memory       {format_size(made.available_bytes)} available
try:  writewise pull {made.source} {made.destination} --endpoint-url {made.endpoint_url} \
--no-sign-request""")
    if made.cap.group:
        print(f"first:  echo $$ > {made.cap.group}/cgroup.procs   # the cap holds for that group")
