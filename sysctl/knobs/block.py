"""The knobs of a disk's request queue, each as data.

Semantics: kernel `Documentation/ABI/stable/sysfs-block`, `block/blk-sysfs.c` and
`block/elevator.c`, as of Linux 6.18; which schedulers and files there are is asked of the host.
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
        kernel_default="none, with one hardware queue mq-deadline",
        what="the order in which the disk's requests are sent to it",
        risk="reads may wait longer behind writes, or the device be kept less busy",
        takes="at once, giving nr_requests the scheduler's own default",
        resets=(NR_REQUESTS, WBT),
        wide=("none", "mq-deadline"),
    ),
    DeviceKnob(
        name=NR_REQUESTS,
        flag="--nr-requests",
        unit="requests",
        minimum=4,
        maximum=10240,
        kernel_default="256 with a scheduler, else the device's own depth",
        what="requests that may wait for each hardware queue",
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
        what="how far a sequential read is read ahead",
        risk="memory and device time go to data that nobody reads",
        wide=("128", "4096"),
    ),
    DeviceKnob(
        name=WBT,
        flag="--wbt-lat-usec",
        unit="µs",
        minimum=0,
        maximum=10**7,
        kernel_default="2000, on rotating disks 75000",
        what="read latency for whose sake write-back is held back; 0 never holds it back",
        takes="at once; the kernel no longer picks a value of its own until the disk is gone",
        risk="reads wait longer while data is written back",
        wide=("0", "75000"),
    ),
)
