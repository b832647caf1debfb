# SPDX-License-Identifier: Apache-2.0
"""`writewise lab` without a host: what the options ask for, and what is printed of the credits."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from profiler import requirements
from profiler.cli.main import main
from profiler.lab import lab
from profiler.lab.cap import Cap
from profiler.lab.emulated import Emulated
from profiler.lab.follower import BucketNow, CreditsNow
from sysctl.volume.volume_types import EbsVolume

ST1 = Emulated(EbsVolume("st1", 500), time_scale=60)
NOW = CreditsNow(
    buckets=(
        BucketNow("instance", 9e5, 1e6, "I/Os"),
        BucketNow("volume", 2**30, 4 * 2**30, "bytes"),
    ),
    rate_bytes_per_s=64 * 2**20,
    iops=None,
    limited_by="volume",
    changes=3,
    looked_s=12.5,
)
MADE = lab.Lab(
    endpoint_url="http://127.0.0.1:1",
    source="s3://lab/images",
    destination="/lab/volume",
    device="/dev/loop1",
    available_bytes=4 << 30,
    cap=Cap(()),
    spec=lab.LabSpec(),
    server=(1, 1),
)


@pytest.fixture
def asked(monkeypatch):
    """The specs of labs that were asked for; none is made."""
    specs = []

    def up(spec, **_):
        specs.append(spec)
        return replace(MADE, spec=spec)

    monkeypatch.setattr(requirements, "require", lambda *_: None)
    monkeypatch.setattr(lab, "up", up)
    return specs


def emulated(asked, text):
    assert main(["lab", "up", *shlex.split(text)]) == 0
    return asked[-1].emulated


def test_a_volume_type_is_emulated_with_its_size_scale_and_credits(asked):
    st1 = "--volume-type ST1 --volume-size 500GiB"
    assert emulated(asked, f"{st1} --time-scale 60") == ST1
    assert emulated(asked, f"{st1} --credits 35%") == replace(ST1, time_scale=1.0, credits=0.35)
    found = emulated(asked, f"{st1} --instance-type M5.large --instance-credits empty")
    assert (found.instance_type, found.instance_credits) == ("m5.large", 0.0)
    assert asked[-1].volume_bytes == 16 << 30, "the file system's size is --volume"


def test_provisioned_figures_are_those_of_the_type(asked):
    found = emulated(asked, "--volume-type gp3 --iops 6000 --throughput 250")
    assert found.volume == EbsVolume("gp3", None, 6000, 250.0)
    assert [(each.rate_bytes_per_s, each.iops) for each in found.all_limits()] == [
        (250 * 2**20, 6000)
    ]


def test_without_a_type_the_cap_is_fixed(asked):
    assert emulated(asked, "--rate 20 --iops 500") is None
    (limits,) = asked[-1].limits
    assert (limits.rate_bytes_per_s, limits.iops) == (20 * 2**20, 500)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--volume-type st1 --volume-size 500", "500 is taken as 500 GiB, as AWS does"),
        ("--volume-type gp3 --time-scale 60", "has no such credits: --time-scale changes nothing"),
        ("--volume-type gp3 --credits empty", "has no such credits: --credits changes nothing"),
        ("--volume-type gp3 --iops 100000 --volume-size 900", "warning: gp3 with 100,000 IOPS is"),
        ("--volume-type gp3 --instance-type c1.medium", "limits of c1.medium are unknown"),
    ],
)
def test_what_is_assumed_or_has_no_effect_is_said(text, said, asked, capsys):
    emulated(asked, text)
    assert said in capsys.readouterr().out


@pytest.fixture
def with_credits(monkeypatch, asked):
    made = replace(MADE, spec=replace(MADE.spec, emulated=ST1), follower=(2, 2))
    monkeypatch.setattr(lab, "status", lambda: made)
    monkeypatch.setattr(lab, "cap_problem", lambda _: None)
    monkeypatch.setattr(lab, "credits_now", lambda _: NOW)


def test_status_shows_the_levels_and_the_present_limits(with_credits, capsys):
    assert main(["lab", "status"]) == 0
    said = capsys.readouterr().out
    assert "volume       st1 of 500 GiB, the buckets 60 times smaller\n" in said
    assert "limits now   64.0 MiB/s, by the volume\n" in said
    assert "credits      90% of the instance's: 900,000 of 1,000,000 I/Os\n" in said
    assert "credits      25% of the volume's: 1.00 GiB of 4.00 GiB\n" in said


def test_status_has_them_in_json_too(with_credits, capsys):
    assert main(["lab", "status", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["credits"]["buckets"][1] == {
        "owner": "volume", "level": 2**30, "capacity": 4 * 2**30, "unit": "bytes"
    }  # fmt: skip
    assert document["credits"]["changes"] == 3
    assert document["lab"]["spec"]["emulated"]["volume"]["type"] == "st1"


def test_a_volume_without_credits_shows_its_limits(asked, capsys):
    emulated(asked, "--volume-type gp3")
    assert "limits       125 MiB/s, 3000 IOPS\n" in capsys.readouterr().out
