# SPDX-License-Identifier: Apache-2.0
"""A simple kernel: dirty pages of several volumes under thresholds that a governor may change.

The law is that of mm/page-writeback.c (Linux 6.18): below freerun a writer never waits, above it
all writers of a volume together get the device's rate times `pos_ratio`. A volume's flusher is
woken by a writer, or every 5 s, while dirty pages are above the background threshold; it hands them
to the device's queue until they are below it. Time advances in steps of 10 ms. There are no control
groups, and there is no age at which pages are written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sysctl.govern.groups import GroupMemory
from sysctl.govern.policy import Decision, Governor
from sysctl.govern.samples import NS_PER_S, HostSample, VolumeState
from sysctl.knobs.writeback import Thresholds, effective_thresholds

MIB, GIB = 2**20, 2**30
STEP_S = 0.01
POLL_STEPS = 5
FLUSHER_WAKES_S = 5.0
#: The clock of a host that has been up for a day.
BOOTED_NS = 86_400 * NS_PER_S
REST = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}


@dataclass(frozen=True)
class Burst:
    """`size_bytes` that arrive from `begins_s` on, at most at a rate, onto one of the volumes.

    It counts for a governor that admits only some writers if `is_admitted`.
    """

    begins_s: float
    size_bytes: float
    rate_bytes_per_s: float
    volume: int = 0
    writer: str = "pull"
    is_admitted: bool = True


@dataclass
class Volume:
    """A device and what it holds; `is_named` is whether the governor was given it.

    At most `queue_bytes` are under write-back: blk-throttle takes any amount. It holds requests of
    up to `request_bytes`, which then complete at once.
    """

    rate_bytes_per_s: float
    is_named: bool = True
    queue_bytes: float = 64 * MIB
    request_bytes: float = 0.0
    dirty_bytes: float = 0.0
    writeback_bytes: float = 0.0
    is_flushing: bool = False
    dirtied_bytes: float = 0.0
    written_bytes: float = 0.0
    _of_request_bytes: float = 0.0

    def write(self, seconds: float) -> None:
        """Write to the device for a time."""
        due = min(self.writeback_bytes, self._of_request_bytes + self.rate_bytes_per_s * seconds)
        if due < min(self.request_bytes, self.writeback_bytes):
            self._of_request_bytes = due
            return
        self._of_request_bytes = 0.0
        self.writeback_bytes -= due
        self.written_bytes += due


@dataclass(frozen=True)
class Moment:
    """What the simulation recorded after a step; `at` is in force until the next."""

    time_s: float
    held_bytes: float
    at: Thresholds
    is_raised: bool
    writeback_bytes: float


@dataclass
class Host:
    """The simulated host: its memory, volumes and bursts, and the thresholds in force.

    With `admits` its samples have what admitted bursts dirtied.
    """

    dirtyable_bytes: int
    volumes: list[Volume]
    bursts: list[Burst]
    rest: dict[str, int] = field(default_factory=lambda: dict(REST))
    pressure_ns: int = 0
    time_s: float = 0.0
    moments: list[Moment] = field(default_factory=list)
    returned_s: dict[Burst, float] = field(default_factory=dict)
    admits: bool = False
    groups: tuple[GroupMemory, ...] = ()
    _admitted_bytes: float = 0.0
    _writes: dict[str, float] = field(default_factory=dict)
    _arrived: dict[Burst, float] = field(default_factory=dict)
    _sampled_s: float = -1.0
    _sampled_held_bytes: float = 0.0

    def __post_init__(self) -> None:
        self.values = dict(self.rest)

    @property
    def at(self) -> Thresholds:
        return effective_thresholds(self.values, self.dirtyable_bytes)

    @property
    def held_bytes(self) -> float:
        return self.dirty_bytes + sum(volume.writeback_bytes for volume in self.volumes)

    @property
    def dirty_bytes(self) -> float:
        return sum(volume.dirty_bytes for volume in self.volumes)

    def forget(self) -> None:
        """Forget all bursts and moments."""
        self.bursts = []
        self.returned_s.clear()
        self._arrived.clear()
        self.moments.clear()

    def step(self) -> None:
        """Advance by one step: pages become dirty, then devices write."""
        for number, volume in enumerate(self.volumes):
            active = [b for b in self.bursts if b.volume == number and self._is_active(b)]
            asked = {b: min(b.rate_bytes_per_s * STEP_S, self._left(b)) for b in active}
            total = sum(asked.values())
            share = min(1.0, self._allowed_bytes(volume, total) / total) if total else 0.0
            for burst, size in asked.items():
                self._arrive(burst, volume, size * share)
            if total or round(self.time_s / STEP_S) % round(FLUSHER_WAKES_S / STEP_S) == 0:
                volume.is_flushing = True
        for volume in self.volumes:
            self._flush(volume)
        self.time_s += STEP_S

    def _flush(self, volume: Volume) -> None:
        surplus = self.dirty_bytes - self.at.background_bytes
        volume.is_flushing = volume.is_flushing and surplus > 0
        if volume.is_flushing:
            room = volume.queue_bytes - volume.writeback_bytes
            moved = min(volume.dirty_bytes, surplus, max(0.0, room))
            volume.dirty_bytes -= moved
            volume.writeback_bytes += moved
        volume.write(STEP_S)

    def _is_active(self, burst: Burst) -> bool:
        return self.time_s >= burst.begins_s and burst not in self.returned_s

    def _left(self, burst: Burst) -> float:
        return burst.size_bytes - self._arrived.get(burst, 0.0)

    def _allowed_bytes(self, volume: Volume, asked_bytes: float) -> float:
        at, held = self.at, self.held_bytes
        if held <= at.freerun_bytes:
            room = at.freerun_bytes - held
            return max(room, 2 * volume.rate_bytes_per_s * STEP_S)
        cube = ((at.setpoint_bytes - held) / (at.dirty_bytes - at.setpoint_bytes)) ** 3
        return min(asked_bytes, volume.rate_bytes_per_s * STEP_S * min(2.0, max(0.0, 1 + cube)))

    def _arrive(self, burst: Burst, volume: Volume, size_bytes: float) -> None:
        volume.dirty_bytes += size_bytes
        volume.dirtied_bytes += size_bytes
        if burst.is_admitted or not self.admits:
            self._admitted_bytes += size_bytes * volume.is_named
            self._writes[burst.writer] = self._writes.get(burst.writer, 0.0) + size_bytes
        self._arrived[burst] = self._arrived.get(burst, 0.0) + size_bytes
        if self._left(burst) < 1:
            self.returned_s[burst] = self.time_s + STEP_S - burst.begins_s

    def _has_news(self) -> bool:
        """Return whether there would be a sample (`profiler/govern/reader.py`)."""
        is_due = self.time_s - self._sampled_s >= 0.5 - STEP_S / 2
        has_more = self.held_bytes - self._sampled_held_bytes > MIB
        if not (is_due or has_more) and self.held_bytes <= 0.1 * self.at.background_bytes:
            return False
        self._sampled_s, self._sampled_held_bytes = self.time_s, self.held_bytes
        return True

    def sample(self) -> HostSample:
        """Return what a governor would see now."""
        writes, self._writes = self._writes, {}
        return HostSample(
            time_ns=BOOTED_NS + round(self.time_s * NS_PER_S),
            dirty_bytes=round(self.dirty_bytes),
            writeback_bytes=round(self.held_bytes - self.dirty_bytes),
            thresholds=self.at,
            dirtyable_bytes=self.dirtyable_bytes,
            available_bytes=self.dirtyable_bytes,
            values=dict(self.values),
            volumes=tuple(
                VolumeState(
                    round(each.dirty_bytes),
                    round(each.writeback_bytes),
                    round(each.dirtied_bytes),
                    round(each.written_bytes),
                )
                for each in self.volumes
                if each.is_named
            ),
            memory_some_ns=self.pressure_ns,
            memory_full_ns=0,
            admitted_bytes=round(self._admitted_bytes) if self.admits else None,
            writes={name: round(size) for name, size in writes.items()},
            groups=self.groups,
        )

    def obey(self, decision: Decision) -> None:
        """Put a decision in force."""
        if decision.raised is None:
            self.values = dict(self.rest)
            return
        background = (
            {n: v for n, v in self.rest.items() if "background" in n}
            if decision.background_bytes is None
            else {"vm.dirty_background_bytes": decision.background_bytes}
        )
        self.values = {"vm.dirty_bytes": decision.raised.dirty_bytes, **background}

    def run(self, seconds: float, governor: Governor | None = None) -> list[Decision]:
        """Run for a time, and return the decisions of the governor, one for each sample."""
        decisions = []
        for number in range(round(seconds / STEP_S)):
            if governor and number % POLL_STEPS == 0 and self._has_news():
                decisions.append(governor.step(self.sample()))
                self.obey(decisions[-1])
            is_raised = self.values != self.rest
            held, in_flight = self.held_bytes, self.held_bytes - self.dirty_bytes
            self.moments.append(Moment(self.time_s, held, self.at, is_raised, in_flight))
            self.step()
        return decisions
