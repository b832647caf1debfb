# SPDX-License-Identifier: Apache-2.0
"""The governor's unit: systemd accepts it, it has the options, and it needs no mount namespace."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import PurePosixPath

import pytest

from profiler.cli.main import main
from sysctl.apply.governor_unit import UNIT, governor_unit
from sysctl.host.system import HostError

PROGRAM = ("/usr/bin/writewise",)
DATA = PurePosixPath("/data")
#: Settings of systemd.exec(5) that give the service a mount namespace of its own.
MOUNTING = ("ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "ReadOnlyPaths")


def test_the_unit_runs_the_governor_and_the_recovery_after_any_end() -> None:
    lines = governor_unit(PROGRAM, ["--max-raise", "600s"], [DATA]).splitlines()
    assert "ExecStart=/usr/bin/writewise govern --max-raise 600s -- /data" in lines
    assert "ExecStopPost=/usr/bin/writewise rollback --interrupted" in lines
    assert "Type=notify" in lines
    assert "RequiresMountsFor=/data" in lines
    assert "After=systemd-sysctl.service tuned.service saptune.service" in lines


def test_the_unit_of_a_dry_run_changes_nothing_at_its_end() -> None:
    text = governor_unit(PROGRAM, ["--dry-run"], [DATA])
    assert "ExecStart=/usr/bin/writewise govern --dry-run -- /data\n" in text
    assert "rollback" not in text


def test_the_unit_has_no_mount_namespace() -> None:
    text = governor_unit(PROGRAM, [], [DATA])
    assert not any(f"\n{setting}" in text for setting in MOUNTING)


def test_a_path_is_quoted_or_refused() -> None:
    text = governor_unit(PROGRAM, [], [PurePosixPath("/a b"), PurePosixPath("/50%")])
    assert '-- "/a b" "/50%%"' in text
    for path in ("/a\nExecStart=/bin/sh", '/a"b', "/$HOME"):
        with pytest.raises(HostError, match="characters"):
            governor_unit(PROGRAM, [], [PurePosixPath(path)])


def test_the_command_prints_it_with_the_same_options(capsys) -> None:
    words = ["govern", "/data", "--max-at-risk", "2GiB", "--max-raise", "5m", "--print-unit"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "govern --max-raise 300s --max-at-risk 2GiB -- /data" in text
    assert f"/etc/systemd/system/{UNIT}" in text


def test_the_unit_admits_the_same_writers(capsys) -> None:
    words = ["govern", "--admit", "cgroup=/system.slice/a b", "/data", "--admit", "comm=s5cmd"]
    assert main([*words, "--print-unit"]) == 0
    text = capsys.readouterr().out
    admitted = '--admit "cgroup=/system.slice/a b" --admit comm=s5cmd -- /data'
    assert f"govern --max-raise 600s {admitted}\n" in text
    assert "CapabilityBoundingSet=CAP_SYS_ADMIN CAP_DAC_READ_SEARCH CAP_SYS_PTRACE\n" in text


@pytest.mark.parametrize("duration", ["1500ms", "90s"])
def test_the_unit_keeps_the_duration(capsys, duration) -> None:
    assert main(["govern", "/data", "--max-raise", duration, "--print-unit"]) == 0
    assert f"--max-raise {duration} -- /data\n" in capsys.readouterr().out


def test_the_unit_requires_the_mount_of_the_volume_itself(capsys, tmp_path) -> None:
    volume, link = tmp_path / "volume", tmp_path / "link"
    volume.mkdir()
    link.symlink_to(volume)
    assert main(["govern", str(volume / ".." / "link"), "--print-unit"]) == 0
    assert f"RequiresMountsFor={volume}\n" in capsys.readouterr().out


def test_a_word_that_a_unit_cannot_contain_is_named(capsys) -> None:
    assert main(["govern", "/data", "--admit", 'comm=a"b', "--print-unit"]) == 1
    error = capsys.readouterr().err
    assert 'comm=a"b' in error
    assert "--install-recovery" not in error


def test_what_admits_nobody_is_refused_with_a_remedy(capsys) -> None:
    assert main(["govern", "/data", "--admit", "s5cmd", "--print-unit"]) == 2
    assert "use cgroup=/PATH or comm=NAME" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_it(tmp_path) -> None:
    program = tmp_path / "writewise"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT
    unit.write_text(governor_unit((str(program),), [], [DATA]))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert UNIT not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    unit.write_text(unit.read_text().replace("Type=notify", "Type=notified"))
    broken = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert UNIT in broken.stderr
