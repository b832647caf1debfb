# SPDX-License-Identifier: Apache-2.0
"""Sweeps on a volume: the device writes 62 to 63 MiB/s, the source delivers 600 MiB/s."""

from __future__ import annotations

from dataclasses import asdict

from sysctl.advice.advise import advise
from sysctl.evidence.circumstances import KnownVolume
from tests.unit.studies import BURST, MIB, Study, course, ratio
from tests.unit.sweeps import PRESENT

#: Its burst rate is that of the device.
ST1 = KnownVolume("st1", 250)
#: It always writes more than the device.
GP3 = KnownVolume("gp3", 250, 3000, 125.0)
#: Larger than what 4 GiB of memory can take.
LARGE = BURST * 10
FASTER = ratio(80)


def study(volume=ST1, instance=None, node=None, **present):
    """The lab's pull: 1.88 GiB, throttled above 614 MiB; `node` are fields of the node."""
    trace = course(0.05, 600 * MIB, 60 * MIB, 614 * MIB, 15.0)
    known = asdict(volume) if volume else None
    made = Study((), {"volume": known, "instance": instance, **(node or {})})
    made.present = {"durable_s": 31.0, "trace": trace, **present}
    for return_s in (20.0, 20.1):
        made.add("present", PRESENT, return_s, **made.present)
    return made


def gain(volume=ST1, instance=None, **present):
    return advise(study(volume, instance, **present).tried(FASTER, 4.0).results)


def no_gain(volume=ST1, instance=None, limits=None, **present):
    return advise(study(volume, instance, **present).tried(FASTER, 19.9).results, limits)


def beyond_memory(volume=ST1, instance=None):
    made = study(volume, instance, durable_s=310.0, bytes=LARGE)
    return advise(made.tried(FASTER, 19.9, bytes=LARGE).results)
