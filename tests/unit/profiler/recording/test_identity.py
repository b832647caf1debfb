# SPDX-License-Identifier: Apache-2.0
"""The user that a command runs as, and the parts of our environment that it gets."""

from __future__ import annotations

import os
import pwd

import pytest

from contracts.shared.errors import UsageError
from profiler.recording.identity import chosen

USER = pwd.struct_passwd(("worker", "x", 4242, 100, "", "/home/worker", "/bin/sh"))
SECRETS = {"AWS_SECRET_ACCESS_KEY": "marker", "DATABASE_URL": "marker", "LANG": "C"}


@pytest.fixture(autouse=True)
def _as_root_on_a_host_with_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(os, "getgrouplist", lambda _name, gid: [gid, 200])
    monkeypatch.setattr(pwd, "getpwnam", {"worker": USER}.__getitem__)
    monkeypatch.setattr(pwd, "getpwuid", {4242: USER, 3: USER}.__getitem__)


def test_another_user_gets_no_credentials_of_ours() -> None:
    other = chosen("worker", {})
    assert other is not None and other.is_other
    given = other.environment({**SECRETS, "HOME": "/root"})
    assert "marker" not in given.values()
    assert (given["LANG"], given["HOME"], given["USER"]) == ("C", "/home/worker", "worker")


@pytest.mark.parametrize("name", ["worker", None])
def test_the_sudo_caller_keeps_the_environment(name: str | None) -> None:
    caller = chosen(name, {"SUDO_UID": "4242", "SUDO_GID": "100"})
    assert caller is not None and not caller.is_other
    assert caller.environment(SECRETS)["AWS_SECRET_ACCESS_KEY"] == "marker"


def test_sudos_group_is_the_commands_group() -> None:
    caller = chosen(None, {"SUDO_UID": "4242", "SUDO_GID": "200"})
    assert caller is not None and (caller.gid, caller.groups) == (200, (100, 200))


@pytest.mark.parametrize(
    ("uid", "gid"),
    [
        ("٣", "100"),
        ("4242", "١٠٠"),
        ("4242", ""),
        ("", "100"),
        ("7", "100"),
        ("-1", "1"),
        ("1e9", "1"),
    ],
)
def test_an_unknown_user_is_refused(uid: str, gid: str) -> None:
    with pytest.raises(UsageError, match="do not name a user of this host"):
        chosen(None, {"SUDO_UID": uid, "SUDO_GID": gid})


def test_a_group_that_the_user_is_not_in_is_refused() -> None:
    with pytest.raises(UsageError, match=r"worker \(uid 4242\) is not in the group of SUDO_GID=0"):
        chosen(None, {"SUDO_UID": "4242", "SUDO_GID": "0"})
