# SPDX-License-Identifier: Apache-2.0
"""Requests for the log page of EBS volumes to a real NVMe controller that is not Amazon's.

It has the EBS model and Amazon's vendor number only where files are mounted over those of sysfs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from profiler.ec2.log_page import LogPageError, has_log_page, open_disk, read_page
from profiler.recording.privileges import BPF, DAC_READ_SEARCH, KILL, SYS_ADMIN, keep_only
from tests.guests.inside.volumes import NVME, NVME_SERIAL, TIMEOUT_S, formatted, run
from tests.root.labs import guarded, writewise

DISK = Path(NVME).name
#: A log page that every NVMe controller has (NVM Express Base Specification, SMART / Health).
SMART, SMART_BYTES = 0x02, 512
_ROOM_KELVIN = range(250, 400)
WRITES = 50
_IN_OPEN, _EVENT_BYTES = 0x20, 16


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    with guarded(tmp_path), formatted(NVME, tmp_path / "volume", "ext4") as mounted:
        yield mounted


@pytest.fixture
def disk() -> Iterator[int]:
    descriptor = open_disk(DISK)
    yield descriptor
    os.close(descriptor)


@contextlib.contextmanager
def named_ebs(folder: Path) -> Iterator[None]:
    """Mount other files over the model and the vendor number of the controller in sysfs."""
    device = Path(f"/sys/block/{DISK}/device")
    texts = {device / "model": "Amazon Elastic Block Store", device / "device/vendor": "0x1d0f"}
    with contextlib.ExitStack() as stack:
        for path, text in texts.items():
            other = folder / path.name
            other.write_text(f"{text}\n")
            run("mount", "--bind", other, path.resolve())
            stack.callback(run, "umount", path.resolve())
        yield


def written(target: Path) -> subprocess.CompletedProcess[str]:
    load = ("dd", "if=/dev/zero", f"of={target}/file", "bs=64k", f"count={WRITES}")
    return writewise("profile", "--json", "--", *load, timeout=TIMEOUT_S)


@contextlib.contextmanager
def opens_of(path: Path) -> Iterator[Callable[[], int]]:
    """Yield what returns how often a file was opened since the last call (inotify(7))."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(descriptor, bytes(path), _IN_OPEN) >= 0

    def opens() -> int:
        try:
            return len(os.read(descriptor, 4096)) // _EVENT_BYTES  # a file's events have no name
        except BlockingIOError:
            return 0

    yield opens
    os.close(descriptor)


def temperature_kelvin(page: bytes) -> int:
    (kelvin,) = struct.unpack_from("<H", page, 1)
    return int(kelvin)


def test_the_command_returns_the_log_page_that_was_asked_for(disk: int) -> None:
    page = read_page(disk, SMART, SMART_BYTES)
    assert len(page) == SMART_BYTES
    assert temperature_kelvin(page) in _ROOM_KELVIN


def test_a_page_that_the_controller_does_not_have_is_refused(disk: int) -> None:
    with pytest.raises(LogPageError, match="refused the log page \\(NVMe status 0x"):
        read_page(disk)


def _read_in_a_child(disk: int, kept: set[int]) -> NoReturn:
    """Exit with 0, the number of the refusal's error, or 1 for any other error."""
    code = 1
    try:
        keep_only(kept)
        read_page(disk, SMART, SMART_BYTES)
        code = 0
    except PermissionError as error:
        code = error.errno or 1
    finally:
        os._exit(code)


@pytest.mark.parametrize(
    ("kept", "is_allowed"),
    [({SYS_ADMIN}, True), ({KILL, DAC_READ_SEARCH, BPF}, False)],
    ids=["with SYS_ADMIN", "without"],
)
def test_each_reading_needs_sys_admin(disk: int, kept: set[int], is_allowed: bool) -> None:
    """The capability is also needed if the disk was opened with it."""
    child = os.fork()
    if not child:
        _read_in_a_child(disk, kept)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if is_allowed else errno.EACCES)


def test_a_disk_that_is_not_ebs_is_not_opened(target: Path) -> None:
    """Its serial number is one of EBS."""
    assert Path(f"/sys/block/{DISK}/device/serial").read_text().strip() == NVME_SERIAL
    assert not has_log_page(DISK)
    with opens_of(Path(NVME)) as opens:
        done = written(target)
        assert done.returncode == 0, done.stderr
        assert opens() == 0
        os.close(open_disk(DISK))
        assert opens() == 1
    document = json.loads(done.stdout)
    assert document["ebs_volumes"] == document["timeline"]["ebs_volumes"] == []
    assert "EBS" not in str(document["why"])


def test_a_refused_page_is_one_sentence_and_the_profile_goes_on(
    target: Path, tmp_path: Path
) -> None:
    with named_ebs(tmp_path):
        assert has_log_page(DISK)
        done = written(target)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["findings"][1]["value"] >= WRITES
    [line] = [line for line in document["why"]["figures"] if "EBS" in line]
    assert line.startswith(
        f"{DISK} (vol-{NVME_SERIAL[3:]}): the time over the limits of EBS is unknown: the disk "
        "refused the log page (NVMe status 0x"
    )
    assert document["ebs_volumes"][0]["volume_throughput_over_ns"] is None
