"""The flags that say what a person is ready to pay for speed, of `sweep` and of `advise`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sysctl.evidence.price import Limits

_NS_PER_S = 10**9


def add_limit_arguments(parser: argparse.ArgumentParser) -> None:
    """`--max-at-risk` and `--max-durable`."""
    from profiler.cli import argument_types as types

    parser.add_argument(
        "--max-at-risk",
        metavar="SIZE",
        type=types.size,
        help="at most so much written data in memory only, such as 1GiB",
    )
    parser.add_argument(
        "--max-durable",
        metavar="TIME",
        type=types.duration,
        help="all on the device so long after the start at the latest, such as 60s",
    )


def limits_from(arguments: argparse.Namespace, kept: Limits | None = None) -> Limits:
    """The limits asked for; each that is not is the `kept` one."""
    from sysctl.evidence.price import Limits

    at_risk_bytes, durable_ns = arguments.max_at_risk, arguments.max_durable
    other = kept or Limits()
    return Limits(
        other.max_at_risk_bytes if at_risk_bytes is None else at_risk_bytes,
        other.max_durable_s if durable_ns is None else durable_ns / _NS_PER_S,
    )
