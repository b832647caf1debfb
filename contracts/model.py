"""The contract model that both syntaxes (Mistral's and YAML) become.

Source of the language: `docs/contracts.md`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

#: What one contract can hold; the kernel side's maps are sized for it.
MAX_RULES = 64
#: Distinct slots: the kernel side counts each once, however many rules read it.
MAX_SLOTS = 32


class CallType(enum.Enum):
    """Kinds of calls a rule can count; the value is the word in both syntaxes.

    The order is that in which joined types are written (`read+write`).
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
#: Calls on sockets, which are below no path.
OF_SOCKETS = (CallType.CONNECT, CallType.ACCEPT)


class Quantity(enum.Enum):
    """The base unit of a figure: bytes, nanoseconds or a plain count."""

    SIZE = "size"
    LATENCY = "latency"
    COUNT = "count"


class Measurement(enum.Enum):
    """What a rule measures; the value is the word in both syntaxes.

    Most are of calls; those of `RESOURCES` are of processes or of the host.
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
        """The kind of figure, and so the units its threshold takes."""
        if self in _SIZES:
            return Quantity.SIZE
        return Quantity.COUNT if self is Measurement.COUNT else Quantity.LATENCY

    @property
    def is_of_calls(self) -> bool:
        """Whether it is measured of the calls of a slot, not of processes or the host."""
        return self not in RESOURCES


#: Percentiles of the latency, and the per cent that each is of.
PERCENTILES = {
    Measurement.P50: 50.0,
    Measurement.P90: 90.0,
    Measurement.P99: 99.0,
    Measurement.P99_9: 99.9,
}
#: What is not of calls: memory and CPU time, of the processes profiled or of the host.
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
    """Calls that moved `min_bytes` to `max_bytes` bytes, both included; None is unbounded."""

    min_bytes: int = 0
    max_bytes: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether every size is in the range."""
        return self.min_bytes == 0 and self.max_bytes is None


@dataclass(frozen=True)
class Slot:
    """Calls that are counted together: of these types, below this path, of a size in range."""

    path: str
    call_types: tuple[CallType, ...]
    size_range: SizeRange

    @property
    def moves_bytes(self) -> bool:
        """Whether every call of it has a size in bytes."""
        return set(self.call_types) <= set(MOVES_BYTES)


@dataclass(frozen=True)
class Rule:
    """One rule: calls of `call_types` below `path` whose size is in range, and a limit on them.

    `call_types` are in the order of `CallType` and distinct; there are none (Mistral's `none`)
    where the measurement is not of calls. `threshold` is in the base unit of the measurement:
    bytes, nanoseconds or a count. A rule is violated when the measured value is greater.
    """

    label: str
    path: str
    call_types: tuple[CallType, ...]
    size_range: SizeRange
    measurement: Measurement
    threshold: int

    @property
    def slot(self) -> Slot | None:
        """What its calls are counted in; None where the measurement is not of calls."""
        if not self.measurement.is_of_calls:
            return None
        return Slot(self.path, self.call_types, self.size_range)


@dataclass(frozen=True)
class Contract:
    """Rules and the timeframe in ns after which a value is reported (0 < timeframe_ns).

    `source` is the file it was read from, for messages; it is no part of what the contract says,
    so two contracts that differ in it alone are equal.
    """

    timeframe_ns: int
    rules: tuple[Rule, ...]
    source: str = field(default="<contract>", compare=False)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The distinct slots, in the order of their first rules."""
        return tuple(dict.fromkeys(rule.slot for rule in self.rules if rule.slot))
