"""Reads, writes and syncs through io_uring, counted in the slots of the same calls by system call.

A registered file (IOSQE_FIXED_FILE) is known by its number alone: such requests count in rules of
the path `/`, and for others are told as a loss. Before Linux 6.3 the kernel does not tell them.
"""

from __future__ import annotations

from contracts.model import CallType
from profiler.bpf.probe import Probe
from profiler.bpf.probes import calls

#: Call types of which some come this way.
CALL_TYPES = (CallType.READ, CallType.WRITE, CallType.FSYNC)
_OVERFLOW = "io_uring:io_uring_cqe_overflow"
_HANDED_ON = "io_uring:io_uring_queue_async_work"
#: By which a session knows whether the kernel had what it takes.
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
