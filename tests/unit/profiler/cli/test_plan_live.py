# SPDX-License-Identifier: Apache-2.0
"""`writewise plan` on an EC2 node, and with an account elsewhere: what it finds, asks and says."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from profiler.cli import plan_live
from profiler.cli.main import main
from profiler.ec2.aws import AwsSession
from profiler.ec2.mounts import Mounts
from profiler.ec2.node import AttachedVolume, Ec2Node
from sysctl.host.mount_table import parse_mountinfo
from tests.unit.aws import REGION, new_volume, put_credits, set_environment

PULL = ("--burst", "22500MiB")
GIB = 2**30
INSTANCE_ID = "i-0123456789abcdef0"


@pytest.fixture
def amazon(monkeypatch, tmp_path):
    set_environment(monkeypatch, tmp_path)
    with mock_aws():
        yield


@pytest.fixture
def st1(amazon):
    """A volume of 500 GiB with 43 % of its credits, on an instance with few credits of I/Os."""
    volume_id = new_volume(VolumeType="st1", Size=500)
    put_credits("AWS/EBS", "BurstBalance", ("VolumeId", volume_id), (5, 43.0))
    put_credits("AWS/EC2", "EBSByteBalance%", ("InstanceId", INSTANCE_ID), (5, 99.0))
    put_credits("AWS/EC2", "EBSIOBalance%", ("InstanceId", INSTANCE_ID), (5, 10.0))
    return volume_id


@pytest.fixture
def node(monkeypatch):
    """Let the command run on a node with these volumes."""

    def use(*volume_ids, instance_type="m5.large", region=REGION, problem=None):
        volumes = tuple(
            AttachedVolume(volume_id, f"nvme{number}n1", 500 * GIB)
            for number, volume_id in enumerate(volume_ids)
        )
        here = Ec2Node(True, instance_type, region, volumes, problem, INSTANCE_ID)
        monkeypatch.setattr(plan_live, "discover", lambda: here)

    return use


@pytest.fixture
def off_ec2(monkeypatch):
    monkeypatch.setattr(plan_live, "discover", Ec2Node)


@pytest.fixture
def plan(capsys):
    def run(*words):
        code = main(["plan", *words])
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    return run


@pytest.fixture
def document(plan):
    return lambda *words: json.loads(plan(*words, "--json"))


@pytest.fixture
def asked(monkeypatch):
    """The operations that are asked for; those in `denied` are refused."""

    class Asked(list):
        denied = ()

    operations, send = Asked(), AwsSession.request

    def record(session, permission, **parameters):
        operations.append(permission.operation)
        if permission.operation in operations.denied:
            error = {"Error": {"Code": "UnauthorizedOperation", "Message": "arn:secret"}}
            raise ClientError(error, permission.operation)
        return send(session, permission, **parameters)

    monkeypatch.setattr(AwsSession, "request", record)
    return operations


def test_a_node_with_one_volume_needs_no_option_but_the_pull(st1, node, document):
    node(st1)
    found = document(*PULL)
    assert found["volume"]["type"] == "st1"
    assert found["volume"]["size_gib"] == 500
    assert found["instance"] == "m5.large"
    assert found["phases"][0]["balance_before"] == pytest.approx(43)
    assert found["instance_balance_after"] == pytest.approx(12.1, rel=0.005)
    assert found["sources"][:2] == [
        "limits of m5.large, the type of this node (ec2:DescribeInstanceTypes)",
        f"{st1}, the only EBS volume of this node (ec2:DescribeVolumes)",
    ]
    assert found["tables"]["instances"] is None
    assert (
        f"prices are those of us-east-1, not of {REGION}; --prices FILE has your own"
        in found["assumed"]
    )


def test_without_a_pull_it_says_what_it_found(st1, node, plan):
    node(st1)
    text = plan()
    assert text.startswith("writewise: a plan needs the size of the pull\n")
    assert f"found on this node: {st1} (nvme0n1, 500 GiB)" in text
    assert f"found in AWS: {st1}, the only EBS volume of this node" in text
    assert "found in AWS: the volume's credits 43 % (CloudWatch, " in text


def test_the_report_says_where_the_credits_are_from(st1, node, plan):
    node(st1)
    text = plan(*PULL)
    (line,) = [line for line in text.splitlines() if line.startswith("credits ")]
    assert line.startswith("credits     43 % at the start (CloudWatch, ")
    assert line.endswith(" UTC), 39.3 % after the pull")
    assert "the instance's credits of I/Os 10 % (CloudWatch, " in text
    assert "empty       without credits of the volume" not in text


def test_an_option_for_credits_asks_for_none(st1, node, plan, asked):
    node(st1)
    text = plan(*PULL, "--credits", "20", "--instance-credits", "full")
    assert "credits     20 % at the start, 16.3 % after" in text
    assert asked == ["DescribeInstanceTypes", "DescribeVolumes"]


def test_the_instances_buckets_have_their_own_credits(st1, node, document):
    """No credits of bytes, some of I/Os: the baseline of 81.25 MB/s."""
    put_credits("AWS/EC2", "EBSByteBalance%", ("InstanceId", INSTANCE_ID), (1, 0.0))
    node(st1)
    found = document(*PULL)
    assert found["limited_by"] == "instance credits"
    assert found["durable_s"] == pytest.approx(22_500 * 2**20 / 81.25e6)


MOUNTS = """\
21 1 259:0 / / rw - ext4 /dev/nvme0n1p1 rw
22 21 259:2 / {data} rw - xfs /dev/nvme1n1 rw
"""


@pytest.fixture
def two(node, st1, monkeypatch, tmp_path):
    """A node with a root volume and, mounted at a directory, the st1."""
    root = new_volume(VolumeType="gp3", Size=30)
    node(root, st1)
    data = tmp_path / "data"
    data.mkdir()
    for number, disk in (("259:0", "nvme0n1"), ("259:2", "nvme1n1")):
        (tmp_path / "sys/devices" / disk / "queue").mkdir(parents=True)
        (tmp_path / "sys/dev/block").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys/dev/block" / number).symlink_to(tmp_path / "sys/devices" / disk)
    table = parse_mountinfo(MOUNTS.format(data=data))
    monkeypatch.setattr(plan_live, "read_mounts", lambda: Mounts(table, tmp_path / "sys"))
    return root, data


def test_of_several_volumes_none_is_guessed(two, plan, monkeypatch, tmp_path):
    root, data = two
    monkeypatch.chdir(tmp_path)
    text = plan(*PULL)
    assert text.startswith("writewise: a plan needs the volume's type\n")
    assert "--volume-id ID of one of those below" in text
    assert f"{root} (nvme0n1, 500 GiB, mounted at /)" in text
    assert f"(nvme1n1, 500 GiB, mounted at {data})" in text
    assert "this node has 2 EBS volumes; --volume-id chooses one" in text


def test_the_volume_of_the_current_directory(two, st1, document, monkeypatch):
    monkeypatch.chdir(two[1])
    found = document(*PULL)
    assert found["volume"]["type"] == "st1"
    assert f"{st1}, which holds the current directory (ec2:DescribeVolumes)" in found["sources"]


def test_volume_id_chooses(two, document):
    assert document(*PULL, "--volume-id", two[0])["volume"]["type"] == "gp3"


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("DescribeVolumes", ": ec2:DescribeVolumes is denied; allow it in the IAM policy"),
        (
            "DescribeInstanceTypes",
            "Assumed: the limits of m5.large are those of the table: ec2:DescribeInstanceTypes is "
            "denied.",
        ),
        (
            "GetMetricData",
            "Assumed: credits are full, since they are unknown: cloudwatch:GetMetricData is denied",
        ),
    ],
)
def test_what_is_denied_is_named(st1, node, plan, asked, operation, said):
    node(st1)
    asked.denied = (operation,)
    text = plan(*PULL)
    assert said in text
    assert "secret" not in text
    assert ("instances of 20" in text) == (operation == "DescribeInstanceTypes")
    assert ("Durable after" in text) == (operation != "DescribeVolumes")


def test_credits_that_nobody_measured(amazon, node, plan):
    volume_id = new_volume(VolumeType="gp2", Size=100)
    node(volume_id)
    text = plan(*PULL)
    assert f"credits are full: CloudWatch has no BurstBalance of {volume_id} of the last" in text
    assert "CloudWatch has no EBSByteBalance% of this instance of the last hour" in text
    assert "empty       without credits of the volume" in text


def test_a_volume_without_credits_asks_for_none(amazon, node, plan, asked):
    node(new_volume(VolumeType="gp3", Size=100), instance_type="m5.4xlarge")
    assert "Durable after" in plan(*PULL)
    assert asked[-2:] == ["DescribeInstanceTypes", "DescribeVolumes"]


def test_a_new_type_that_the_table_lacks(st1, node, plan, asked):
    node(st1, instance_type="z9.new")
    text = plan(*PULL)
    assert "this node's type, z9.new, is not in the table of" in text
    assert "(there is no instance type z9.new in eu-central-1)" in text


def test_a_volume_above_the_table_is_planned(amazon, node, document):
    """moto does not check ratios, and AWS may raise them: 11 GiB cannot have 20,000 IOPS today."""
    node(new_volume(VolumeType="io2", Size=11, Iops=20_000))
    found = document("--burst", "1GiB")
    assert found["volume"]["iops"] == 20_000
    (warning,) = found["warnings"]
    assert warning.startswith("io2 of 11 GiB cannot have 20,000 IOPS by the table of")


def test_the_cheapest_on_a_node_asks_for_no_volume(st1, node, plan, asked):
    node(st1)
    text = plan(*PULL, "--cheapest", "--capacity", "30GiB", "--deadline", "300s")
    assert "--instance-type m5.large" in text
    assert asked == ["DescribeInstanceTypes"]


def test_off_ec2_nothing_is_asked_unless_an_option_says_so(off_ec2, st1, plan, asked):
    assert "Durable" in plan(*PULL, "--volume-type", "st1", "--volume-size", "500GiB")
    assert "a plan needs the volume's type" in plan(*PULL)
    assert asked == []
    text = plan(*PULL, "--volume-id", st1, "--region", REGION)
    assert "43 % at the start (CloudWatch" in text
    assert asked == ["DescribeVolumes", "GetMetricData"]


def test_region_alone_looks_up_the_instance_type(off_ec2, amazon, plan, asked):
    volume = ("--volume-type", "st1", "--volume-size", "500GiB", "--region", REGION)
    text = plan(*PULL, *volume, "--instance-type", "M5.large")
    assert "From AWS: limits of m5.large (ec2:DescribeInstanceTypes)." in text
    assert asked == ["DescribeInstanceTypes"]
    assert "Assumed: nothing was looked up in AWS: add --instance-type" in plan(*PULL, *volume)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--volume-id", "vol-1"), "invalid volume id 'vol-1'"),
        (("--volume-id", "\x1b[2J"), r"invalid volume id '\x1b[2J'"),
        (("--volume-id", "vol-01234567"), "no AWS region is set"),
        (
            ("--volume-id", "vol-01234567", "--region", REGION),
            f"there is no volume vol-01234567 in {REGION}",
        ),
        (("--volume-id", "vol-01234567", "--iops", "1"), "exclude each other"),
        (("--volume-id", "vol-01234567", "--cheapest", "--capacity", "1"), "omit --volume-id"),
        (("--volume-id", "vol-01234567", "--profile", "nobody"), "there is no such AWS profile"),
        (("--volume-id", "vol-01234567", "--region", "no region"), "the AWS region is not valid"),
    ],
)
def test_wrong_input(off_ec2, amazon, plan, words, said):
    text = plan(*PULL, *words)
    assert said in text
    assert "Traceback" not in text
    assert text.startswith("writewise: ")


def test_a_node_without_metadata(st1, node, plan):
    """The region is unknown, so nothing can be looked up."""
    node(st1, instance_type=None, region=None, problem="the metadata service did not answer")
    text = plan(*PULL)
    assert "the instance type is unknown, because the metadata service did not answer" in text
    assert f"no volume was looked up: {st1}: no AWS region is set; pass --region" in text
