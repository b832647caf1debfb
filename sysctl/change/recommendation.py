# SPDX-License-Identifier: Apache-2.0
"""A recommended change as data: `advise` writes it, the renderers and `apply` read it.

`recommendation.json` contains it with its evidence, without the trials. Nothing in the file is
trusted when it is read (`sysctl.change.recommendation_file`), because it changes a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sysctl.knobs.vm import BY_NAME

FORMAT = "writewise-recommendation"
FORMAT_VERSION = 1
FILE_NAME = "recommendation.json"
#: Characters of a sentence, and of a name or path (PATH_MAX of include/uapi/linux/limits.h).
MAX_SENTENCE, MAX_NAME = 2000, 4096


@dataclass(frozen=True)
class SysctlAdvice:
    """One sysctl; `present` is its value during the sweep, 0 if its counterpart was in force."""

    name: str
    value: int
    present: int
    reason: str


@dataclass(frozen=True)
class KnobAdvice:
    """One knob of the destination's disk (`sysctl.knobs.catalogue`)."""

    name: str
    value: str
    present: str
    reason: str


@dataclass(frozen=True)
class DiskAdvice:
    """Knobs of the disk below the mount of `device` on `target`.

    `name` is the disk's name in /sys/block, `serial` and `wwid` are from the kernel. Unknown texts
    are "", as in the file.
    """

    target: str
    device: str
    knobs: tuple[KnobAdvice, ...]
    name: str = ""
    serial: str = ""
    wwid: str = ""


@dataclass(frozen=True)
class DiskIdentity:
    """A disk's `name` in /sys/block, which may change, and its permanent ids; None if missing."""

    name: str
    wwid: str | None = None
    serial: str | None = None


@dataclass(frozen=True)
class FstabLine:
    """A line of the user's fstab without its mount point; `source` is as written.

    `options` are the words of the fourth field; `dump` and `check` are the last two fields.
    """

    source: str
    fstype: str
    options: tuple[str, ...]
    dump: int = 0
    check: int = 0


@dataclass(frozen=True)
class MountAdvice:
    """Mount options for the volume mounted on `target`.

    `value` and `present` are the new and the current tunable words, `policy` those that stay
    (`nosuid`). `fstab` is the measured host's line; None if there is none or it is unknown.
    """

    target: str
    device: str
    fstype: str
    value: tuple[str, ...]
    present: tuple[str, ...]
    policy: tuple[str, ...]
    reason: str
    fstab: FstabLine | None = None


@dataclass(frozen=True)
class OtherForm:
    """The same thresholds as `kind` (ratio or bytes), the form not measured; with a `note`."""

    kind: str
    values: Mapping[str, int]
    note: str


@dataclass(frozen=True)
class Measured:
    """One side of the comparison: times to return and to durable in s, and the number of runs."""

    return_s: float
    runs: int
    durable_s: float | None = None


@dataclass(frozen=True)
class Evidence:
    """What was measured, when and where, and the verdict; `ratio_*` are of the times to return.

    `ratio_high` is None if there is only one pair. `at_risk_bytes` is the most data that was only
    in memory, `ceiling_bytes` the most that a larger pull may have there. `client` is the pull
    client, `volume` the EBS volume with its credits at the start. Unknown texts are "" and an
    unknown `memory_bytes` (MemTotal) is 0, as in the file. `class_key` is the class of the nodes if
    many measured it together, and "" if one did.
    """

    verdict: str
    ratio: float
    ratio_low: float
    ratio_high: float | None
    pairs: int
    measured_at: str
    version: str
    host: str
    instance: str
    kernel: str
    dirtyable_bytes: int
    available_bytes: int
    source: str
    destination: str
    fstype: str
    objects: int
    bytes: int
    at_risk_bytes: int
    ceiling_bytes: int
    present: Measured
    recommended: Measured
    client: str = ""
    memory_bytes: int = 0
    volume: str = ""
    class_key: str = ""


@dataclass(frozen=True)
class RecommendedChange:
    """What to change, each value with its reason; values that stay are included.

    The combination was measured. `originals` are the write-back sysctls that were in force (one
    member of each ratio/bytes pair), to restore by hand. `transfer` has the transfer settings
    (`sysctl.knobs.transfer`) of the measurement if these change too: they are options of the pull
    and do not change the host.
    """

    sysctls: tuple[SysctlAdvice, ...]
    evidence: Evidence
    originals: Mapping[str, int] = field(default_factory=dict)
    mount: MountAdvice | None = None
    disk: DiskAdvice | None = None
    other_form: OtherForm | None = None
    transfer: Mapping[str, int] = field(default_factory=dict)

    @property
    def sysctl_values(self) -> dict[str, int]:
        """The recommended sysctls by name."""
        return {advice.name: advice.value for advice in self.sysctls}

    @property
    def changes_sysctls(self) -> bool:
        """Whether one of the sysctls differs from the value in force during the measurement."""
        return any(self.originals.get(name) != v for name, v in self.sysctl_values.items())

    @property
    def is_of_pull_alone(self) -> bool:
        """Whether it has only transfer settings."""
        return bool(self.transfer) and not (self.changes_sysctls or self.mount or self.disk)

    @property
    def undo_values(self) -> dict[str, int]:
        """The sysctls that undo it: the member of each pair that was in force."""
        named = {
            member
            for name in self.sysctl_values
            for member in (name, BY_NAME[name].counterpart)
            if member
        }
        return {name: value for name, value in self.originals.items() if name in named}

    def to_json(self) -> dict[str, Any]:
        """Return the document of `recommendation.json`; earlier versions can read it.

        So it has `transfer`, and the evidence's `volume` and `class_key`, only if there is some.
        """
        fields = asdict(self)
        if not self.transfer:
            del fields["transfer"]
        for name in ("volume", "class_key"):
            if not fields["evidence"][name]:
                del fields["evidence"][name]
        return {"format": FORMAT, "version": FORMAT_VERSION, **fields}
