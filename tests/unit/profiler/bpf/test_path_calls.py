# SPDX-License-Identifier: Apache-2.0
"""Which system calls each type is, and what is attached to count them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from contracts.model import CallType
from profiler.bpf.probe import PROBES_FOLDER, Probe
from profiler.bpf.probes import path_calls, socket_calls
from profiler.bpf.probes.path_calls import SYSTEM_CALLS, encode_route, probe_of
from profiler.bpf.starts import NAMES_MAX_BYTES

OPENING = {"open", "openat", "openat2"}


def c_source(probe: Probe) -> str:
    return (PROBES_FOLDER / probe.sources[-1]).read_text(encoding="utf-8")


def test_a_system_call_is_of_one_type_but_what_opens() -> None:
    types_of = Counter(name for names in SYSTEM_CALLS.values() for name in names)
    assert {name for name, count in types_of.items() if count > 1} == OPENING
    assert set(SYSTEM_CALLS[CallType.OPEN]) >= OPENING
    assert set(SYSTEM_CALLS[CallType.CREATE]) >= OPENING


@pytest.mark.parametrize("call_type", SYSTEM_CALLS)
def test_only_the_calls_of_a_type_are_attached_each_at_both_ends(call_type: CallType) -> None:
    probe = probe_of({call_type})
    attached = Counter(probe.all_tracepoints)
    assert set(attached.values()) == {1}
    assert set(attached) == {
        f"syscalls:sys_{side}_{name}"
        for side in ("enter", "exit")
        for name in SYSTEM_CALLS[call_type]
    }


@pytest.mark.parametrize("probe", [path_calls.PROBE, socket_calls.PROBE], ids=lambda p: p.name)
def test_every_program_of_the_c_is_attached(probe: Probe) -> None:
    written = set(re.findall(r"^int (\w+)\(struct sys_", c_source(probe), re.MULTILINE))
    assert set(probe.functions) - written <= {"leave_call"}
    assert written <= set(probe.functions)


def test_nothing_is_attached_for_other_types() -> None:
    others = set(CallType) - set(SYSTEM_CALLS) - set(socket_calls.SYSTEM_CALLS)
    assert not probe_of(others).functions
    assert not socket_calls.probe_of(others).functions


def test_only_known_calls_are_optional_and_some_of_each_type_are_not() -> None:
    assert path_calls.PROBE.optional <= set(path_calls.PROBE.all_tracepoints)
    for names in SYSTEM_CALLS.values():
        assert {f"syscalls:sys_enter_{name}" for name in names} - path_calls.PROBE.optional


def test_a_way_is_laid_out_as_the_trie_takes_it() -> None:
    assert f"#define NAMES_BYTES {NAMES_MAX_BYTES} " in re.sub(
        " +", " ", c_source(path_calls.PROBE)
    )
    key = encode_route(7, b"data/")
    assert len(key) == 4 + 4 + NAMES_MAX_BYTES
    assert key[:8] == (8 * (4 + 5)).to_bytes(4, "little") + (7).to_bytes(4, "little")
    assert key[8:] == b"data/".ljust(NAMES_MAX_BYTES, b"\0")
