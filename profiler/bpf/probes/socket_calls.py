"""Calls that connect sockets of the internet and unix families, below no path but `/`.

The time of a call on a socket that does not block is that of the call alone: `connect` counts as
done when it says that the connection is under way (EINPROGRESS), `accept` as failed when nobody
waits (EAGAIN).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from contracts.model import CallType
from profiler.bpf.probe import Probe
from profiler.bpf.probes.calls import LEAVE, MEMBERS, SOURCES

#: The types that this probe counts, and the system calls that each is.
SYSTEM_CALLS: Mapping[CallType, tuple[str, ...]] = {
    CallType.CONNECT: ("connect",),
    CallType.ACCEPT: ("accept", "accept4"),
}
_ENTER = {CallType.CONNECT: "enter_connect", CallType.ACCEPT: "enter_accept"}
_LEAVE = {CallType.CONNECT: "leave_connect", CallType.ACCEPT: LEAVE}


def probe_of(call_types: Collection[CallType]) -> Probe:
    """The probe that counts calls of these types, as far as they are of sockets."""
    functions: dict[str, tuple[str, ...]] = {}
    for call_type, names in SYSTEM_CALLS.items():
        if call_type in call_types:
            functions[_ENTER[call_type]] = tuple(f"syscalls:sys_enter_{name}" for name in names)
            functions[_LEAVE[call_type]] = tuple(f"syscalls:sys_exit_{name}" for name in names)
    return Probe(
        name="socket_calls",
        sources=(*SOURCES, "socket_calls.bpf.c"),
        functions=functions,
        members={
            **MEMBERS,
            "OFFSET_INODE_MODE": ("inode", "i_mode"),
            "OFFSET_FILE_DATA": ("file", "private_data"),
            "OFFSET_SOCKET_SOCK": ("socket", "sk"),
            "OFFSET_SOCK_FAMILY": ("sock", "__sk_common", "skc_family"),
        },
    )


#: All of it.
PROBE = probe_of(tuple(SYSTEM_CALLS))
