# SPDX-License-Identifier: Apache-2.0
"""The class of a node in a fleet: what nodes must share for one's result to hold for another.

Its text begins with the values in the order of the fields and ends with a hash of them, such as
`m5.large_gp3-3000-125_ext4-noatime_6.1_cgroup2_2GiB_direct_0f3a…`. The text has only letters,
digits and `.`, `_`, `-`, so that it can be part of a path, an object's key or a partition.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sysctl.evidence.circumstances import KnownVolume, NodeClass

CGROUP_VERSIONS = (1, 2)
MAX_MOUNT_WORDS = 16
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=:+-]{0,47}")
_KERNEL = re.compile(r"[0-9]{1,3}\.[0-9]{1,4}")
_BAND = re.compile(r"[1-9][0-9]{0,3}(MiB|GiB|TiB)")
#: Above what EBS offers: 256,000 IOPS and 4,000 MiB/s in November 2026.
_MOST_IOPS, _MOST_MIB_PER_S = 10**7, 10**6
_READABLE_CHARACTERS, _HASH_CHARACTERS = 120, 16
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class ClassKey:
    """The values that make a class; None means unknown, for a memory limit that there is none.

    `kernel` is major.minor, `mount_words` are the tunable mount options, sorted.
    `memory_limit_band` is the power of two at or above the memory limit of the pull's control
    group, such as `2GiB`.
    """

    file_system: str | None = None
    mount_words: tuple[str, ...] = ()
    instance_type: str | None = None
    volume_type: str | None = None
    volume_iops: int | None = None
    volume_mib_per_s: float | None = None
    kernel: str | None = None
    cgroup_version: int | None = None
    memory_limit_band: str | None = None
    client: str | None = None

    def __str__(self) -> str:
        """Return the readable values and the hash."""
        return f"{self.readable}_{self.hash}"

    @property
    def readable(self) -> str:
        """The values as text; not unique, because it is bounded."""
        volume = (self.volume_type, self.volume_iops, self.volume_mib_per_s)
        parts = (
            self.instance_type or _UNKNOWN,
            "-".join(
                f"{each:g}" if isinstance(each, float) else str(each) for each in volume if each
            )
            or _UNKNOWN,
            "-".join((self.file_system or _UNKNOWN, *self.mount_words)),
            self.kernel or _UNKNOWN,
            f"cgroup{self.cgroup_version}" if self.cgroup_version else _UNKNOWN,
            self.memory_limit_band or "unlimited",
            self.client or _UNKNOWN,
        )
        return re.sub(r"[^A-Za-z0-9._-]", "-", "_".join(parts))[:_READABLE_CHARACTERS]

    @property
    def hash(self) -> str:
        """The first 64 bits of a SHA-256 of all values, in hexadecimal."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]

    def to_json(self) -> dict[str, Any]:
        """Return the values as plain data."""
        return {**asdict(self), "mount_words": list(self.mount_words)}


def class_key_of(
    shared: NodeClass, *, cgroup_version: int | None, memory_limit_bytes: int | None
) -> ClassKey:
    """Return the class of circumstances, and of the control group in which a pull runs."""
    volume = shared.volume or KnownVolume()
    return ClassKey(
        file_system=_word(shared.fstype),
        mount_words=tuple(sorted(word for each in shared.mount_words if (word := _word(each)))),
        instance_type=_word(shared.instance),
        volume_type=_word(volume.type),
        volume_iops=volume.iops,
        volume_mib_per_s=None if volume.mib_per_s is None else float(volume.mib_per_s),
        kernel=_major_minor(shared.kernel),
        cgroup_version=cgroup_version,
        memory_limit_band=None if memory_limit_bytes is None else band_of(memory_limit_bytes),
        client=_word(shared.client),
    )


def band_of(limit_bytes: int) -> str:
    """Return the power of two at or above a memory limit, at least 1 MiB, as text."""
    exponent = max(20, (max(1, limit_bytes) - 1).bit_length())
    unit, name = next(
        each for each in ((40, "TiB"), (30, "GiB"), (20, "MiB")) if exponent >= each[0]
    )
    return f"{min(2 ** (exponent - unit), 8192)}{name}"


def class_problems(data: object) -> Iterator[str]:
    """Yield every error of plain data that should be a class, each with its field."""
    if not isinstance(data, dict):
        yield "class: not an object"
        return
    known = {field.name for field in fields(ClassKey)}
    yield from (f"class: unknown field {name!r:.60}" for name in data if name not in known)
    yield from (f"class.{name}: missing" for name in sorted(known - data.keys()))
    for name in sorted(known & data.keys()):
        value = data[name]
        if value is None and name != "mount_words":
            continue
        if not _CHECKS[name](value):
            yield f"class.{name}: invalid value {value!r:.60}"


def class_key_from_json(data: object) -> ClassKey:
    """Return the class of the data of `to_json`. Raises ValueError that names every error."""
    problems = list(class_problems(data))
    if problems or not isinstance(data, dict):
        raise ValueError("; ".join(problems))
    values: Mapping[str, Any] = data
    rate = values["volume_mib_per_s"]
    return ClassKey(
        **{
            **values,
            "mount_words": tuple(values["mount_words"]),
            "volume_mib_per_s": None if rate is None else float(rate),
        }
    )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _is_number(value: object, most: int) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value <= most  # type: ignore[operator]


def _are_mount_words(value: object) -> bool:
    if not isinstance(value, list) or len(value) > MAX_MOUNT_WORDS:
        return False
    return all(_is_word(each) for each in value) and value == sorted(value)


_CHECKS = {
    "file_system": _is_word,
    "mount_words": _are_mount_words,
    "instance_type": _is_word,
    "volume_type": _is_word,
    "volume_iops": lambda value: isinstance(value, int) and _is_number(value, _MOST_IOPS),
    "volume_mib_per_s": lambda value: _is_number(value, _MOST_MIB_PER_S),
    "kernel": lambda value: isinstance(value, str) and _KERNEL.fullmatch(value) is not None,
    "cgroup_version": lambda value: type(value) is int and value in CGROUP_VERSIONS,
    "memory_limit_band": lambda value: isinstance(value, str) and bool(_BAND.fullmatch(value)),
    "client": _is_word,
}


def _word(text: str | None) -> str | None:
    """Return text that is a word; None for none, and for what no word can be made of."""
    word = re.sub(r"[^A-Za-z0-9._=:+-]", "-", text or "").lstrip("._=:+-")[:48]
    return word or None


def _major_minor(release: str | None) -> str | None:
    found = re.match(_KERNEL.pattern, release or "")
    return found.group() if found else None
