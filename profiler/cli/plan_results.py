# SPDX-License-Identifier: Apache-2.0
"""What the results of a sweep give to a plan: the rates, and the volume if they name it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contracts.shared.units import format_rate
from sysctl.advice.device_rate import device_rate
from sysctl.evidence.prediction import Model, fit
from sysctl.evidence.results import load
from sysctl.evidence.runs import Runs
from sysctl.volume import volume_types
from sysctl.volume.limits import LimitedBy
from sysctl.volume.volume_types import Checked, EbsVolume

_OF_VOLUME = (LimitedBy.VOLUME, LimitedBy.VOLUME_CREDITS)


@dataclass(frozen=True)
class Swept:
    """The measured rates, and the sweep's volume if the measured rate is what its type allows.

    `note` says where the volume is from, or that the measured device is planned instead.
    """

    model: Model
    volume: Checked | None
    note: str


def read(path: Path) -> Swept:
    """Read a results file. Raises WritewiseError."""
    runs = Runs.of(load(path))
    model = fit(runs)
    rate = device_rate(runs, model)
    if rate.volume is None:
        return Swept(
            model,
            None,
            "the volume is the device that the sweep measured; its type and its credits are "
            "unknown: add --volume-type and --volume-size, or --volume-id",
        )
    name, measured = _name(rate.volume), format_rate(model.device_bytes_per_s)
    if rate.state is None or rate.limited_by not in _OF_VOLUME:
        return Swept(
            model,
            None,
            f"the volume is the device that the sweep measured; the results name {name}: add "
            "--volume-type and --volume-size to plan that",
        )
    note = f"the volume is {name}, from the results; it wrote {measured}, {rate.fit.value}"
    return Swept(model, volume_types.check(rate.volume, exists=True), note)


def _name(volume: EbsVolume) -> str:
    return volume.type if volume.size_gib is None else f"{volume.type} of {volume.size_gib:,} GiB"
