# SPDX-License-Identifier: Apache-2.0
"""Shared studies in memory: claims are told with times that are set by hand."""

from __future__ import annotations

import random
from dataclasses import replace

from sysctl.fleet.claims import Claim, ClaimKind, ClaimState, Record, next_claim
from sysctl.fleet.spec import StudySpec
from sysctl.fleet.summary import RunSummary

GIB = 2**30
PRESENT = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}
SPEC = StudySpec(
    name="canaries",
    class_key="m5.large_gp3_xfs_6.1_cgroup2_unlimited_direct_0123456789abcdef",
    values={"vm.dirty_ratio": (20, 40, 60), "vm.dirty_background_ratio": (5, 10)},
    present=PRESENT,
    nodes=5,
)
#: The share of the current time, by dirty ratio.
GAINS = {20: 0.98, 40: 0.6, 60: 0.4}


def run(at, return_s, pair=None, stall_share=0.5, peak=GIB, problem=""):
    time_s = None if problem else return_s
    return RunSummary(at, pair, time_s, stall_share, peak, 4 * GIB, 8 * GIB, problem=problem)


def told(claim, speed_s=20.0, factor=1.0):
    """Return the record of a claim on a node where the current settings take `speed_s`.

    The settings take `factor` times their share in `GAINS`; pairs scatter by 1 %.
    """
    gains = [GAINS[each.values["vm.dirty_ratio"]] * factor for each in claim.settings]
    runs = [run(0, speed_s)]
    if claim.kind is ClaimKind.SEARCH:
        runs.append(run(1, speed_s * gains[0], stall_share=0.0))
    else:
        for pair, noise in enumerate((1.01, 0.99)):
            runs.append(run(0, speed_s, pair))
            runs += [run(at, speed_s * g * noise, pair) for at, g in enumerate(gains, 1)]
    return Record(claim, ClaimState.TOLD, tuple(runs))


def finished(spec=SPEC, nodes=5, speed_s=lambda node: 20.0, factor=lambda node: 1.0):
    """Return the records of a study that these nodes carried out in turns."""
    records: list[Record] = []
    names = [f"n{at}" for at in range(nodes)]
    while True:
        due = [(name, next_claim(spec, records, name)) for name in names]
        claims = [(name, each) for name, each in due if isinstance(each, Claim)]
        if not claims:
            return records
        name, claim = min(claims, key=lambda pair: sum(r.claim.node == pair[0] for r in records))
        records.append(told(claim, speed_s(name), factor(name)))


def scattered(node):
    """Return a factor of a node's own."""
    return random.Random(node).gauss(1, 0.03)


def in_state(claim, state):
    return Record(claim, state)


def as_late(record):
    return replace(record, is_late=True)
