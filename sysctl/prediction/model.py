"""The model of a pull on a host: two rates, an amount of memory, and what they mean elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from contracts.units import format_size
from sysctl.knobs.vm import BY_NAME
from sysctl.prediction.simulation import Burst, Course, simulate
from sysctl.setting import replace_values
from sysctl.writeback import effective_thresholds

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
