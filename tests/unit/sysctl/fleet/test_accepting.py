# SPDX-License-Identifier: Apache-2.0
"""A node refuses every setting of the ledger that is beyond its own list and limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysctl.fleet.accepting import Acceptance
from sysctl.knobs.setting import Setting, replace_values, threshold_bytes
from sysctl.knobs.vm import DIRTY_PAIR, KNOBS, THRESHOLDS

GIB = 2**30
PRESENT = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}
NODE = Acceptance(max_at_risk_bytes=4 * GIB, present=PRESENT, dirtyable_bytes=8 * GIB)


def of(**values):
    return Setting(tuple((f"vm.{name}", value) for name, value in values.items()))


FORGED = {
    "a sysctl of another kind": Setting((("kernel.core_pattern", 1),)),
    "a path": Setting((("vm/../kernel/core_pattern", 1),)),
    "a knob that is not allowed": of(dirty_expire_centisecs=1),
    "more than the limit": of(dirty_ratio=60, dirty_background_ratio=5),
    "more than the limit, in bytes": of(dirty_bytes=5 * GIB),
    "all of memory": of(dirty_ratio=100),
    "a negative number": of(dirty_ratio=-1),
    "a text": of(dirty_ratio="40"),
    "a truth value": of(dirty_background_ratio=True),
    "a number that is too large": of(dirty_bytes=2**63),
    "background above dirty": of(dirty_ratio=20, dirty_background_ratio=30),
    "both of a pair": of(dirty_bytes=GIB, dirty_ratio=90),
    "both of the other pair": of(dirty_background_bytes=2**20, dirty_background_ratio=19),
    "mount options": Setting(of(dirty_ratio=30).sysctls, mount_options="exec"),
    "a knob of the disk": Setting((), device=(("queue/scheduler", "none"),)),
    "a setting of the pull": Setting((), transfer=(("max_concurrency", 10),)),
}


@pytest.mark.parametrize("setting", FORGED.values(), ids=FORGED)
def test_forged_settings_are_refused(setting):
    assert NODE.refusal(setting)


@pytest.mark.parametrize("ratio", [10, 30, 50])
def test_a_setting_within_the_limit_is_accepted(ratio):
    assert NODE.refusal(of(dirty_ratio=ratio, dirty_background_ratio=5)) is None


def test_the_limit_counts_when_only_the_background_changes():
    node = Acceptance(GIB, PRESENT, 8 * GIB)  # its own 20 % are 1.6 GiB
    assert node.refusal(of(dirty_background_ratio=5))


@given(
    st.dictionaries(
        st.sampled_from([knob.name for knob in KNOBS]) | st.text(),
        st.integers(-(2**70), 2**70),
        max_size=5,
    )
)
def test_whatever_is_accepted_keeps_the_limit(values):
    setting = Setting(tuple(values.items()))
    if NODE.refusal(setting) is None:
        assert set(values) <= set(THRESHOLDS)
        after = replace_values(PRESENT, values)
        assert threshold_bytes(after, DIRTY_PAIR, 8 * GIB) <= 4 * GIB
