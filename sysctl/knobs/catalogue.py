# SPDX-License-Identifier: Apache-2.0
"""All knobs of a disk: those of its request queue and those of its share of dirty memory."""

from __future__ import annotations

from collections.abc import Mapping

from sysctl.knobs.bdi import BDI_KNOBS
from sysctl.knobs.block import QUEUE_KNOBS
from sysctl.knobs.device import DeviceKnob

#: In the order in which they are set: the scheduler is first because it resets others.
DEVICE_KNOBS: tuple[DeviceKnob, ...] = (*QUEUE_KNOBS, *BDI_KNOBS)
DEVICE_BY_NAME = {knob.name: knob for knob in DEVICE_KNOBS}


def check_device_values(values: Mapping[str, str]) -> None:
    """Raise ValueError for an unknown name or an invalid value."""
    for name, text in values.items():
        if name not in DEVICE_BY_NAME:
            raise ValueError(f"unknown knob of a disk: {name!r}")
        why = DEVICE_BY_NAME[name].refusal(text)
        if why:
            raise ValueError(f"{name}: {why}")
