# SPDX-License-Identifier: Apache-2.0
"""Which files set a sysctl and which of them wins, by sysctl.d(5) and by systemd itself."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysctl.apply import sysctl_files
from sysctl.apply.sysctl_files import (
    assignments,
    contradicting,
    files_in_order,
    is_number,
    rivals,
    unreadable,
)
from sysctl.host.system import System
from tests.unit.ordinary_user import open_folder, ordinary_user

NAMES = ("vm.dirty_ratio", "vm.dirty_background_ratio")


def put(root, path, text):
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def system_with(tmp_path, files):
    """A host of files, by path."""
    for path, text in files.items():
        put(tmp_path, path, text)
    return System(tmp_path)


FOLDERS = {
    "/etc/sysctl.d/50-b.conf": "vm.dirty_ratio = 1\n",
    "/run/sysctl.d/10-a.conf": "vm.dirty_ratio = 2\n",
    "/usr/local/lib/sysctl.d/60-c.conf": "vm.dirty_ratio = 3\n",
    "/usr/lib/sysctl.d/50-b.conf": "vm.dirty_ratio = 4\n",
    "/usr/lib/sysctl.d/70-d.conf": "vm.dirty_ratio = 5\n",
    "/etc/sysctl.d/README": "vm.dirty_ratio = 6\n",
    "/etc/sysctl.conf": "vm.dirty_ratio = 7\n",
}


def test_files_are_sorted_by_name_and_the_first_directory_masks(tmp_path):
    system = system_with(tmp_path, FOLDERS)
    assert files_in_order(system) == [
        "/run/sysctl.d/10-a.conf",
        "/etc/sysctl.d/50-b.conf",
        "/usr/local/lib/sysctl.d/60-c.conf",
        "/usr/lib/sysctl.d/70-d.conf",
        "/etc/sysctl.conf",
    ]
    values = [each.value for each in assignments(system, NAMES)]
    assert values == ["2", "1", "3", "5", "7"]


def test_a_link_to_dev_null_masks(tmp_path):
    system = system_with(tmp_path, FOLDERS)
    (tmp_path / "etc/sysctl.d/70-d.conf").symlink_to("/dev/null")
    assert "/usr/lib/sysctl.d/70-d.conf" not in files_in_order(system)
    assert "/etc/sysctl.d/70-d.conf" not in files_in_order(system)


def test_sysctl_conf_and_the_link_to_it_are_one_file(tmp_path):
    system = system_with(tmp_path, FOLDERS)
    (tmp_path / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    assert files_in_order(system).count("/etc/sysctl.conf") == 1
    assert "/etc/sysctl.d/99-sysctl.conf" not in files_in_order(system)


def test_the_order_matches_systemds(tmp_path):
    """`cat-config` names each file that it reads in a comment above it."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    system = system_with(tmp_path, {k: v for k, v in FOLDERS.items() if k != "/etc/sysctl.conf"})
    (tmp_path / "etc/sysctl.d/60-c.conf").symlink_to("/dev/null")
    put(tmp_path, "/etc/sysctl.d/9-z.conf", "vm.dirty_ratio = 8\n")
    done = subprocess.run(
        ["systemd-analyze", f"--root={tmp_path}", "cat-config", "sysctl.d"],
        capture_output=True,
        text=True,
        check=True,
    )
    named = [line[2:] for line in done.stdout.splitlines() if line.startswith("# /")]
    ours = [str(tmp_path) + path for path in files_in_order(system)]
    assert [path for path in named if (tmp_path / path).stat().st_size] == ours


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("vm.dirty_ratio=40", ["40"]),
        ("  vm.dirty_ratio  =  40  ", ["40"]),
        ("vm/dirty_ratio = 40", ["40"]),
        ("-vm.dirty_ratio = 40", ["40"]),
        ("# vm.dirty_ratio = 40", []),
        ("; vm.dirty_ratio = 40", []),
        ("vm.dirty_ratio", []),
        ("-vm.dirty_ratio", []),
        ("= 40", []),
        ("vm.dirty_* = 40", ["40"]),
        ("vm/dirty_* = 40", ["40"]),
        ("vm.dirty_* = 40\n-vm.dirty_ratio", []),
        ("vm.dirty_ratio = 1\nvm.dirty_* = 40", ["1"]),
        ("net.ipv4.conf.all = 1", []),
    ],
)
def test_a_line_is_read_as_systemd_reads_it(tmp_path, line, found):
    system = system_with(tmp_path, {"/etc/sysctl.d/a.conf": line + "\n"})
    assert [each.value for each in assignments(system, ["vm.dirty_ratio"])] == found


def test_a_name_that_contains_dots_is_kept_apart():
    assert sysctl_files.normalized("net/ipv4/conf/eth0.1/x") == "net.ipv4.conf.eth0/1.x"
    assert sysctl_files.normalized("net.ipv4.conf.eth0/1.x") == "net.ipv4.conf.eth0/1.x"


