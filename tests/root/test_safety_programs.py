# SPDX-License-Identifier: Apache-2.0
"""Real commands start only known programs, without a shell, as Python's audit hooks show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import DATA, REPOSITORY
from tests.unit.repository.test_safety_source import PROGRAMS

RECORDED = DATA / "results-version-2.json"
#: Runs a command under a hook that records what the interpreter is about to start. The hook's file
#: is already open, and os.posix_spawn starts the profiled command.
HOOKED = """
import json, os, sys
log = open(sys.argv.pop(1), "a", buffering=1)
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile")
def hook(event, arguments):
    if event in STARTS:
        log.write(json.dumps([event, *map(repr, arguments[:2])]) + "\\n")
sys.addaudithook(hook)
from profiler.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def starts_of(tmp_path: Path, *arguments: object) -> list[tuple[str, str, list[str]]]:
    """Run a command, which must succeed; return event, program and arguments of all it started."""
    log = tmp_path / "starts"
    done = subprocess.run(
        [sys.executable, "-c", HOOKED, str(log), *map(str, arguments)],
        cwd=tmp_path,
        env={**os.environ, "WRITEWISE_STATE_DIRECTORY": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (0, 1, 3), done.stderr  # doctor may find something missing
    assert "Traceback" not in done.stderr
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(event, *map(eval, rest)) for event, *rest in lines]


def assert_known(starts: list[tuple[str, str, list[str]]]) -> None:
    for event, program, words in starts:
        assert event in ("subprocess.Popen", "os.posix_spawn")
        assert Path(program).name not in ("sh", "bash", "dash")
        assert isinstance(words, list)
        assert program in PROGRAMS or program == sys.executable, program


@pytest.mark.parametrize(
    "arguments",
    [
        ["contract", "check", REPOSITORY / "contracts/library/case-study.yaml"],
        ["predict", RECORDED, "--memory", "8GiB"],
        ["advise", RECORDED],
        ["rollback"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_only_reads_starts_nothing(tmp_path: Path, arguments: list[object]) -> None:
    assert starts_of(tmp_path, *arguments) == []


def test_the_doctor_starts_our_own_interpreter_alone(tmp_path: Path) -> None:
    starts = starts_of(tmp_path, "doctor")
    assert_known(starts)
    assert {program for _, program, _ in starts} == {sys.executable}
    assert all(words[1] == "-I" for _, _, words in starts)


def test_a_profile_starts_the_compiler_and_the_command(tmp_path: Path) -> None:
    starts = starts_of(tmp_path, "profile", "--", "true", "; touch /tmp/never")
    (_, compiler, words), (event, command, command_words) = starts
    assert (compiler, words[1]) == (sys.executable, "-I")
    assert words[2] == str(REPOSITORY / "profiler" / "bpf" / "compiler.py")
    assert (event, command) == ("os.posix_spawn", "true")
    assert command_words == ["true", "; touch /tmp/never"]
    assert not Path("/tmp/never").exists()


def test_a_volume_is_probed_by_known_programs(tmp_path: Path) -> None:
    """Before a sweep measures, it makes a scratch volume, mounts it, and undoes that."""
    script = f"""
import sys; sys.argv[1:] = []
from pathlib import Path
from sysctl.host.host import Host
from sysctl.host.probe import make_file_system
with Host.exclusive("test", "test") as host:
    folder = Path({str(tmp_path / "state" / "scratch")!r})
    host.make_directory(folder)
    host.make_sparse_file(folder / "image", 320 << 20)
    device = host.attach_loop_device(folder / "image")
    make_file_system(host, "ext4", device)
"""
    log = tmp_path / "starts"
    hook = HOOKED.split("from profiler")[0]
    subprocess.run(
        [sys.executable, "-c", hook + script, str(log)],
        cwd=REPOSITORY,
        env={**os.environ, "WRITEWISE_STATE_DIRECTORY": str(tmp_path / "state")},
        check=True,
        timeout=60,
    )
    starts = [json.loads(line) for line in log.read_text().splitlines()]
    known = [(event, *map(eval, rest)) for event, *rest in starts]
    assert_known(known)
    assert {program for _, program, _ in known} >= {"losetup", "mkfs.ext4"}
    assert not (tmp_path / "state" / "scratch").exists()
