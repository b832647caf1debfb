# SPDX-License-Identifier: Apache-2.0
"""An NVMe disk with the serial number of an EBS volume: counted, swept, and its knobs changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.lab import lab
from sysctl.change.recommendation_file import parse_recommendation
from sysctl.evidence.results import load
from sysctl.host.devices import disk_of, kept_values
from sysctl.host.mount_table import mount_at
from sysctl.render import udev
from tests.guests.inside.volumes import (
    NVME,
    NVME_SERIAL,
    TIMEOUT_S,
    formatted,
    recommended_knobs,
    run,
    sweep,
)
from tests.root.labs import SMALL, SYSTEM, assert_as, guarded, host_state, lab_elsewhere, writewise


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    with lab_elsewhere(tmp_path_factory.mktemp("lab"), SMALL) as made:
        yield made


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    with guarded(tmp_path), formatted(NVME, tmp_path / "volume") as mounted:
        yield mounted


def disk(target: Path):
    return disk_of(SYSTEM, mount_at(SYSTEM.mounts(), str(target)))


def test_its_requests_are_counted(target: Path) -> None:
    requests, size = 50, 4096
    load_of = ("dd", "if=/dev/zero", f"of={target}/file", f"bs={size}", f"count={requests}")
    done = writewise("profile", "--json", "--", *load_of, "oflag=direct", timeout=TIMEOUT_S)
    document = json.loads(done.stdout)
    assert document["findings"][1]["value"] >= requests
    [figure] = [line for line in document["why"]["figures"] if line.startswith("nvme0n1: ")]
    assert f"wrote {requests * size // 1024} KiB in {requests} requests" in figure


def test_a_sweep_with_knobs_of_the_disk_leaves_it_as_it_was(
    target: Path, source: lab.Lab, tmp_path: Path
) -> None:
    before, knobs, output = host_state(), kept_values(SYSTEM, disk(target)), tmp_path / "results"
    choices = ("--dirty-ratio", "30", "--queue-scheduler", "none,mq-deadline", "--budget", 12)
    done = sweep(source, target, output, *choices)
    assert done.returncode == 0, done.stderr
    assert_as(before)
    assert kept_values(SYSTEM, disk(target)) == knobs
    tried = {knob for trial in load(output).trials for knob in trial.setting.device}
    assert ("queue/scheduler", "mq-deadline") in tried


def test_advised_knobs_are_applied_verified_and_rolled_back(target: Path, tmp_path: Path) -> None:
    knobs = {"queue/read_ahead_kb": "256", "queue/scheduler": "mq-deadline"}
    present = kept_values(SYSTEM, disk(target))
    file = recommended_knobs(target, knobs, present, tmp_path)
    done = writewise("apply", file, "--yes", timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    now = kept_values(SYSTEM, disk(target))
    assert {name: now[name] for name in knobs} == knobs
    assert writewise("verify", file, timeout=TIMEOUT_S).returncode == 0
    assert writewise("rollback", timeout=TIMEOUT_S).returncode == 0
    assert kept_values(SYSTEM, disk(target)) == present


def test_the_udev_rule_sets_the_knobs_of_this_volume_alone(target: Path, tmp_path: Path) -> None:
    """With the real udev: the rule is for the volume's serial number and ignores other volumes."""
    knobs = {"queue/read_ahead_kb": "256"}
    present = kept_values(SYSTEM, disk(target))
    rule = Path("/etc/udev/rules.d/90-writewise-test.rules")
    file = recommended_knobs(target, knobs, present, tmp_path)
    [snippet] = udev.render(parse_recommendation(file.read_text(), file.name))
    try:
        for serial, value in (("vol0fedcba9876543210", "128"), (NVME_SERIAL, "256")):
            rule.write_text(snippet.text.replace(NVME_SERIAL, serial))
            run("udevadm", "control", "--reload")
            run("udevadm", "trigger", "--settle", "--action=change", NVME)
            assert Path("/sys/block/nvme0n1/queue/read_ahead_kb").read_text().strip() == value
    finally:
        rule.unlink()
        run("udevadm", "control", "--reload")
        Path("/sys/block/nvme0n1/queue/read_ahead_kb").write_text("128")
