# SPDX-License-Identifier: Apache-2.0
"""Any text in the kernel's files: what it says, or a sentence; never a traceback.

A container, a sandbox or another kernel may show files that are cut, empty or different.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from contracts.shared.errors import WritewiseError
from contracts.shared.text import is_unprintable
from sysctl.host.memory_group import memory_group
from sysctl.host.mount_table import Mount, mount_at, mount_of, parse_mountinfo
from sysctl.host.sysctls import (
    dirtyable_bytes,
    read_available_bytes,
    read_sysctl,
    read_thresholds,
    read_writeback,
)
from sysctl.host.system import HostError, System

#: What the kernel escapes in a mount table (fs/proc_namespace.c, mangle; Linux 6.18).
ESCAPED = " \t\n\\#"
#: A file name's bytes as Python shows them, also those that are no UTF-8.
NAMES = st.binary(min_size=1, max_size=30).map(
    lambda name: os.fsdecode(name.replace(b"\0", b"").replace(b"/", b"")) or "x"
)
PATHS = st.lists(st.one_of(NAMES, st.sampled_from(["a b", "\\040", "#", "- ", " - "]))).map(
    lambda names: "/" + "/".join(names)
)
WORDS = st.from_regex(r"[a-z0-9_]{1,8}(=[a-z0-9]{1,4})?", fullmatch=True)
OPTIONS = st.lists(WORDS, min_size=1, max_size=4).map(tuple)
MOUNTS = st.builds(
    Mount,
    device=st.from_regex(r"[0-9]{1,3}:[0-9]{1,3}", fullmatch=True),
    root=PATHS,
    target=PATHS,
    options=OPTIONS,
    fstype=st.from_regex(r"[a-z0-9.]{1,8}", fullmatch=True),
    source=st.one_of(PATHS, NAMES),
    super_options=OPTIONS,
    mount_id=st.integers(1, 10**9).map(str),
)
OPTIONAL_FIELDS = st.lists(st.sampled_from(["shared:1", "master:2", "unbindable"]), max_size=3)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(
        st.sampled_from(
            [
                *("MemAvailable:", "MemTotal:", "kB", "\n", " ", ":", "0::/", "4:memory:/a"),
                *("nr_dirty_threshold", "nr_dirty_background_threshold", "max", "²", "-1", "0"),
                *("12", "9" * 5000, "1_000", "\x1b[31m", "\\040", " - ", "cgroup2", "36 35 98:0"),
            ]
        ),
        max_size=30,
    ).map("".join),
)


class FakeSystem(System):
    """Every file that is not given holds `rest`."""

    def __init__(self, files: Mapping[str, str], rest: str = "") -> None:
        super().__init__()
        self.files, self.rest = files, rest

    def read(self, absolute: str) -> str:
        return self.files.get(absolute, self.rest).strip()

    def exists(self, absolute: str) -> bool:
        return True


def mangled(text: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in ESCAPED else char for char in text)


def line_of(mount: Mount, optional: list[str]) -> str:
    head = [mount.mount_id, "35", mount.device, mangled(mount.root), mangled(mount.target)]
    tail = [mount.fstype, mangled(mount.source), ",".join(mount.super_options)]
    return " ".join([*head, ",".join(mount.options), *optional, "-", *tail])


@given(st.lists(st.tuples(MOUNTS, OPTIONAL_FIELDS), max_size=5))
def test_a_mount_table_reads_back(rows: list[tuple[Mount, list[str]]]) -> None:
    table = "".join(f"{line_of(mount, optional)}\n" for mount, optional in rows)
    assert parse_mountinfo(table) == tuple(mount for mount, _ in rows)


@given(st.one_of(TEXTS, st.lists(st.tuples(MOUNTS, TEXTS)).map(repr)))
@example("36 35 98:0 / / rw - \n")
@example("\\777" * 5000)
def test_any_text_is_a_mount_table_of_some_length(text: str) -> None:
    table = parse_mountinfo(text)
    assert mount_at(table, "/nowhere") is None or "/nowhere" in text
    try:
        assert mount_of(table, "/a/b") in table
    except WritewiseError as error:
        assert not any(map(is_unprintable, error.message))


@given(st.integers(0, 2**64 - 1))
def test_a_sysctl_is_its_number(value: int) -> None:
    assert read_sysctl(FakeSystem({}, f"{value}\n"), "vm.dirty_ratio") == value


@given(TEXTS)
@example("9" * 5000)
@example("²")
@example("1_0")
def test_a_sysctl_of_any_text_is_a_number_or_an_error(text: str) -> None:
    for read in (read_writeback, read_thresholds, dirtyable_bytes, read_available_bytes):
        try:
            read(FakeSystem({}, text))
        except HostError as error:
            assert not any(map(is_unprintable, error.message))
            assert len(error.message) < 300


@given(st.integers(0, 2**50), st.text(alphabet="abc:\n 1", max_size=40))
def test_available_memory_is_found_among_other_lines(kib: int, others: str) -> None:
    meminfo = f"{others}\nMemAvailable: {kib} kB\n"
    assert read_available_bytes(FakeSystem({"/proc/meminfo": meminfo})) == kib * 1024


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_control_groups_of_any_text(cgroup: str, limit: str, mounts: str, memory: str) -> None:
    files = {
        "/proc/self/cgroup": cgroup,
        "/proc/self/mountinfo": f"{mounts}\n30 1 0:26 / /sys/fs/cgroup rw - cgroup2 c rw\n",
        "/proc/meminfo": f"MemTotal: 1000 kB\n{memory}",
    }
    try:
        group = memory_group(FakeSystem(files, limit))
    except HostError as error:
        assert not any(map(is_unprintable, error.message))
    else:
        assert group is None or group.limit_bytes < 2**64


@given(st.integers(0, 999 * 1024))
def test_a_group_limit_below_the_hosts_memory_is_found(limit_bytes: int) -> None:
    files = {
        "/proc/self/cgroup": "0::/a/b",
        "/proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 c rw",
        "/proc/meminfo": "MemTotal: 1000 kB",
        "/sys/fs/cgroup/a/memory.max": str(limit_bytes),
    }
    group = memory_group(FakeSystem(files, "max"))
    assert group is not None
    assert (group.version, group.path, group.limit_bytes) == (2, "/a/b", limit_bytes)
