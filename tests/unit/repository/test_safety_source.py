# SPDX-License-Identifier: Apache-2.0
"""No shell, no code from data, no predictable name: checked in every line of the source."""

from __future__ import annotations

import pytest

from tests.places import REPOSITORY
from tests.unit.source_rules import findings, modules, programs, writing_opens

#: What is started by a name, on the PATH that `contracts.shared.environment.safe_path` leaves.
PROGRAMS = {
    *("mount", "umount", "losetup", "blkid", "mkfs.xfs", "mkfs.ext4"),
    *("systemd-run", "systemctl", "busctl", "udevadm", "sysctl"),
}
#: Functions that open a path for writing, and why nobody else can create it first.
BY_PATH = {
    "sysctl/host/system.py: write": "/proc and /sys",
    "sysctl/host/lock.py: exclusive_lock": "the state directory, root's own",
    "sysctl/host/lock.py: shared_lock": "the state directory, root's own",
    "sysctl/host/governor_state.py: write_governor_state": "the runtime directory, root's own",
    "sysctl/host/holders.py: enter": "the state directory, root's own",
    "profiler/running/draining.py: close_all_but": "/dev/null",
    "sysctl/host/journal.py: _append": "the state directory, root's own",
    "sysctl/host/host.py: make_sparse_file": "the state directory, root's own; O_EXCL",
    "profiler/lab/lab.py: _build": "the lab's folder, root's own",
    "profiler/lab/follower.py: store": "the lab's folder, root's own",
    "profiler/lab/supervised.py: start": "the lab's folder, root's own",
    "profiler/lab/s3_server.py: __enter__": "a new temporary directory, 0700",
    "profiler/lab/s3_server.py: _write_port_file": "a new temporary directory, 0700",
    "profiler/lab/s3_objects.py: _write_random": "a file system in memory, root's own",
    "profiler/pull/clients/obstore_parts.py: download": "a part file, below a descriptor; O_EXCL",
    "profiler/pull/clients/direct.py: _made": "a part file, below a descriptor; O_EXCL",
    "profiler/pull/clients/mountpoint.py: _copy_file": "a new directory, 0700; O_EXCL",
    "profiler/workloads/serving.py: _write": "a new temporary directory, 0700",
    "profiler/workloads/serving.py: _make_shards": "a new temporary directory, 0700",
    "profiler/fleet/ingest.py: ingest": "a new temporary directory, 0700",
    "profiler/history/file.py: _locked": "the state directory, the user's own",
    "profiler/history/file.py: _replace": "the state directory, the user's own",
    "sysctl/host/root_file.py: _directory_of": "a directory, to read",
    "profiler/bpf/cgroups.py: _open_directory": "a directory, to look at",
    "profiler/report/live.py: open_terminal": "/dev/tty",
    "profiler/cli/main.py: _prepare_streams": "a descriptor",
    "profiler/cli/main.py: _drop_output": "/dev/null",
    "profiler/recording/append_only.py: open_to_append": "a descriptor",
}

BAD = [
    "subprocess.run('ls', shell=True)",
    "subprocess.run(['ls'], shell=maybe)",
    "subprocess.run('ls')",
    "subprocess.Popen(f'mount {target}')",
    "system.run('mount')",
    "os.system('ls')",
    "os.popen('ls')",
    "subprocess.getoutput('ls')",
    "eval(text)",
    "exec(text)",
    "__import__(name)",
    "import pickle",
    "from pickle import loads",
    "yaml.load(text)",
    "yaml.load(text, Loader=yaml.Loader)",
    "yaml.unsafe_load(text)",
    "yaml.full_load(text)",
    "tempfile.mktemp()",
]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_the_source_has_nothing_of_the_kind(path) -> None:
    assert list(findings(path.read_text())) == []


@pytest.mark.parametrize("source", BAD)
def test_each_kind_would_be_found(source: str) -> None:
    assert list(findings(source))


def test_the_programs_that_are_run_are_known() -> None:
    first_words = {word for path in modules() for word in programs(path.read_text())}
    names = {word.strip("'") for word in first_words if word.startswith("'")}
    assert names <= PROGRAMS
    assert {"losetup", "blkid"} <= names
    documented = (REPOSITORY / "docs/explanation/safety.md").read_text()
    assert [name for name in names if f"`{name}`" not in documented] == []
    assert {word for word in first_words if not word.startswith("'")} <= {
        "sys.executable",
        "*_MKFS[fstype]",
        "program_path",  # of a pull client, found on the PATH that `safe_path` leaves
    }


@pytest.mark.parametrize(
    "source",
    [
        "run(['evil', 'x'])",
        "def f():\n    words = ['evil', 'x']\n    system.run(words)",
        "def f():\n    words: list[str] = ['evil']\n    subprocess.run(words)",
        "WORDS = ['evil', 'x']\ndef f():\n    subprocess.Popen(WORDS)",
    ],
)
def test_a_program_would_be_found(source: str) -> None:
    assert "'evil'" in set(programs(source))


def test_whatever_opens_a_path_to_write_is_known() -> None:
    found = {
        f"{path.relative_to(REPOSITORY)}: {function}"
        for path in modules()
        for function in writing_opens(path.read_text())
    }
    assert found - set(BY_PATH) == set()


@pytest.mark.parametrize(
    "call",
    [
        "open(path, 'w')",
        "Path(path).open('a')",
        "path.write_text(text)",
        "os.open(path, os.O_WRONLY)",
        "os.open(path, flags, 0o644)",
    ],
)
def test_an_open_to_write_would_be_found(call: str) -> None:
    assert list(writing_opens(f"def function():\n    {call}")) == ["function"]
