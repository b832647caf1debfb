"""The model of a pull on a host: two rates, an amount of memory, and what they mean elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from contracts.units import format_size
from sysctl.knobs.vm import BY_NAME
from sysctl.prediction.simulation import Burst, Course, simulate
from sysctl.setting import replace_values
from sysctl.writeback import Thresholds, effective_thresholds

#: Writers wait for nothing where a pull takes no longer than this part above what its source takes.
IN_TIME = 0.02
#: Background thresholds that are looked at beside a dirty threshold of all memory, as parts of it:
#: early write-back drains sooner, a late one lets writers go on for longer (freerun).
_BACKGROUND_PARTS = (0.0, 0.1, 0.4, 0.7, 0.99)
#: What is sought by halving is found this exactly.
_EXACTNESS = 0.01
#: Memory, in bursts, with which no threshold ever makes a writer wait.
_AMPLE_BURSTS = 4

#: Memory or a burst that differs from the measured one by more than this factor is extrapolated.
FAR = 2.0


@dataclass(frozen=True)
class Prediction:
    """What a pull would take. Times in s; `peak_dirty_bytes` are dirty or under write-back.

    `extrapolates` says in words why this is less certain than the benchmark's figures; else empty.
    """

    return_s: float
    durable_s: float
    peak_dirty_bytes: int
    extrapolates: str


@dataclass(frozen=True)
class Model:
    """A pull with `dirtyable_bytes` of memory to a device, as the present runs showed it.

    The device takes `device_bytes_per_s`. `seen_bytes` is how much was held at most while writers
    were not made to wait. `present` are the sysctls in force, which a setting leaves as they are.
    """

    present: Mapping[str, int]
    burst: Burst
    dirtyable_bytes: int
    device_bytes_per_s: float
    seen_bytes: int

    @property
    def burst_bytes(self) -> int:
        """The size of the pull that was measured."""
        return round(self.burst.size_bytes)

    @property
    def source_bytes_per_s(self) -> float:
        """How fast data comes while nothing makes the writers wait."""
        return self.burst.source_bytes_per_s

    @property
    def flushed_bytes_per_s(self) -> float:
        """The same while the device writes."""
        return self.burst.flushed_bytes_per_s

    def predict(
        self,
        values: Mapping[str, int],
        *,
        burst_bytes: int | None = None,
        dirtyable_bytes: int | None = None,
    ) -> Prediction:
        """What the pull would take under sysctl `values`, with another size or memory if given."""
        size_bytes = self.burst_bytes if burst_bytes is None else burst_bytes
        memory_bytes = self.dirtyable_bytes if dirtyable_bytes is None else dirtyable_bytes
        complete = replace_values(self.present, values)
        thresholds = effective_thresholds(complete, memory_bytes)
        burst = replace(self.burst, size_bytes=size_bytes)
        # More can hardly be dirty, whatever a threshold in bytes says.
        at = replace(thresholds, dirty_bytes=min(thresholds.dirty_bytes, memory_bytes))
        course = simulate(burst, at, self.device_bytes_per_s, _flush_age_s(complete))
        reasons = self._reasons(size_bytes, memory_bytes, course)
        if thresholds.dirty_bytes > memory_bytes:
            reasons.append("the dirty threshold is above the memory that can be dirtied")
        return Prediction(
            return_s=course.return_s,
            durable_s=course.return_s + course.held_bytes / self.device_bytes_per_s,
            peak_dirty_bytes=round(course.peak_bytes),
            extrapolates="; ".join(reasons),
        )

    def unthrottled_s(self) -> float:
        """How long the pull takes (s) where nothing makes its writers wait."""
        ample_bytes = _AMPLE_BURSTS * self.burst_bytes
        return simulate(self.burst, Thresholds(0, ample_bytes), self.device_bytes_per_s).return_s

    def returns_in_time(self, device_bytes_per_s: float, dirtyable_bytes: float) -> bool:
        """Whether the pull returns as its source allows, under the best thresholds there can be.

        With a device and memory of that much: dirty pages in all of the memory, and the best of a
        few background thresholds. Writers are slowed before the memory is full, and the device
        rests until the background threshold, so this is simulated.
        """
        in_time_s = self.unthrottled_s() * (1 + IN_TIME)
        age_s, memory = _flush_age_s(self.present), round(dirtyable_bytes)
        return any(
            simulate(self.burst, at, device_bytes_per_s, age_s).return_s <= in_time_s
            for at in (Thresholds(int(memory * part), memory) for part in _BACKGROUND_PARTS)
        )

    def rate_needed_bytes_per_s(self) -> float | None:
        """The device rate with which the pull would return in time with this memory.

        To 1 %, not below it; None where the device that there is will do.
        """
        return _least(
            lambda rate: self.returns_in_time(rate, self.dirtyable_bytes),
            self.device_bytes_per_s,
            self.flushed_bytes_per_s,
        )

    def memory_needed_bytes(self) -> float | None:
        """The dirtyable memory with which it would return in time to this device, likewise."""
        return _least(
            lambda memory: self.returns_in_time(self.device_bytes_per_s, memory),
            self.dirtyable_bytes,
            _AMPLE_BURSTS * self.burst_bytes,
        )

    def _reasons(self, size_bytes: int, memory_bytes: int, course: Course) -> list[str]:
        reasons = []
        for noun, asked, measured in (
            ("memory", memory_bytes, self.dirtyable_bytes),
            ("the burst", size_bytes, self.burst_bytes),
        ):
            ratio = asked / max(1, measured)
            if not 1 / FAR <= round(ratio, 1) <= FAR:
                reasons.append(f"{noun} is {_factor(ratio)} times what was measured")
        if course.peak_bytes > self.seen_bytes * FAR:
            reasons.append(
                f"the source was seen without waits up to {format_size(self.seen_bytes)} only"
            )
        return reasons


def _least(is_enough: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least that is enough, by halving the ratio of the two; None where `low` is enough."""
    if low >= high or is_enough(low):
        return None
    while high > low * (1 + _EXACTNESS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _factor(ratio: float) -> str:
    """For reading: `3`, `0.2`, `0.0004`, `262,144`."""
    if ratio >= 10:
        return f"{ratio:,.0f}"
    return f"{round(ratio, 1):g}" if ratio >= 0.1 else f"{ratio:.1g}"


def _flush_age_s(values: Mapping[str, int]) -> float:
    """The age at which the kernel's periodic write-back takes dirty pages: half a period late."""
    expire, period = (
        values.get(name, BY_NAME[name].kernel_default)
        for name in ("vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs")
    )
    return (expire + period / 2) / 100 if period else math.inf
