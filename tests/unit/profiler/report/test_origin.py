# SPDX-License-Identifier: Apache-2.0
"""Where a document was measured: with the names of a sweep's circumstances, on this very host."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from profiler.report import origin
from profiler.report.origin import circumstances_of_pull, origin_here, origin_of_pull
from profiler.study import volume_here
from profiler.study.volume_here import VolumeHere
from sysctl.evidence.circumstances import Credits, KnownVolume
from sysctl.evidence.results import load
from sysctl.host.system import HostError
from tests.places import DATA


def test_the_host_and_what_its_settings_are():
    found = origin_here()
    assert (found["host"], found["kernel"]) == (platform.node(), platform.release())
    assert 0 < found["available_bytes"] < found["memory_bytes"]
    assert {name.partition(".")[0] for name in found["sysctls"]} == {"vm"}
    assert None not in found.values()


def test_a_pull_has_its_destination_too(tmp_path):
    found = origin_of_pull(
        circumstances_of_pull(tmp_path), {"client": "direct", "endpoint_url": None}
    )
    assert (found["destination"], found["client"]) == (str(tmp_path), "direct")
    assert found["fstype"] and found["mount_options"] and "endpoint_url" not in found


def test_the_names_are_those_of_a_sweep(tmp_path, monkeypatch):
    volume = VolumeHere(KnownVolume("st1", 500), "vol-1", "m5.large", Credits(70.0, "the lab"))
    monkeypatch.setattr(volume_here, "volume_seen", lambda *_: volume)
    pull = dict.fromkeys(("source", "endpoint_url", "client", "transfer", "contract"), "x")
    found = origin_of_pull(circumstances_of_pull(tmp_path), pull)
    assert (found["volume_type"], found["volume_id"], found["instance"]) == (
        *("st1", "vol-1", "m5.large"),
    )
    assert (found["volume_gib"], found["credits_percent"]) == (500, 70.0)
    swept = load(DATA / "results-st1-in-a-lab.json").circumstances.flat()
    assert set(swept) - set(found) <= {"knobs", "workers"}


@pytest.mark.parametrize("place", ["missing", "missing/below"])
def test_a_destination_that_is_missing_is_reported_later(tmp_path, place):
    assert origin_of_pull(circumstances_of_pull(tmp_path / place), {})["host"]


def test_what_cannot_be_found_out_is_left_out(tmp_path, monkeypatch):
    def refuse(*_):
        raise HostError("the lab cannot be read")

    monkeypatch.setattr(origin, "mount_of", refuse)
    found = origin_of_pull(circumstances_of_pull(Path(tmp_path)), {"client": "direct"})
    assert "fstype" not in found and found["client"] == "direct"
