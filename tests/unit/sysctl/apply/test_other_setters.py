# SPDX-License-Identifier: Apache-2.0
"""What sets a sysctl besides files in sysctl.d: kernel parameters and TuneD's active profile."""

from __future__ import annotations

from sysctl.apply.other_setters import other_setters
from sysctl.host.system import System
from tests.unit.ordinary_user import open_folder, ordinary_user
from tests.unit.sysctl.apply.test_sysctl_files import put, system_with

NAMES = ("vm.dirty_ratio", "vm.dirty_background_ratio")
PROFILE = "/usr/lib/tuned/throughput-performance/tuned.conf"
THROUGHPUT = """# a profile
[main]
summary=Much of it

[sysctl]
vm.dirty_ratio = 40 # of memory
vm.swappiness=10
net.core.somaxconn=>2048
"""


def setters(root, files):
    return [str(each) for each in other_setters(system_with(root, files), NAMES)]


def test_a_host_without_parameters_and_tuned_has_no_other_setters(tmp_path):
    assert other_setters(System(tmp_path), NAMES) == []


def test_a_kernel_parameter_is_named(tmp_path):
    line = "BOOT_IMAGE=/vmlinuz ro sysctl.vm.dirty_ratio=35 sysctl/vm/dirty_background_bytes=4096 "
    assert setters(tmp_path, {"/proc/cmdline": line + "sysctl.vm.swappiness=1 quiet\n"}) == [
        "vm.dirty_ratio = 35 by the kernel parameter sysctl.vm.dirty_ratio",
        "vm.dirty_background_bytes = 4096 by the kernel parameter sysctl/vm/dirty_background_bytes",
    ]


def test_the_active_profile_of_tuned_is_named_with_its_value(tmp_path):
    files = {"/etc/tuned/active_profile": "throughput-performance\n", PROFILE: THROUGHPUT}
    assert setters(tmp_path, files) == [
        f"vm.dirty_ratio = 40 by the TuneD profile throughput-performance ({PROFILE})"
    ]
    (setter,) = other_setters(System(tmp_path), NAMES)
    assert setter.sets("vm.dirty_ratio", 40) and setter.is_late


def test_an_included_profile_counts_and_the_including_one_wins(tmp_path):
    mine = "/etc/tuned/profiles/mine/tuned.conf"
    files = {
        "/etc/tuned/active_profile": "mine",
        PROFILE: THROUGHPUT,
        mine: "[main]\ninclude=throughput-performance\n[vm]\ndirty_background_ratio=3\n",
    }
    assert setters(tmp_path, files) == [
        f"vm.dirty_ratio = 40 by the TuneD profile mine ({PROFILE})",
        f"vm.dirty_background_ratio = 3 by the TuneD profile mine ({mine})",
    ]
    put(
        tmp_path,
        mine,
        "[main]\ninclude=throughput-performance\n[mine]\ntype=sysctl\nvm/dirty_ratio=5",
    )
    assert setters(tmp_path, {}) == [f"vm.dirty_ratio = 5 by the TuneD profile mine ({mine})"]


def test_a_profile_that_includes_its_own_name_means_the_next_folders(tmp_path):
    files = {
        "/etc/tuned/active_profile": "throughput-performance",
        PROFILE: THROUGHPUT,
        PROFILE.replace("/usr/lib", "/etc"): "[main]\ninclude=throughput-performance\n",
    }
    assert setters(tmp_path, files) == [
        f"vm.dirty_ratio = 40 by the TuneD profile throughput-performance ({PROFILE})"
    ]


def test_a_profile_that_sets_no_threshold_is_not_named(tmp_path):
    files = {"/etc/tuned/active_profile": "quiet", "/etc/tuned/quiet/tuned.conf": "[sysctl]\na=1\n"}
    assert setters(tmp_path, files) == []


def test_a_profile_that_cannot_be_parsed_may_set_the_sysctl(tmp_path):
    may = ["the TuneD profile odd may set it, but cannot be read"]
    assert setters(tmp_path, {"/etc/tuned/active_profile": "odd"}) == may
    for text in ("no section", "[main]\ninclude=${f:recommended}\n", "[main]\ninclude=gone\n"):
        assert setters(tmp_path, {"/etc/tuned/odd/tuned.conf": text}) == may
    put(tmp_path, "/etc/tuned/active_profile", "../../x\x1b[2J")
    (said,) = setters(tmp_path, {})
    assert "may set it" in said and "\x1b" not in said


def test_a_profile_that_this_user_may_not_read_may_set_the_sysctl():
    with open_folder() as root:
        files = {"/etc/tuned/active_profile": "throughput-performance", PROFILE: THROUGHPUT}
        system = system_with(root, files)
        (root / PROFILE.lstrip("/")).chmod(0o000)
        with ordinary_user():
            (setter,) = other_setters(system, NAMES)
    assert setter.value is None and "may set it" in str(setter)


def test_a_loop_of_profiles_ends(tmp_path):
    files = {"/etc/tuned/active_profile": "a"}
    for one, other in (("a", "b"), ("b", "a")):
        files[f"/etc/tuned/{one}/tuned.conf"] = (
            f"[main]\ninclude={other}\n[sysctl]\nvm.dirty_ratio={ord(one)}\n"
        )
    assert setters(tmp_path, files) == [
        "vm.dirty_ratio = 97 by the TuneD profile a (/etc/tuned/a/tuned.conf)"
    ]
