# SPDX-License-Identifier: Apache-2.0
"""Where a sweep knows its volume from: the options, the lab, the node, AWS; and a sweep resumed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from contracts.shared.errors import UsageError
from profiler.cli import sweep as sweep_command
from profiler.cli.main import build_parser, main
from profiler.ec2.aws import LiveError
from profiler.ec2.live import Balance, Balances
from profiler.ec2.node import AttachedVolume, Ec2Node
from profiler.lab.emulated import Emulated
from profiler.lab.follower import BucketNow, CreditsNow
from profiler.study import volume_here
from profiler.study.circumstances_here import resumed_results
from profiler.study.volume_here import (
    VolumeHere,
    asked_of_aws,
    combined,
    of_lab,
    of_node,
    of_options,
)
from sysctl.evidence.circumstances import Credits, KnownVolume
from sysctl.evidence.results import load
from sysctl.volume.limits import GIB
from sysctl.volume.volume_types import EbsVolume
from tests.unit.volume_studies import study

CASE_STUDY = EbsVolume("st1", 500)
VOLUME_ID = "vol-0123456789abcdef0"
ATTACHED = [AttachedVolume(VOLUME_ID, "nvme1n1", 500 * GIB)]
ON_NODE = VolumeHere(KnownVolume(size_gib=500), VOLUME_ID)


def request(*words, tmp_path):
    arguments = build_parser().parse_args(
        ["sweep", "s3://bucket/images", str(tmp_path), "--output", str(tmp_path / "r"), *words]
    )
    return sweep_command.request_of(arguments, contract=None).volume


def test_the_options_of_a_sweep(tmp_path):
    words = ("--volume-type", "ST1", "--volume-size", "500", "--credits", "40%")
    found = request(*words, "--instance-type", "M5.large", tmp_path=tmp_path)
    assert found.volume == KnownVolume("st1", 500)
    assert (found.instance, found.credits) == ("m5.large", Credits(40.0, "--credits"))
    assert found.notes == ("--volume-size 500 is taken as 500 GiB, as AWS does.",)
    assert request(tmp_path=tmp_path) == VolumeHere()


def test_defaults_and_warnings_are_said(tmp_path):
    found = request("--volume-type", "gp3", "--iops", "100000", tmp_path=tmp_path)
    assert found.volume == KnownVolume("gp3", None, 100000, 125.0)
    assert len(found.notes) == 2
    assert "is above the maximum" in found.notes[1]
    words = ("--volume-type", "gp3", "--throughput", "250MiB", "--credits", "full")
    found = request(*words, tmp_path=tmp_path)
    assert found.credits is None
    assert found.notes[-1] == "This gp3 has no credits: --credits changes nothing."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--volume-size", "500"), "--volume-size needs --volume-type"),
        (("--volume-type", "gp4"), "did you mean 'gp3'"),
        (("--volume-type", "st1", "--volume-size", "50"), "st1 of 50 GiB is too small"),
        (("--instance-type", "m5.larg"), "did you mean 'm5.large'"),
        (("--volume-type", "st1"), "add --volume-size"),
        (("--prices", "/missing.yaml"), "/missing.yaml"),
    ],
)
def test_wrong_options_end_a_sweep_before_it_begins(words, said, tmp_path, capsys):
    line = ["sweep", "s3://bucket/images", str(tmp_path), "--output", str(tmp_path / "r"), *words]
    assert main(line) in (1, 2)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_the_volume_that_a_lab_emulates():
    emulated = Emulated(CASE_STUDY, "m5.large", 60.0)
    buckets = (
        BucketNow("instance", 1.0, 10.0, "bytes"),
        BucketNow("volume", 25.0, 100.0, "bytes"),
    )
    found = of_lab(emulated, CreditsNow(buckets, 1, None, "volume", 0, 1.0))
    assert found.volume == KnownVolume("st1", 500)
    assert (found.instance, found.credits) == ("m5.large", Credits(25.0, "the lab"))


def test_a_lab_without_credits_or_without_an_ebs_volume():
    assert of_lab(Emulated(EbsVolume("gp3", 9, 3000, 125.0)), None).credits is None
    assert of_lab(None, None) == VolumeHere()


def test_the_node_shows_only_id_and_size():
    assert of_node("nvme1n1", lambda: ATTACHED) == ON_NODE
    assert of_node("nvme2n1", lambda: ATTACHED) == VolumeHere()
    assert of_node(None, list) == VolumeHere()


def test_what_comes_first_counts_and_is_completed():
    asked = of_options(EbsVolume("gp3", None, 4000, 250.0), "m5.large", None, ("A note.",))
    found = combined(asked, ON_NODE)
    assert found.volume == KnownVolume("gp3", 500, 4000, 250.0)
    assert (found.volume_id, found.instance, found.notes) == (VOLUME_ID, "m5.large", ("A note.",))
    sized = combined(of_options(EbsVolume("st1", 600), None, None), ON_NODE)
    assert sized.volume == KnownVolume("st1", 600)
    assert combined(ON_NODE, VolumeHere(KnownVolume("st1", 500))).volume == KnownVolume("st1", 500)
    assert combined(VolumeHere(), VolumeHere()) == VolumeHere()


class Api:
    """AWS with one volume; `fails` raises at that request."""

    def __init__(self, volume=CASE_STUDY, balance=0.5, fails=None):
        self.answers = {"volume": volume, "balances": balance}
        self.fails = fails
        self.asked = []

    def __call__(self, access):
        self.access = access
        return self

    def _ask(self, what):
        self.asked.append(what)
        if what == self.fails:
            raise LiveError("ec2:DescribeVolumes is denied", "allow it")
        return self.answers[what]

    def volume(self, volume_id):
        assert volume_id == VOLUME_ID
        return self._ask("volume")

    def balances(self, volume_id, instance_id):
        assert (volume_id, instance_id) == (VOLUME_ID, None)
        share = self._ask("balances")
        moment = datetime(2026, 11, 23, 18, 5, tzinfo=timezone.utc)
        return Balances(Balance(share, moment)) if share is not None else Balances()


@pytest.fixture(autouse=True)
def _on_ec2(monkeypatch):
    monkeypatch.setattr(volume_here, "discover", lambda: Ec2Node(True, "m5.large", "eu-west-1"))


def test_aws_names_type_and_credits():
    api = Api()
    found = asked_of_aws(ON_NODE, "mine", api)
    assert found.volume == KnownVolume("st1", 500)
    assert found.credits == Credits(50.0, "CloudWatch, 2026-11-23 18:05 UTC")
    assert (api.access.region, api.access.profile, api.access.is_on_ec2) == (
        "eu-west-1",
        "mine",
        True,
    )


def test_only_what_is_not_known_is_asked():
    known = combined(of_options(EbsVolume("st1", 500), None, None), ON_NODE)
    api = Api()
    assert asked_of_aws(known, None, api).credits
    assert api.asked == ["balances"]
    everything = replace(known, credits=Credits(20.0, "--credits"))
    assert asked_of_aws(everything, None, Api(fails="volume")) == VolumeHere()
    assert asked_of_aws(VolumeHere(), None, Api(fails="volume")) == VolumeHere(), "not on EC2"
    without_credits = Api(EbsVolume("gp3", 500, 3000, 125.0))
    asked_of_aws(ON_NODE, None, without_credits)
    assert without_credits.asked == ["volume"]


def test_a_denied_request_is_one_sentence_and_the_last_one():
    api = Api(fails="volume")
    found = asked_of_aws(ON_NODE, None, api)
    assert (found.volume, found.credits, api.asked) == (None, None, ["volume"])
    assert found.notes == (
        f"AWS did not say all about {VOLUME_ID}, because ec2:DescribeVolumes is denied. "
        "--volume-type and --credits supply it.",
    )
    some = asked_of_aws(ON_NODE, None, Api(fails="balances"))
    assert (some.volume, some.credits, len(some.notes)) == (KnownVolume("st1", 500), None, 1)


def test_credits_that_cloudwatch_does_not_have_are_said():
    found = asked_of_aws(ON_NODE, None, Api(balance=None))
    assert found.credits is None
    assert found.notes == (f"CloudWatch has no credits of {VOLUME_ID} of the last hour.",)


def saved(tmp_path, **words):
    results = study(**words).results
    results.save(tmp_path / "r.json")
    return results.circumstances


NODE = {"volume_id": VOLUME_ID, "credits": {"percent": 30.5, "source": "the lab"}}


def test_volume_and_credits_are_in_the_results_file(tmp_path):
    before = saved(tmp_path, volume=KnownVolume("gp3", 100, 3000, 250.0), node=NODE)
    assert load(tmp_path / "r.json").circumstances == before
    assert before.node.credits == Credits(30.5, "the lab")


@pytest.mark.parametrize("percent", ["-1", "101", '"full"', "null"])
def test_damaged_credits_are_refused(tmp_path, percent):
    saved(tmp_path, node=NODE)
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "r.json").write_text(text.replace("30.5", percent))
    with pytest.raises(UsageError, match="damaged"):
        load(tmp_path / "r.json")


def test_a_sweep_is_resumed_with_other_credits_but_not_on_another_volume(tmp_path):
    now = saved(tmp_path, node=NODE)
    used = replace(now, node=replace(now.node, credits=None))
    assert resumed_results(tmp_path / "r.json", {}, used).circumstances == now
    other = replace(now, node_class=replace(now.node_class, volume=KnownVolume("st1", 500)))
    with pytest.raises(UsageError, match="volume differ"):
        resumed_results(tmp_path / "r.json", {}, other)


def test_a_resumed_sweep_keeps_what_is_known_and_learns_the_rest(tmp_path):
    unknown = saved(tmp_path, volume=None)
    known = replace(unknown, node_class=replace(unknown.node_class, volume=KnownVolume("st1", 500)))
    assert resumed_results(tmp_path / "r.json", {}, known).circumstances == known
    known_before = saved(tmp_path, instance="m5.large", node=NODE)
    forgotten = replace(
        known_before,
        node_class=replace(known_before.node_class, volume=None, instance=None),
        node=replace(known_before.node, volume_id=None),
    )
    assert resumed_results(tmp_path / "r.json", {}, forgotten).circumstances == known_before
