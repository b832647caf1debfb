# SPDX-License-Identifier: Apache-2.0
"""When the kernel refuses a program on a function, with a compiler that is played here."""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import IO, Any

import pytest

from contracts.shared.errors import RequirementError, WritewiseError
from profiler.bpf import compiler, functions, loader
from profiler.bpf.btf import Btf
from profiler.bpf.probe import Probe
from tests.unit.btf_images import FUNCTION, INT, Image

CALLS = Probe(
    "calls",
    ("calls.bpf.c",),
    functions={"enter_call": ("syscalls:sys_enter_fsync",)},
    members={"OFFSET_DI": ("pt_regs", "di")},
    by_functions=True,
)
REFUSED = {"kind": "failed", "failure": "function", "about": "syscalls:sys_enter_fsync: No"}
DONE = {"kind": "done"}
#: Makes the next compilers answer so, and returns their ends, which have the requests.
Play = Callable[..., "list[socket.socket]"]


@functools.cache
def kernel(_: object) -> Btf:
    image = Image()
    number = image.add(INT, "long", 8, words=(64,))
    registers = ("di", "si", "dx", "r10", "r8", "r9")
    image.structure("pt_regs", *((name, number, 8 * at) for at, name in enumerate(registers)))
    for name in ("fsync", "getcpu"):
        image.add(FUNCTION, f"__x64_sys_{name}", number)
    return Btf(image.bytes())


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    monkeypatch.setattr(loader, "parsed_btf", kernel)
    monkeypatch.setattr(functions, "why_not", lambda trial: None)
    real = loader.Compiler
    with ExitStack() as kept:

        def answer(*each_says: Mapping[str, str]) -> list[socket.socket]:
            ends: list[socket.socket] = []

            def start(its_end: socket.socket, chatter: IO[bytes]) -> subprocess.Popen[bytes]:
                ends.append(kept.enter_context(its_end.dup()))
                said = each_says[len(ends) - 1]
                if said is DONE:
                    compiler.give(its_end, "event", {"an attachment": its_end.fileno()})
                its_end.send(json.dumps(said).encode())
                return subprocess.Popen(["true"])

            monkeypatch.setattr(loader, "Compiler", functools.partial(real, start=start))
            return ends

        yield answer


def request(end: socket.socket) -> dict[str, Any]:
    return dict(json.loads(end.recv(compiler.REQUEST_BYTES)))


def test_functions_that_the_kernel_takes(play: Play) -> None:
    ends = play(DONE)
    with loader.load((CALLS,), {}) as module:
        assert (module.by_functions, module.functions_refused) == (True, None)
    assert list(request(ends[0])["traced"]) == ["syscalls:sys_enter_fsync"]


def test_after_a_refused_function_all_attach_to_tracepoints(play: Play) -> None:
    ends = play(REFUSED, DONE)
    before = len(os.listdir("/proc/self/fd"))
    with loader.load((CALLS,), {"SLOT_COUNT": 1}) as module:
        assert not module.by_functions
        assert module.functions_refused == (
            "the kernel refuses a program on the function of syscalls:sys_enter_fsync: No"
        )
    assert len(os.listdir("/proc/self/fd")) == before + len(ends)
    first, second = map(request, ends)
    assert (len(first["traced"]), second["traced"]) == (1, {})
    assert "-DBY_FUNCTIONS=1" in first["cflags"]
    assert "-DBY_FUNCTIONS=1" not in second["cflags"]
    assert "-DSLOT_COUNT=1" in second["cflags"]
    assert first["functions"] == second["functions"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({**REFUSED, "failure": "load", "about": "[Errno 24] Too many open files"}, "open files"),
        ({**REFUSED, "failure": "load", "about": "Cannot allocate memory"}, "not enough memory"),
        ({**REFUSED, "failure": "tracepoint", "about": "a:b"}, "no tracepoint a:b"),
    ],
)
def test_what_a_tracepoint_would_meet_too_is_not_tried_again(
    play: Play, said: Mapping[str, str], sentence: str
) -> None:
    ends = play(said)
    with pytest.raises(WritewiseError, match=sentence):
        loader.load((CALLS,), {})
    assert len(ends) == 1


def test_tracepoints_that_fail_too_are_the_error(play: Play) -> None:
    play(REFUSED, {**REFUSED, "failure": "attach", "about": "sched:none"})
    with pytest.raises(RequirementError, match="could not be attached: sched:none"):
        loader.load((CALLS,), {})
