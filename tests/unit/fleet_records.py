# SPDX-License-Identifier: Apache-2.0
"""Records of made-up nodes: one with every field, and fleets with a distribution for each class."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from contracts.causes import Cause
from contracts.stats import NonzeroBuckets, bucket_index
from profiler.fleet.record import DayCounts, FleetRecord, PullCounts, PullRates, RolloutArm
from sysctl.evidence.class_key import ClassKey
from sysctl.evidence.prediction import Model

MIB, GIB, NS = 2**20, 2**30, 10**9
CLASS = ClassKey(
    file_system="ext4",
    mount_words=("noatime",),
    instance_type="m5.large",
    volume_type="gp3",
    volume_iops=3000,
    volume_mib_per_s=125.0,
    kernel="6.1",
    cgroup_version=2,
    client="direct",
)
PRESENT = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}
RECORD = FleetRecord(
    writewise="0.2.0",
    node="11111111-2222-4333-8444-555555555555",
    start="2026-11-24T02:08:45.123Z",
    seconds=31.5,
    node_class=CLASS,
    settings=PRESENT,
    pulls=PullCounts(1, 0, 2 * GIB, 20 * NS, 30 * NS),
    histograms={
        "write_latency_ns": ((100, 7), (200, 3)),
        "return_time_ns": ((bucket_index(20 * NS), 1),),
        "durable_time_ns": ((bucket_index(30 * NS), 1),),
    },
    stalls={Cause.THROTTLING: 60 * NS, Cause.ON_CPU: 5 * NS},
    writer_ns=80 * NS,
    peak_at_risk_bytes=700 * MIB,
    oom_kills=0,
    memory_psi_full_us=1500,
    verify="in force",
    rollout=RolloutArm("kernel-6", 2, "treated"),
    rates=PullRates(2 * GIB, 4 * GIB, 600e6, 65e6, 600 * MIB),
)
#: What `watch` writes of a node whose pulls another program starts.
DAY_RECORD = FleetRecord(
    writewise="0.2.0",
    node="99999999-2222-4333-8444-555555555555",
    start="2026-11-24T00:00:00.250Z",
    seconds=86400.0,
    node_class=replace(CLASS, client=None),
    settings=PRESENT,
    histograms={"disk_write_ns": ((100, 70_000), (200, 3))},
    peak_at_risk_bytes=900 * MIB,
    oom_kills=0,
    memory_psi_full_us=1500,
    day=DayCounts(
        watched_ns=86_390 * NS,
        burst_ns=900 * NS,
        above_freerun_ns=700 * NS,
        stalled_ns=600 * NS,
        throttled_ns=2400 * NS,
        pauses=12_000,
        written_bytes=70 * GIB,
    ),
)


@dataclass(frozen=True)
class MadeClass:
    """A class of a made-up fleet: what its nodes pull, and how fast source and device are."""

    key: ClassKey
    burst_bytes: int
    memory_bytes: int
    source_bytes_per_s: float
    device_bytes_per_s: float


def made_classes(count: int, seed: int = 1) -> list[MadeClass]:
    """Return classes of different instances, volumes, kernels and pulls."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        key = replace(
            CLASS,
            instance_type=f"m{number % 9}.{number}xlarge",
            volume_iops=3000 + number,
            volume_mib_per_s=float(rng.choice((125, 250, 500))),
            kernel=rng.choice(("5.10", "6.1", "6.12")),
        )
        burst = int(GIB * rng.choice((0.25, 1, 2, 8)))
        memory = int(GIB * rng.choice((4, 8, 16, 64)))
        device = float(key.volume_mib_per_s or 0) * MIB
        found.append(MadeClass(key, burst, memory, rng.choice((3e8, 6e8, 1.2e9)), device))
    return found


def made_record(
    one: MadeClass,
    rng: random.Random,
    at: int,
    buckets: int = 60,
    settings: Mapping[str, int] = PRESENT,
) -> FleetRecord:
    """Return the record of a pull on a node of the class, with the model's times and noise."""
    source, device = (
        rate * rng.lognormvariate(0, 0.2)
        for rate in (one.source_bytes_per_s, one.device_bytes_per_s)
    )
    memory = round(one.memory_bytes * rng.uniform(0.9, 1.0))
    model = Model(settings, one.burst_bytes, memory, source, device, one.burst_bytes)
    predicted = model.predict(settings)
    return_ns = round(predicted.return_s * rng.lognormvariate(0, 0.05) * NS)
    durable_ns = max(return_ns, round(predicted.durable_s * NS))
    waited_ns = round(max(0.0, predicted.return_s - model.unthrottled_s()) * 4 * NS)
    return FleetRecord(
        writewise="0.2.0",
        node=str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        start=f"2026-11-{1 + at % 24:02}T{at // 24 % 24:02}:{at % 60:02}:00.{at % 1000:03}Z",
        seconds=round(durable_ns / NS, 3),
        node_class=one.key,
        settings=settings,
        pulls=PullCounts(1, 0, one.burst_bytes, return_ns, durable_ns),
        histograms={
            "write_latency_ns": spread(rng, 5 * NS // 1000, buckets),
            "return_time_ns": spread(rng, return_ns, buckets),
            "durable_time_ns": spread(rng, durable_ns, buckets),
        },
        stalls={Cause.THROTTLING: waited_ns, Cause.DEVICE: NS, Cause.ON_CPU: NS},
        writer_ns=4 * return_ns,
        peak_at_risk_bytes=predicted.peak_dirty_bytes,
        oom_kills=0,
        memory_psi_full_us=rng.randrange(10**6),
        verify=None,
        rates=PullRates(one.burst_bytes, memory, source, device, one.burst_bytes),
    )


def in_rollout(
    made: FleetRecord, node: str, arm: RolloutArm | None, return_s: float, verify: str | None
) -> FleetRecord:
    """Return the record as one of a healthy node that pulls now, which took `return_s`."""
    start = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return_ns, durable_ns = round(return_s * NS), round(return_s * 1.5 * NS)
    return replace(
        made,
        node=node,
        start=start,
        pulls=PullCounts(1, 0, made.pulls.bytes, return_ns, durable_ns),
        memory_psi_full_us=0,
        rollout=arm,
        verify=verify,
    )


def spread(rng: random.Random, middle_ns: int, buckets: int) -> NonzeroBuckets:
    """Return a histogram of so many buckets around a value."""
    first = max(0, bucket_index(middle_ns) - buckets // 2)
    last = min(first + buckets, 624)
    return tuple((index, 1 + rng.randrange(500)) for index in range(first, last))


def made_records(classes: list[MadeClass], count: int, seed: int = 1) -> Iterator[FleetRecord]:
    """Yield so many records of nodes, in turn from each class."""
    rng = random.Random(seed)
    for number in range(count):
        yield made_record(classes[number % len(classes)], rng, number)
