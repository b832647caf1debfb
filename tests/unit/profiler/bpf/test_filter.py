# SPDX-License-Identifier: Apache-2.0
"""Scope filters: which names and groups are taken, and what numbers they become."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from contracts.shared.errors import UsageError
from profiler.bpf import cgroups
from profiler.bpf.btf import Btf
from profiler.bpf.cgroups import CgroupV1, CgroupV2
from profiler.bpf.filter import ScopeFilter
from tests.unit.btf_images import ENUM, Image

HOST_NAMESPACE = "cgroup:[4026531835]"
SUBSYSTEMS = ("cpu_cgrp_id", "io_cgrp_id", "memory_cgrp_id", "CGROUP_SUBSYS_COUNT")


class Hierarchy:
    """A folder that the fake mount table shows as a cgroup file system."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.root = folder / "proc", folder / "cgroup"
        (self.proc / "ns").mkdir(parents=True)
        self.namespace = HOST_NAMESPACE
        (self.root / "tasks of a/web").mkdir(parents=True)

    def mount(self, fstype: str, options: str = "rw", root: str = "/", device: str = "") -> None:
        status = self.root.stat().st_dev
        number = device or f"{os.major(status)}:{os.minor(status)}"
        lines = (
            f"20 1 {number} / / rw - ext4 /dev/root rw",
            f"31 20 {number} {root} {self.root} rw,relatime - {fstype} cgroup {options}",
            "32 20 0:99 / /elsewhere rw - cgroup2 cgroup2 rw",
        )
        (self.proc / "mountinfo").write_text("\n".join(lines) + "\n")
        (self.proc / "ns/cgroup").symlink_to(self.namespace)

    def resolve(self, path: str = "tasks of a/web") -> cgroups.Cgroup:
        return cgroups.resolve(str(self.root / path), self.proc)


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hierarchy:
    image = Image()
    words = [word for value, name in enumerate(SUBSYSTEMS) for word in (image.name(name), value)]
    image.add(ENUM, "cgroup_subsys_id", 4, len(SUBSYSTEMS), tuple(words))
    monkeypatch.setattr(Btf, "of_kernel", lambda: Btf(image.bytes()))
    return Hierarchy(tmp_path)


class TestCgroup:
    @pytest.mark.parametrize(
        ("root", "path", "level"),
        [
            ("/", "", 0),
            ("/", "tasks of a", 1),
            ("/", "tasks of a/web/", 2),
            ("/ecs/task", "", 2),
            ("/ecs/task", "tasks of a/../tasks of a/web", 4),
        ],
    )
    def test_v2_is_as_deep_as_below_the_real_root(
        self, hierarchy: Hierarchy, root: str, path: str, level: int
    ) -> None:
        hierarchy.mount("cgroup2", root=root)
        cgroup_id = (hierarchy.root / path).stat().st_ino
        assert hierarchy.resolve(path) == CgroupV2(cgroup_id, level)

    @pytest.mark.parametrize(
        ("options", "subsystem"),
        [
            ("rw,memory", 2),
            ("rw,blkio", 1),
            ("rw,noprefix,unheard_of,cpu,memory,clone_children", 0),
            ("rw,memory,name=both", 2),
        ],
    )
    def test_v1_by_a_controller(self, hierarchy: Hierarchy, options: str, subsystem: int) -> None:
        hierarchy.mount("cgroup", options, root="/../..")
        cgroup_id = (hierarchy.root / "tasks of a/web").stat().st_ino
        assert hierarchy.resolve() == CgroupV1(cgroup_id, subsystem)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                "rw,xattr,name=systemd",
                "belongs to the hierarchy 'systemd', which has no controller",
            ),
            ("rw,future", r"this kernel's BTF lacks: rw,future"),
            ("rw,CGROUP_SUBSYS_COUNT", "BTF lacks"),
            ("rw,\x1b[2J", r"BTF lacks: rw,\\x1b\[2J"),
        ],
    )
    def test_v1_without_a_controller(
        self, hierarchy: Hierarchy, options: str, message: str
    ) -> None:
        hierarchy.mount("cgroup", options)
        with pytest.raises(UsageError, match=message):
            hierarchy.resolve()

    def test_a_namespace_hides_the_depth_of_v2_only(self, hierarchy: Hierarchy) -> None:
        hierarchy.namespace = "cgroup:[4026532000]"
        hierarchy.mount("cgroup2")
        with pytest.raises(UsageError, match="a cgroup namespace hides the depth"):
            hierarchy.resolve()
        (hierarchy.proc / "ns/cgroup").unlink()
        hierarchy.mount("cgroup", "rw,cpu")
        assert isinstance(hierarchy.resolve(), CgroupV1)

    @pytest.mark.parametrize(("fstype", "device"), [("tmpfs", ""), ("cgroup2", "0:98")])
    def test_another_file_system(self, hierarchy: Hierarchy, fstype: str, device: str) -> None:
        hierarchy.mount(fstype, device=device)
        with pytest.raises(UsageError, match="not on a cgroup file system"):
            hierarchy.resolve()

    @pytest.mark.parametrize("slash", ["", "/", "//"])
    def test_a_symlink_at_the_end_is_not_followed(self, hierarchy: Hierarchy, slash: str) -> None:
        hierarchy.mount("cgroup2")
        (hierarchy.root / "link").symlink_to("tasks of a")
        with pytest.raises(UsageError, match="is a symbolic link"):
            cgroups.resolve(f"{hierarchy.root}/link{slash}", hierarchy.proc)
        assert hierarchy.resolve("link/web") == hierarchy.resolve("tasks of a/web")

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("", "the cgroup's path '' is not absolute"),
            ("memory/a", "'memory/a' is not absolute"),
            ("/none\x1b[2J", r"the cgroup /none\\x1b\[2J cannot be used as a filter: No such file"),
            ("/a\0b", r"the cgroup /a\\x00b cannot be used as a filter: embedded null"),
            (__file__, "is not a directory"),
        ],
    )
    def test_no_directory(self, path: str, message: str) -> None:
        with pytest.raises(UsageError, match=message) as error:
            cgroups.resolve(path)
        assert "/proc/PID/cgroup" in error.value.hint

    def test_no_descriptor_is_left(self, hierarchy: Hierarchy) -> None:
        hierarchy.mount("cgroup2")
        (hierarchy.root / "link").symlink_to("tasks of a")
        before = sorted(os.listdir("/proc/self/fd"))
        for path in ("tasks of a", "link", "none"):
            try:
                hierarchy.resolve(path)
            except UsageError:
                continue
        assert sorted(os.listdir("/proc/self/fd")) == before


