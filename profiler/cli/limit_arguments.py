# SPDX-License-Identifier: Apache-2.0
"""The user's limits on what speed may cost, from the options of `options.add_limits`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sysctl.evidence.price import Limits

_NS_PER_S = 10**9


def limits_from(arguments: argparse.Namespace, kept: Limits | None = None) -> Limits:
    """Return the limits given; a limit that is not given is taken from `kept`."""
    from sysctl.evidence.price import Limits

    at_risk_bytes, durable_ns = arguments.max_at_risk, arguments.max_durable
    other = kept or Limits()
    return Limits(
        other.max_at_risk_bytes if at_risk_bytes is None else at_risk_bytes,
        other.max_durable_s if durable_ns is None else durable_ns / _NS_PER_S,
    )
