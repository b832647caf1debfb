# SPDX-License-Identifier: Apache-2.0
"""The watch's unit: systemd accepts it, it is hardened, and it has the options."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import PurePosixPath

import pytest

from profiler.cli.main import main
from sysctl.apply.watch_unit import UNIT, watch_unit
from sysctl.host.system import HostError
from tests.unit.sysctl.apply.test_governor_unit import MOUNTING

PROGRAM = ("/usr/bin/writewise",)
DATA = PurePosixPath("/data")
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here"
)


def test_the_unit_runs_the_watch_and_has_no_mount_namespace() -> None:
    text = watch_unit(PROGRAM, ["--level", "calls"], [DATA], is_local=True)
    lines = text.splitlines()
    assert "ExecStart=/usr/bin/writewise watch --level calls -- /data" in lines
    assert {"Type=notify", "WatchdogSec=180", "NoNewPrivileges=yes"} <= set(lines)
    assert "RequiresMountsFor=/sys/kernel/tracing /data" in lines
    assert not any(f"\n{setting}" in text for setting in MOUNTING)


def test_a_path_is_quoted_or_refused() -> None:
    text = watch_unit(PROGRAM, [], [PurePosixPath("/a b")], is_local=True)
    assert '-- "/a b"' in text
    with pytest.raises(HostError, match="characters"):
        watch_unit(PROGRAM, [], [PurePosixPath("/a\nExecStart=/bin/sh")], is_local=True)


def test_packets_leave_the_host_only_if_they_must(capsys) -> None:
    for words, is_local in (
        ([], True),
        (["--listen", "[::1]:80"], True),
        (["--otlp", "http://127.0.0.1:4318"], True),
        (["--listen", "10.0.0.7:9791"], False),
        (["--otlp", "http://collector:4318"], False),
        (["--otlp", "env"], False),
    ):
        assert main(["watch", *words, "--print-unit"]) == 0
        text = capsys.readouterr().out
        assert ("IPAddressDeny=any\nIPAddressAllow=localhost" in text) == is_local
        assert not words or f"{words[0]} " in text


def test_the_command_prints_absolute_paths(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(
        "timeframe: 1s\nrules:\n- {label: a, path: /, calls: write, measure: count, threshold: 1}\n"
    )
    words = ["watch", "data", "--escalate", "10m", "--contract", "c.yaml", "--print-unit"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert f"--escalate 600s --contract {tmp_path}/c.yaml" in text
    assert f" -- {tmp_path}/data\n" in text
    assert f"/etc/systemd/system/{UNIT}" in text


def test_the_unit_requires_the_mount_of_the_volume_itself(capsys, tmp_path) -> None:
    volume, link = tmp_path / "volume", tmp_path / "link"
    volume.mkdir()
    link.symlink_to(volume)
    words = ["watch", str(volume / ".." / "link"), "--escalate", "1500ms", "--print-unit"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert f"RequiresMountsFor=/sys/kernel/tracing {volume}\n" in text
    assert "--escalate 1500ms " in text


@needs_systemd
@pytest.mark.parametrize("is_local", [True, False])
def test_systemd_accepts_it_and_finds_it_hardened(tmp_path, is_local) -> None:
    program = tmp_path / "writewise"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT
    unit.write_text(watch_unit((str(program),), [], [DATA], is_local=is_local))
    done = analyze("verify", "--man=no", unit)
    assert (done.returncode, UNIT in done.stderr) == (0, False), done.stderr
    unit.write_text(watch_unit(("/usr/bin/true",), [], [DATA], is_local=is_local))
    done = analyze("security", "--offline=yes", "--no-pager", unit)
    found = re.search(r"Overall exposure level.*: ([0-9.]+)", done.stdout)
    if found is None:
        pytest.skip(f"this systemd cannot judge a file: {done.stderr}")
    assert float(found[1]) <= 4.0, done.stdout


def analyze(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, check=False
    )
