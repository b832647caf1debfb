# SPDX-License-Identifier: Apache-2.0
"""The knobs of a disk's request queue, each as data.

Semantics: kernel `Documentation/ABI/stable/sysfs-block`, `block/blk-sysfs.c` and
`block/elevator.c`, as of Linux 6.18. Which schedulers and files exist is read from the host.
"""

from __future__ import annotations

from sysctl.knobs.device import DeviceKnob

SCHEDULER = "queue/scheduler"
NR_REQUESTS = "queue/nr_requests"
READ_AHEAD = "queue/read_ahead_kb"
WBT = "queue/wbt_lat_usec"

QUEUE_KNOBS: tuple[DeviceKnob, ...] = (
    DeviceKnob(
        name=SCHEDULER,
        flag="--queue-scheduler",
        unit="a scheduler that the kernel has loaded",
        kernel_default="none; mq-deadline with one hardware queue",
        what="the order in which requests are sent to the disk",
        risk="reads may wait longer behind writes, or the device may be less busy",
        takes="at once; resets nr_requests to the scheduler's default",
        resets=(NR_REQUESTS, WBT),
        wide=("none", "mq-deadline"),
    ),
    DeviceKnob(
        name=NR_REQUESTS,
        flag="--nr-requests",
        unit="requests",
        minimum=4,
        maximum=10240,
        kernel_default="256 with a scheduler, else the device's queue depth",
        what="requests that may be queued for each hardware queue",
        risk="a read may wait behind that many writes",
        wide=("64", "256"),
    ),
    DeviceKnob(
        name=READ_AHEAD,
        flag="--read-ahead-kb",
        unit="KiB",
        minimum=0,
        maximum=2**20,
        kernel_default="128, or twice the device's best request size",
        what="how much is read ahead of a sequential read",
        risk="memory and device time are spent on data that nobody reads",
        wide=("128", "4096"),
    ),
    DeviceKnob(
        name=WBT,
        flag="--wbt-lat-usec",
        unit="µs",
        minimum=0,
        maximum=10**7,
        kernel_default="2000; 75000 on rotating disks",
        what="read latency above which write-back is throttled; 0 turns the throttling off",
        takes="at once; the kernel's automatic value returns only when the disk is added again",
        risk="reads wait longer while data is written back",
        wide=("0", "75000"),
    ),
)
