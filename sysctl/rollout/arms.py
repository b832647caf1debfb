# SPDX-License-Identifier: Apache-2.0
"""The arm of a node, by a hash of its name and the roll-out: the same wherever it is asked.

A new node has its arm before it exists, and cannot escape its stage. A node that is treated in one
stage is treated in all later ones, and a node of the control arm in none. Shell and Jinja compute
the same number (`sysctl.rollout.engines`): the first 8 hexadecimal digits of SHA-256.
"""

from __future__ import annotations

import hashlib
import re

#: Positions are whole numbers below it, so shares are exact to 1 in 4 billion.
POSITIONS = 2**32
HEX_DIGITS = 8
TREATED, CONTROL, WAITING = "treated", "control", "waiting"
#: What a node may be called: nothing that a shell, a path or a template interprets.
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def hashed_text(node: str, rollout: str) -> str:
    """Return the text whose hash is the node's position."""
    return f"{rollout}/{node}"


def position_of(node: str, rollout: str) -> int:
    """Return the node's position in the roll-out, from 0 to `POSITIONS` - 1."""
    digest = hashlib.sha256(hashed_text(node, rollout).encode("utf-8", "surrogatepass"))
    return int(digest.hexdigest()[:HEX_DIGITS], 16)


def treated_below(share: float) -> int:
    """Return the position below which nodes are treated."""
    return round(share * POSITIONS)


def control_from(share: float) -> int:
    """Return the position from which on nodes are of the control arm."""
    return POSITIONS - round(share * POSITIONS)


def arm_of(node: str, rollout: str, treated: float, control: float) -> str:
    """Return the arm of a node while the share `treated` is treated."""
    position = position_of(node, rollout)
    if position >= control_from(control):
        return CONTROL
    return TREATED if position < treated_below(treated) else WAITING
