# SPDX-License-Identifier: Apache-2.0
"""Counts reads, writes and syncs through io_uring in the slots of the equivalent system calls.

The file of a request on a registered file (IOSQE_FIXED_FILE) is unknown: such requests count in
rules for `/`, and as losses for other rules. Kernels before 6.3 do not report requests to io_uring.
"""

from __future__ import annotations

from contracts.model import CallType
from profiler.bpf.probe import Probe
from profiler.bpf.probes import calls

#: Call types that io_uring can perform.
CALL_TYPES = (CallType.READ, CallType.WRITE, CallType.FSYNC)
_OVERFLOW = "io_uring:io_uring_cqe_overflow"
_HANDED_ON = "io_uring:io_uring_queue_async_work"
#: The map that exists if the kernel supports this probe.
MAP = "uring_requests"

PROBE = Probe(
    name="uring",
    sources=(*calls.PROBE.sources, "uring.bpf.c"),
    tracepoints=("io_uring:io_uring_submit_req", "io_uring:io_uring_complete"),
    functions={"uring_overflow": (_OVERFLOW,), "uring_handed_on": (_HANDED_ON,)},
    optional=frozenset({_OVERFLOW, _HANDED_ON}),
    members={**calls.MEMBERS, "OFFSET_REQUEST_DESCRIPTOR": ("io_kiocb", "cqe", "fd")},
    structure="trace_event_raw_io_uring_submit_req",
)
