# SPDX-License-Identifier: Apache-2.0
"""How descriptors come from the compiler's process, and how attachments are closed."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from typing import IO

import pytest

from contracts.shared.errors import RequirementError, WritewiseError
from profiler.bpf import compiler, loader
from profiler.bpf.descriptors import close, close_attachments

MANY = 2 * compiler.DESCRIPTORS_PER_MESSAGE + 50


def open_now() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@pytest.fixture
def ends() -> Iterator[tuple[loader.Compiler, socket.socket]]:
    """A compiler whose process fails at once, and its end of the socket, to answer in its place."""
    its_ends: list[socket.socket] = []

    def start(its_end: socket.socket, chatter: IO[bytes]) -> subprocess.Popen[bytes]:
        its_ends.append(its_end.dup())
        return subprocess.Popen(["false"])

    with loader.Compiler(start=start) as receiving, its_ends[0] as its:
        yield receiving, its


def test_more_descriptors_than_a_message_takes(
    ends: tuple[loader.Compiler, socket.socket],
) -> None:
    receiving, its = ends
    sent = {f"event{number}": its.fileno() for number in range(MANY)}
    compiler.give(its, "event", sent)
    its.send(b'{"kind": "done"}')
    names: list[str] = []
    descriptors: list[int] = []
    for kind, some_names, some_descriptors in receiving.answers():
        assert kind == "event"
        names += some_names
        descriptors += some_descriptors
    try:
        assert names == list(sent)
        assert len(set(descriptors)) == MANY
        assert os.fstat(descriptors[-1]) == os.fstat(its.fileno())
        flags = {fcntl.fcntl(each, fcntl.F_GETFD) for each in descriptors}
        assert flags == {fcntl.FD_CLOEXEC}  # or what is profiled would get them
    finally:
        close(descriptors)


def test_descriptors_without_room_are_one_sentence(
    ends: tuple[loader.Compiler, socket.socket],
) -> None:
    receiving, its = ends
    compiler.give(its, "map", {str(number): its.fileno() for number in range(100)})
    before, limits = open_now(), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + 20, limits[1]))
    try:
        with pytest.raises(WritewiseError, match="too many open files") as caught:
            list(receiving.answers())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "ulimit -n" in caught.value.hint
    assert open_now() == before


@pytest.mark.parametrize(
    ("failure", "about", "sentence"),
    [
        ("tracepoint", "sched:none", "this kernel has no tracepoint sched:none"),
        ("bcc", "No module named 'bcc'", "BCC's Python binding cannot be used: No module"),
        ("bcc", "libLLVM: failed to map segment", "not enough memory"),
        ("attach", "sched:none", "some probes could not be attached: sched:none"),
        ("tracefs", "mount() says no", "tracefs cannot be accessed: mount() says no"),
    ],
)
def test_a_failure_is_one_sentence(
    ends: tuple[loader.Compiler, socket.socket], failure: str, about: str, sentence: str
) -> None:
    receiving, its = ends
    its.send(f'{{"kind": "failed", "failure": "{failure}", "about": "{about}"}}'.encode())
    with pytest.raises(RequirementError) as caught:
        list(receiving.answers())
    assert caught.value.message.startswith(sentence)
    assert caught.value.hint


def test_a_compiler_that_was_killed() -> None:
    killed = loader.load_error("", "", -9)
    assert killed.message == "not enough memory to load the probes"
    crashed = loader.load_error("", "LLVM ERROR: no such thing", -6)
    assert crashed.message == "the probes could not be loaded: the compiler ended with signal 6"
    assert crashed.hint == "LLVM ERROR: no such thing"


def test_attachments_are_closed_last_by_another_process() -> None:
    """A pipe stands for an attachment: its reader sees the end once nobody has it open."""
    reader, writer = os.pipe()
    before = len(open_now())
    close_attachments([writer])
    assert len(open_now()) == before - 1
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_attachments_are_closed_if_no_process_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    reader, writer = os.pipe()
    before = len(open_now())
    close_attachments([writer])
    assert len(open_now()) == before - 1
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_compiler_that_ends_without_an_answer(
    ends: tuple[loader.Compiler, socket.socket],
) -> None:
    receiving, its = ends
    receiving.ask({"files": []})
    its.close()  # the request unread
    with pytest.raises(RequirementError, match="the compiler ended with exit code 1"):
        list(receiving.answers())
    receiving.ask({"files": []})
