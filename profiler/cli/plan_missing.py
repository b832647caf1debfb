# SPDX-License-Identifier: Apache-2.0
"""What a plan lacks: which option or IAM action supplies each figure, and what was found."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from profiler.cli.plan_live import NodeFindings, volume_line
from profiler.ec2.permissions import METRICS, VOLUMES
from sysctl.evidence.prediction import Model


def check_known(arguments: argparse.Namespace, model: Model | None, found: NodeFindings) -> None:
    """Raise UsageError if there is nothing to plan; its hint says where to find each figure."""
    missing = {}
    if arguments.burst is None and model is None:
        missing["the size of the pull"] = "--burst SIZE, or --results FILE of a sweep"
    is_without_volume = (
        arguments.volume_type is None and found.volume is None and not arguments.cheapest
    )
    if is_without_volume and model is None:
        missing["the volume's type"] = (
            f"{_first(found)}--volume-type with --volume-size, or --cheapest"
        )
    if not missing:
        return
    hints = [f"{what}: {remedy}" for what, remedy in missing.items()]
    raise UsageError(
        f"a plan needs {' and '.join(missing)}",
        "\n    ".join([*hints, *_found(found), *_where(arguments, found, is_without_volume)]),
    )


def _first(found: NodeFindings) -> str:
    """Return the option that chooses one of several volumes of this node."""
    return "--volume-id ID of one of those below, " if len(found.node.volumes) > 1 else ""


def _found(found: NodeFindings) -> Iterator[str]:
    """Yield what this node and AWS report."""
    node = found.node
    for volume in node.volumes:
        yield f"found on this node: {volume_line(volume, found.mounts)}"
    if node.instance_type:
        yield f"found on this node: instance type {printable(node.instance_type)}"
    if node.problem:
        yield f"the instance type is unknown, because {node.problem}: --instance-type"
    for source in found.sources:
        yield f"found in AWS: {source}"
    for note in found.assumed:
        yield f"not found in AWS: {note}"


def _where(
    arguments: argparse.Namespace, found: NodeFindings, is_without_volume: bool
) -> Iterator[str]:
    """Yield where to find the rest."""
    if is_without_volume:
        if found.problem is not None:
            hint = f"; {found.problem.hint}" if found.problem.hint else ""
            yield f"no volume was looked up: {found.problem.message}{hint}"
        yield (
            "type, IOPS and throughput of a volume are not on the node: --volume-id vol-… looks "
            f"them up (IAM: {VOLUMES.action}), and its credits (IAM: {METRICS.action})"
        )
    if not found.node.is_ec2 and arguments.instance_type is None:
        yield "this host is not an EC2 instance: --instance-type, for the instance's limits"
