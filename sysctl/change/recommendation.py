"""A recommended change as data: what `advise` writes, snippets are rendered from and `apply` takes.

`recommendation.json` holds it with the evidence that carries it, without the trials. Nothing in it
is trusted when it is read (`sysctl.change.recommendation_file`): it is about to be a change of a
host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sysctl.knobs.vm import BY_NAME

FORMAT = "writewise-recommendation"
FORMAT_VERSION = 1
FILE_NAME = "recommendation.json"
#: Characters of a sentence, and of a name or a path (PATH_MAX of include/uapi/linux/limits.h).
MAX_SENTENCE, MAX_NAME = 2000, 4096


@dataclass(frozen=True)
class SysctlAdvice:
    """One sysctl; `present` is what it was when the sweep ran, 0 where its counterpart counted."""

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
    """Knobs of the disk that holds what is mounted on `target` from `device`.

    `name` is the disk's in /sys/block, `serial` and `wwid` what the kernel says of it. As in the
    file, what is not known is "".
    """

    target: str
    device: str
    knobs: tuple[KnobAdvice, ...]
    name: str = ""
    serial: str = ""
    wwid: str = ""


@dataclass(frozen=True)
class DiskIdentity:
    """A disk's `name` in /sys/block, and what stays when that changes; None where it has none."""

    name: str
    wwid: str | None = None
    serial: str | None = None


@dataclass(frozen=True)
class FstabLine:
    """A line of the user's fstab, without its mount point, with `source` as it is there.

    `options` are the words of the fourth field; `dump` and `check` are the last two fields.
    """

    source: str
    fstype: str
    options: tuple[str, ...]
    dump: int = 0
    check: int = 0


@dataclass(frozen=True)
class MountAdvice:
    """Mount options for what is mounted on `target`.

    `value` and `present` are the tunable words, `policy` those that stay as they are (`nosuid`).
    `fstab` is the line of the host that was measured; None without one, and where it is not known.
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
    """The same thresholds as `kind` (ratio or bytes), which was not measured; `note` says how."""

    kind: str
    values: Mapping[str, int]
    note: str


@dataclass(frozen=True)
class Measured:
    """One side of the comparison: times to return and until durable in s, and how many runs."""

    return_s: float
    runs: int
    durable_s: float | None = None


@dataclass(frozen=True)
class Evidence:
    """What was measured, when, where, and what it says; `ratio_*` is of the times to return.

    `ratio_high` is None where a single pair bounds nothing. `at_risk_bytes` was in memory only at
    most, `ceiling_bytes` is what a larger pull may have there. `client` pulled. As in the file,
    text that the results do not have is "", and an unknown `memory_bytes` (MemTotal) is 0.
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


@dataclass(frozen=True)
class RecommendedChange:
    """What to change, each value with its reason; values that stay are named too.

    What was measured is the combination. `originals` are the write-back sysctls that were in force
    (of each ratio/bytes pair one member): what to write back by hand. `transfer` has the settings
    of the pull (`sysctl.knobs.transfer`) that it was measured with, where these change, too: they
    go with the pull, and are nothing that a host is changed by.
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
        """Whether one of the sysctls differs from what was in force when it was measured."""
        return any(self.originals.get(name) != v for name, v in self.sysctl_values.items())

    @property
    def is_of_pull_alone(self) -> bool:
        """Whether it has settings of the pull, and nothing for a host."""
        return bool(self.transfer) and not (self.changes_sysctls or self.mount or self.disk)

    @property
    def undo_values(self) -> dict[str, int]:
        """What `sysctl -w` takes to undo it: of each pair the member that was in force."""
        named = {
            member
            for name in self.sysctl_values
            for member in (name, BY_NAME[name].counterpart)
            if member
        }
        return {name: value for name, value in self.originals.items() if name in named}

    def to_json(self) -> dict[str, Any]:
        """The document of `recommendation.json`; `transfer` is in it only where there is one."""
        fields = asdict(self)
        if not self.transfer:
            del fields["transfer"]
        return {"format": FORMAT, "version": FORMAT_VERSION, **fields}