class TestComm:
    @pytest.mark.parametrize(
        "comm", ["w", "worker-7", "8 bytes.", "kworker/0:1H", "fifteen_bytes_x"]
    )
    def test_words_are_the_kernels_bytes(self, comm: str) -> None:
        macros = ScopeFilter(comm=comm).macros()
        words = [macros.pop(f"COMM_WORD_{at}") for at in (0, 1)]
        name = b"".join(word.to_bytes(8, sys.byteorder) for word in words)
        assert name == comm.encode().ljust(16, b"\0")
        assert macros == {"FILTER_COMM": 1}

    def test_bytes_are_what_counts(self) -> None:
        assert ScopeFilter(comm="é" * 7).macros()
        with pytest.raises(UsageError, match="limit of 15 bytes") as error:
            ScopeFilter(comm="é" * 8)
        assert repr("é" * 7) in error.value.hint

    @pytest.mark.parametrize(
        ("comm", "message"),
        [
            ("", "is empty"),
            ("a\0b", r"a\\x00b contains an unprintable character"),
            ("a\nb", r"a\\nb contains"),
            ("\x1b[2J", r"\\x1b\[2J contains"),
            ("a\udc80", r"a\\udc80 contains"),
            ("sixteen_bytes_xy", "longer than Linux's limit of 15 bytes"),
        ],
    )
    def test_no_thread_has_it(self, comm: str, message: str) -> None:
        with pytest.raises(UsageError, match=message) as error:
            ScopeFilter(comm=comm)
        assert error.value.hint


class TestScopeFilter:
    def test_no_filter_generates_no_code(self) -> None:
        assert (ScopeFilter().macros(), dict(ScopeFilter().members)) == ({}, {})

    @pytest.mark.parametrize("group", [CgroupV1(7, 2), CgroupV2(7, 3)])
    def test_both_together(
        self, group: cgroups.Cgroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []
        monkeypatch.setattr(cgroups, "resolve", lambda path: asked.append(path) or group)
        both = ScopeFilter(comm="w", cgroup=str(tmp_path))
        assert both.macros() == {**ScopeFilter(comm="w").macros(), **group.macros}
        assert both.members == group.members
        assert asked == [str(tmp_path)]

    def test_a_wrong_group_is_reported_on_use(self, tmp_path: Path) -> None:
        wrong = ScopeFilter(cgroup=str(tmp_path))
        with pytest.raises(UsageError, match="not on a cgroup file system"):
            wrong.macros()
        with pytest.raises(UsageError, match="not on a cgroup file system"):
            _ = wrong.members
