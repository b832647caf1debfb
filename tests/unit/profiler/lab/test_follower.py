# SPDX-License-Identifier: Apache-2.0
"""The process that follows the credits, step by step on a host of files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.lab import follower, places
from profiler.lab.cap import Cap, plan_cap
from profiler.lab.emulated import Emulated
from profiler.lab.follower import CreditsNow, Follower, Task, read_now, read_task
from sysctl.host.system import HostError
from sysctl.volume.limits import MIB
from sysctl.volume.volume_types import EbsVolume
from tests.unit.lab_hosts import V1, V2, make

ST1 = Emulated(EbsVolume("st1", 256), time_scale=870)
BURST, BASELINE = round(62.5 * MIB), 10 * MIB


class Run:
    """A lab's cap on a host of files, and a follower with a clock."""

    def __init__(self, folder: Path, mounts: str, emulated: Emulated = ST1) -> None:
        self.system, self.host = make(folder, mounts)
        for kind in ("write_bps", "read_bps", "write_iops", "read_iops"):
            if mounts == V1:
                self.system.put(f"/cg/blkio/blkio.throttle.{kind}_device", "")
        self.device(0)
        limits, *others = emulated.all_limits()
        self.cap: Cap = plan_cap(self.host, "7:3", limits, others)
        for path, _, _ in self.cap.lines:
            self.system.put(path, "")
        self.cap.put(self.host)
        self.time_s, self.seen = 100.0, list[CreditsNow]()
        self.follower = Follower(
            Task(emulated, self.cap, "loop3"), self.host, lambda: self.time_s, self.seen.append
        )

    def device(self, moved_mib: float) -> None:
        sectors = round(moved_mib * MIB) // 512
        self.system.put("/sys/block/loop3/stat", f"5 0 0 0 {sectors // 512} 0 {sectors} 0 0 0 0")

    def step(self, time_s: float, moved_mib: float) -> None:
        self.time_s += time_s
        self.device(moved_mib)
        self.follower.step()

    def lines(self) -> list[str]:
        return [self.system.read(path) for path, _, _ in self.cap.lines]


@pytest.mark.parametrize("mounts", [V1, V2])
def test_the_cap_changes_when_the_bucket_is_empty_and_when_it_has_refilled(
    tmp_path: Path, mounts: str
) -> None:
    run = Run(tmp_path, mounts)
    assert all(str(BURST) in line for line in run.lines())
    for step in range(1, 8):
        run.step(1, 62.5 * step)
        present = str(BURST if step < 6 else BASELINE)
        assert all(present in line for line in run.lines()), step
    run.step(2, 62.5 * 7)
    assert all(str(BURST) in line for line in run.lines())
    assert [now.changes for now in run.seen] == [0, 0, 0, 0, 0, 0, 1, 1, 2]
    assert [now.limited_by for now in run.seen[-3:]] == ["volume credits"] * 2 + ["volume"]
    assert run.seen[-1].buckets[0].level == pytest.approx(20 * MIB)


def test_on_version_1_an_hdd_volume_has_no_limit_of_ios(tmp_path: Path) -> None:
    run = Run(tmp_path, V1)
    assert [Path(path).name for path, _, _ in run.cap.lines] == [
        "blkio.throttle.write_bps_device",
        "blkio.throttle.read_bps_device",
    ]
    assert "riops=max wiops=max" in Run(tmp_path / "2", V2).lines()[0]


def test_an_ssd_volume_without_credits_falls_to_its_baseline_of_ios_too(tmp_path: Path) -> None:
    run = Run(tmp_path, V2, Emulated(EbsVolume("gp2", 100), time_scale=1800))
    assert run.lines() == [
        f"7:3 rbps={128 * MIB} wbps={128 * MIB} riops=3000 wiops=3000",
    ]
    run.step(20, 128 * 20)
    assert run.lines() == [f"7:3 rbps={75 * MIB} wbps={75 * MIB} riops=300 wiops=300"]
    assert run.seen[-1].buckets[0].unit == "I/Os"


@pytest.mark.parametrize("mounts", [V1, V2])
def test_a_restore_clears_the_cap_in_each_state(tmp_path: Path, mounts: str) -> None:
    run = Run(tmp_path, mounts)
    run.step(10, 625)
    assert all(str(BASELINE) in line for line in run.lines())
    assert all("no cap on device 7:3" in text for text in run.host.pending()[: len(run.cap.lines)])
    if run.cap.group:
        run.system.path(f"{run.cap.group}/io.max").unlink()
        run.system.path(run.cap.group).rmdir()
    run.host.restore()
    if mounts == V1:
        assert run.lines() == ["", ""]
    assert run.host.pending() == []


def test_a_cap_that_is_lifted_or_lost_is_not_set_again(tmp_path: Path) -> None:
    run = Run(tmp_path, V1)
    for path, _, clearing in run.cap.lines:
        run.system.write(path, clearing)
    run.step(1, 30_000)
    assert run.lines() == ["", ""]
    assert run.seen[-1].buckets[0].level == pytest.approx(ST1.levels()[0] - 52.5 * MIB)
    for path, setting, _ in run.cap.lines:  # as after the deletion of a trial's files
        run.system.put(path, setting)
    run.step(10, 31_000)
    assert all(str(BASELINE) in line for line in run.lines())


def test_a_mixed_cap_is_made_whole(tmp_path: Path) -> None:
    run = Run(tmp_path, V1)
    run.system.put(run.cap.lines[1][0], f"7:3 {BASELINE}")
    assert run.cap.lost(run.system) is None
    run.step(0.1, 0)
    assert run.lines() == [f"7:3 {BURST}"] * 2


def test_a_lift_and_its_end_keep_the_present_line(tmp_path: Path) -> None:
    run = Run(tmp_path, V1)
    run.step(10, 625)
    run.system.put("/sys/dev/block/7:3/loop/backing_file", "/image")
    with run.host.temporary():
        run.cap.lift(run.host, Path("/image"))
        assert run.lines() == ["", ""]
    assert run.lines() == [f"7:3 {BASELINE}"] * 2


def test_only_a_journaled_line_can_be_set(tmp_path: Path) -> None:
    run = Run(tmp_path, V1)
    with pytest.raises(HostError, match="the journal has no cap '7:3 5'"):
        run.host.change_cap(run.cap.lines[0][0], "7:3 5")


def test_the_task_is_read_as_it_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path))
    places.folder().mkdir()
    task = Task(replace(ST1, instance_type="m5.large"), Run(tmp_path / "run", V1).cap, "loop3")
    task.store()
    assert read_task() == task


def test_what_is_stored_is_read_and_what_is_damaged_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path))
    assert read_now() is None
    places.credits_folder().mkdir(parents=True)
    (now,) = Run(tmp_path / "run", V1).seen
    follower.write_now(now)
    assert read_now() == now
    for damaged in ("", "[]", "{}", json.dumps({"buckets": [{}]})):
        places.credits_file().write_text(damaged)
        assert read_now() is None


def test_without_a_task_it_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    assert follower.main() == 1
    assert capsys.readouterr().err.startswith("the lab's folder cannot be used: ")


def test_a_device_that_is_gone_ends_it(tmp_path: Path) -> None:
    run = Run(tmp_path, V1)
    run.system.path("/sys/block/loop3/stat").unlink()
    with pytest.raises(HostError, match="cannot read /sys/block/loop3/stat"):
        run.follower.step()
