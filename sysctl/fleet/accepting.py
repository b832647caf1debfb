# SPDX-License-Identifier: Apache-2.0
"""What a node accepts from the ledger: only sysctls of its own list, within its own limit.

The ledger is shared, and root acts on it: who can write to it could otherwise set any sysctl of
every node. So the node decides with figures of its own, and a setting that it refuses is never
applied. Mount options, knobs of disks and transfer settings are never accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from contracts.shared.units import format_size
from sysctl.knobs.setting import Setting, invalid_reason, replace_values, threshold_bytes
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR, THRESHOLDS

#: Above this share of memory the kernel reclaims instead of throttling writers.
_MOST_RATIO = 90


@dataclass(frozen=True)
class Acceptance:
    """The sysctls that may be changed, the most data at risk, and the node's own figures.

    `present` are all write-back sysctls in force, `dirtyable_bytes` the memory that ratios are a
    percentage of.
    """

    max_at_risk_bytes: int
    present: Mapping[str, int]
    dirtyable_bytes: int
    allowed: Collection[str] = THRESHOLDS

    def refusal(self, setting: Setting) -> str | None:
        """Return why the setting is refused; None if it is accepted."""
        if setting.mount_options is not None or setting.device or setting.transfer:
            return "it changes more than sysctls"
        for name, value in setting.sysctls:
            if name not in self.allowed:
                return f"{name} is not among the sysctls that this node allows"
            knob = BY_NAME.get(name)
            if knob is None or type(value) is not int or not _is_in_range(knob.name, value):
                return f"{name}={value} is out of range"
        for pair in (DIRTY_PAIR, BACKGROUND_PAIR):
            if set(pair) <= setting.values.keys():  # the one written last would be in force
                return f"{pair[0]} and {pair[1]} set the same threshold"
        values = replace_values(self.present, setting.values)
        return self._beyond_limit(values) or invalid_reason(values, self.dirtyable_bytes)

    def _beyond_limit(self, values: Mapping[str, int]) -> str | None:
        """Return why the dirty threshold exceeds the limit.

        The whole threshold counts, not the size of a pull: other programs write, too.
        """
        at_risk_bytes = threshold_bytes(values, DIRTY_PAIR, self.dirtyable_bytes)
        if at_risk_bytes <= self.max_at_risk_bytes:
            return None
        return (
            f"it puts up to {format_size(at_risk_bytes)} at risk on this node, more than "
            f"{format_size(self.max_at_risk_bytes)}"
        )


def _is_in_range(name: str, value: int) -> bool:
    knob = BY_NAME[name]
    most = _MOST_RATIO if name == DIRTY_PAIR[0] else knob.maximum
    return knob.minimum <= value <= most
