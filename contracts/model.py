# SPDX-License-Identifier: Apache-2.0
"""The contract model: what both syntaxes (Mistral's and YAML) are parsed to.

Source of the language: `docs/reference/contracts.md`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

#: Rules of one contract at most; the BPF maps have this size.
MAX_RULES = 64
#: Distinct slots at most: BPF counts each slot once, however many rules use it.
MAX_SLOTS = 32


class CallType(enum.Enum):
    """Types of calls that a rule can measure; the value is the word in both syntaxes.

    Joined types are written in this order (`read+write`).
    """

    OPEN = "open"
    CREATE = "create"
    DELETE = "delete"
    FSCHANGE = "fschange"
    READ = "read"
    WRITE = "write"
    SEEK = "seek"
    MMAP = "mmap"
    GLOB = "glob"
    ACCESS = "access"
    CONNECT = "connect"
    ACCEPT = "accept"
    FSYNC = "fsync"


#: Calls that have a size: the bytes read, written or mapped.
MOVES_BYTES = (CallType.READ, CallType.WRITE, CallType.MMAP)
#: Calls on sockets, which have no path.
OF_SOCKETS = (CallType.CONNECT, CallType.ACCEPT)


class Quantity(enum.Enum):
    """The base unit of a figure: bytes, nanoseconds or a plain count."""

    SIZE = "size"
    LATENCY = "latency"
    COUNT = "count"


class Measurement(enum.Enum):
    """What a rule measures; the value is the word in both syntaxes.

    Most are measured on calls; those in `RESOURCES` on processes or on the host.
    """

    BANDWIDTH = "bandwidth"
    COUNT = "count"
    SEEK_DISTANCE = "seek-distance"
    MEAN_LATENCY = "mean-latency"
    MIN_LATENCY = "min-latency"
    MAX_LATENCY = "max-latency"
    TOTAL_LATENCY = "total-latency"
    P50 = "p50"
    P90 = "p90"
    P99 = "p99"
    P99_9 = "p99.9"
    MEMORY = "memory"
    MEMORY_RSS = "memory-rss"
    MEMORY_VSIZE = "memory-vsize"
    USER_TIME = "user-time"
    SYSTEM_TIME = "system-time"
    CPU_TIME = "cpu-time"
    HOST_CPU_USER_TIME = "host-cpu-user-time"
    HOST_CPU_SYSTEM_TIME = "host-cpu-system-time"
    HOST_CPU_IOWAIT_TIME = "host-cpu-iowait-time"

    @property
    def quantity(self) -> Quantity:
        """The kind of figure, which decides the units of its threshold."""
        if self in _SIZES:
            return Quantity.SIZE
        return Quantity.COUNT if self is Measurement.COUNT else Quantity.LATENCY

    @property
    def is_of_calls(self) -> bool:
        """Whether it is measured on calls rather than on processes or the host."""
        return self not in RESOURCES


#: The latency percentiles and their percentages.
PERCENTILES = {
    Measurement.P50: 50.0,
    Measurement.P90: 90.0,
    Measurement.P99: 99.0,
    Measurement.P99_9: 99.9,
}
#: Memory and CPU time, of the processes profiled or of the host.
RESOURCES = (
    *(Measurement.MEMORY, Measurement.MEMORY_RSS, Measurement.MEMORY_VSIZE),
    *(Measurement.USER_TIME, Measurement.SYSTEM_TIME, Measurement.CPU_TIME),
    Measurement.HOST_CPU_USER_TIME,
    Measurement.HOST_CPU_SYSTEM_TIME,
    Measurement.HOST_CPU_IOWAIT_TIME,
)
_SIZES = (
    *(Measurement.BANDWIDTH, Measurement.SEEK_DISTANCE),
    *(Measurement.MEMORY, Measurement.MEMORY_RSS, Measurement.MEMORY_VSIZE),
)


@dataclass(frozen=True)
class SizeRange:
    """Calls that moved `min_bytes` to `max_bytes` bytes, both included; None is no limit."""

    min_bytes: int = 0
    max_bytes: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether every size is in the range."""
        return self.min_bytes == 0 and self.max_bytes is None


@dataclass(frozen=True)
class Slot:
    """Calls that are counted together: these types, below this path, a size in this range."""

    path: str
    call_types: tuple[CallType, ...]
    size_range: SizeRange

    @property
    def moves_bytes(self) -> bool:
        """Whether all its calls have a size in bytes."""
        return set(self.call_types) <= set(MOVES_BYTES)


@dataclass(frozen=True)
class Rule:
    """One rule: calls of `call_types` below `path` whose size is in range, and a limit on them.

    `call_types` are distinct and in the order of `CallType`; empty (Mistral's `none`) for a
    measurement in `RESOURCES`. `threshold` is in the base unit of the measurement: bytes,
    nanoseconds or a count. A rule is violated when the measured value is greater.
    """

    label: str
    path: str
    call_types: tuple[CallType, ...]
    size_range: SizeRange
    measurement: Measurement
    threshold: int

    @property
    def slot(self) -> Slot | None:
        """The slot that counts its calls; None for a measurement in `RESOURCES`."""
        if not self.measurement.is_of_calls:
            return None
        return Slot(self.path, self.call_types, self.size_range)


@dataclass(frozen=True)
class Contract:
    """Rules and the timeframe in ns after which values are reported (0 < timeframe_ns).

    `source` is the file it was read from, for messages. Contracts that differ only in `source` are
    equal.
    """

    timeframe_ns: int
    rules: tuple[Rule, ...]
    source: str = field(default="<contract>", compare=False)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The distinct slots, in the order of their first rules."""
        return tuple(dict.fromkeys(rule.slot for rule in self.rules if rule.slot))
