# SPDX-License-Identifier: Apache-2.0
"""On which nodes a setting gains, and on which it does not: one class may have two kinds of nodes.

Each node's ratio gets an interval of its own: Student's t with the noise of a pair that all nodes
show together. The intervals of all nodes hold together with the confidence of the estimate
(Bonferroni's inequality), so nodes that only scatter are not taken for different kinds.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.evidence.comparison import MIN_GAIN, is_gain
from sysctl.evidence.statistics import Interval, student_quantile
from sysctl.fleet.estimate import ClassEstimate, variance_of_a_pair

#: Nodes that differ by less (tau) are of one kind, however small their noise is.
LEAST_TAU = MIN_GAIN


class NodeKind(str, enum.Enum):
    """Whether a setting gains on a node; the value is its name in JSON.

    `GAINS`: at least `MIN_GAIN`, and significantly faster. `NO_GAIN`: a gain of `MIN_GAIN` is
    excluded. `UNCLEAR`: neither.
    """

    GAINS = "gains"
    NO_GAIN = "no gain"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class NodeVerdict:
    """A node's ratio with its interval, and its kind."""

    node: str
    ratio: Interval
    kind: NodeKind


def verdicts_of(found: ClassEstimate) -> tuple[NodeVerdict, ...]:
    """Return the verdict on every node, those that gain most first."""
    noise = variance_of_a_pair(found.nodes)
    degrees = sum(len(node.ratios) - 1 for node in found.nodes)
    confidence = 1 - (1 - found.confidence) / len(found.nodes)
    quantile = student_quantile(degrees, confidence)
    verdicts = []
    for node in found.nodes:
        reach, count = quantile * math.sqrt(noise / len(node.ratios)), len(node.ratios)
        ends = math.exp(node.log_ratio - reach), math.exp(node.log_ratio + reach)
        ratio = Interval(node.ratio, *ends, count)
        verdicts.append(NodeVerdict(node.node, ratio, _kind(ratio)))
    return tuple(sorted(verdicts, key=lambda each: each.ratio.estimate))


def _kind(ratio: Interval) -> NodeKind:
    if is_gain(ratio.estimate) and ratio.high < 1:
        return NodeKind.GAINS
    return NodeKind.UNCLEAR if is_gain(ratio.low) else NodeKind.NO_GAIN


def is_mixed(found: ClassEstimate, verdicts: Sequence[NodeVerdict]) -> bool:
    """Return whether the nodes are of two kinds: on some the setting gains, on others not."""
    kinds = {each.kind for each in verdicts}
    return found.tau >= LEAST_TAU and {NodeKind.GAINS, NodeKind.NO_GAIN} <= kinds