def test_the_counterpart_of_a_sysctl_contradicts_too(tmp_path):
    files = {"/etc/sysctl.d/99-x.conf": "vm.dirty_bytes = 0\nvm.dirty_bytes = 1073741824\n"}
    system = system_with(tmp_path, files)
    assert [str(each) for each in contradicting(system, "vm.dirty_ratio", 40)] == [
        "vm.dirty_bytes = 1073741824 in /etc/sysctl.d/99-x.conf, line 2"
    ]
    assert contradicting(system, "vm.dirty_expire_centisecs", 500) == []


def test_the_same_value_does_not_contradict(tmp_path):
    system = system_with(tmp_path, {"/etc/sysctl.d/99-x.conf": "vm.dirty_ratio = 40\n"})
    assert contradicting(system, "vm.dirty_ratio", 40) == []
    assert len(rivals(system, ["vm.dirty_ratio"])) == 1


def test_escapes_in_a_file_do_not_reach_the_terminal(tmp_path):
    system = system_with(tmp_path, {"/etc/sysctl.d/99-x.conf": "vm.dirty_ratio = \x1b[2J\n"})
    assert "\x1b" not in str(assignments(system, ["vm.dirty_ratio"])[0])


@given(st.text(alphabet="-=.*/[]#; \nvm_dirty", max_size=60))
def test_any_text_is_read_as_whole_assignments(tmp_path_factory, text):
    system = system_with(tmp_path_factory.mktemp("any"), {"/etc/sysctl.d/a.conf": text})
    for found in assignments(system, NAMES):
        assert found.name in NAMES and found.line <= text.count("\n") + 1
        assert "\n" not in found.value


def test_a_file_that_is_not_text_is_read_anyway(tmp_path):
    system = System(tmp_path)
    put(tmp_path, "/etc/sysctl.d/a.conf", "")
    (tmp_path / "etc/sysctl.d/a.conf").write_bytes(b"\xff\x00\nvm.dirty_ratio = 40\n")
    (tmp_path / "etc/sysctl.d/b.conf").mkdir()
    assert [each.line for each in assignments(system, ["vm.dirty_ratio"])] == [2]


def test_a_file_that_this_user_may_not_read_is_named():
    with open_folder() as root:
        system = system_with(root, {"/etc/sysctl.d/99-z.conf": "vm.dirty_ratio = 33\n"})
        (root / "etc/sysctl.d/99-z.conf").chmod(0o000)
        with ordinary_user():
            assert assignments(system, NAMES) == []
            assert unreadable(system) == ["/etc/sysctl.d/99-z.conf (Permission denied)"]


def test_a_link_into_an_unreadable_folder_is_named_and_stops_nothing():
    files = {"/etc/sysctl.d/10-a.conf": "vm.dirty_ratio = 33\n", "/root/x": ""}
    with open_folder() as root:
        system = system_with(root, files)
        for link in ("etc/sysctl.d/97-l.conf", "etc/sysctl.conf"):
            (root / link).symlink_to(root / "root/nope.conf")
        (root / "root").chmod(0o000)
        with ordinary_user():
            assert [each.value for each in assignments(system, NAMES)] == ["33"]
            assert unreadable(system) == [
                "/etc/sysctl.d/97-l.conf (Permission denied)",
                "/etc/sysctl.conf (Permission denied)",
            ]


def test_a_folder_that_this_user_may_not_list_is_named():
    with open_folder() as root:
        system = system_with(root, {"/run/sysctl.d/99-z.conf": "vm.dirty_ratio = 33\n"})
        (root / "run/sysctl.d").chmod(0o111)
        with ordinary_user():
            assert unreadable(system) == ["/run/sysctl.d (Permission denied)"]


def test_a_missing_file_is_not_reported_as_unreadable(tmp_path):
    system = system_with(tmp_path, {"/etc/sysctl.d/10-a.conf": "vm.dirty_ratio = 33\n"})
    (tmp_path / "etc/sysctl.d/97-l.conf").symlink_to("nowhere")
    (tmp_path / "etc/sysctl.d/98-l.conf").mkdir()
    assert unreadable(system) == []
    assert files_in_order(system) == ["/etc/sysctl.d/10-a.conf"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("61", 61),
        ("0x3d", 61),
        ("0X3D", 61),
        ("075", 61),
        ("010", 8),
        ("0", 0),
        ("00", 0),
        (" 5 ", 5),
    ],
)
def test_a_number_is_read_as_the_kernel_reads_it(text, value):
    assert is_number(text, value) and not is_number(text, value + 1)


@pytest.mark.parametrize("text", ["08", "0b101", "0o5", "5_0", "+5", "５", "", "0x", "9" * 5000])
def test_a_text_that_the_kernel_refuses_as_a_number_gives_none(text):
    assert not any(is_number(text, value) for value in (0, 5, 8, 50))


def test_the_same_number_in_hexadecimal_does_not_contradict(tmp_path):
    lines = "vm.dirty_ratio = 0x3d\nvm.dirty_ratio = 010\nvm.dirty_bytes = 0x0\n"
    system = system_with(tmp_path, {"/etc/sysctl.d/99-x.conf": lines})
    assert [each.line for each in contradicting(system, "vm.dirty_ratio", 61)] == [2]
    assert [each.line for each in contradicting(system, "vm.dirty_ratio", 8)] == [1]
