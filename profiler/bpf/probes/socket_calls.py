# SPDX-License-Identifier: Apache-2.0
"""Counts calls that connect internet and unix sockets, which only rules for `/` cover.

A call on a non-blocking socket has the time of the call alone: `connect` counts as successful if it
returns EINPROGRESS, `accept` as failed if it returns EAGAIN.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from contracts.model import CallType
from profiler.bpf.probe import Probe
from profiler.bpf.probes.calls import LEAVE, MEMBERS, SOURCES

#: The types that this probe counts, and their system calls.
SYSTEM_CALLS: Mapping[CallType, tuple[str, ...]] = {
    CallType.CONNECT: ("connect",),
    CallType.ACCEPT: ("accept", "accept4"),
}
_ENTER = {CallType.CONNECT: "enter_connect", CallType.ACCEPT: "enter_accept"}
_LEAVE = {CallType.CONNECT: "leave_connect", CallType.ACCEPT: LEAVE}


def probe_of(call_types: Collection[CallType]) -> Probe:
    """Return the probe that counts calls of these types on sockets."""
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
        by_functions=True,
    )


#: The probe for all types.
PROBE = probe_of(tuple(SYSTEM_CALLS))
