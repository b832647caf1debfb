"""The contract model that both syntaxes (Mistral's and YAML) become.

Source of the language: `docs/contracts.md`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

#: What one contract can hold; the kernel side's maps are sized for it.
MAX_RULES = 64
#: Distinct pairs of path and size range: the kernel side counts each pair once, however many
#: rules read it.
MAX_SLOTS = 32


class CallType(enum.Enum):
    """Kinds of calls a rule can count; the value is the word in both syntaxes."""

    WRITE = "write"


class Measurement(enum.Enum):
    """What a rule measures of its calls; the value is the word in both syntaxes."""

    BANDWIDTH = "bandwidth"
    COUNT = "count"
    MEAN_LATENCY = "mean-latency"
    MIN_LATENCY = "min-latency"
    MAX_LATENCY = "max-latency"
    TOTAL_LATENCY = "total-latency"

    @property
    def quantity(self) -> Quantity:
        """The kind of figure, and so the units its threshold takes."""
        if self is Measurement.BANDWIDTH:
            return Quantity.SIZE
        return Quantity.COUNT if self is Measurement.COUNT else Quantity.LATENCY


class Quantity(enum.Enum):
    """The base unit of a figure: bytes, nanoseconds or a plain count."""

    SIZE = "size"
    LATENCY = "latency"
    COUNT = "count"


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
class Rule:
    """One rule: calls of `call_type` below `path` whose size is in range, and a limit on them.

    `threshold` is in the base unit of the measurement: bytes, nanoseconds or a count.
    A rule is violated when the measured value is greater than the threshold.
    """

    label: str
    path: str
    call_type: CallType
    size_range: SizeRange
    measurement: Measurement
    threshold: int


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
    def slots(self) -> tuple[tuple[str, SizeRange], ...]:
        """The distinct pairs of path and size range, in the order of their first rules."""
        return tuple(dict.fromkeys((rule.path, rule.size_range) for rule in self.rules))
