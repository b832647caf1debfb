# SPDX-License-Identifier: Apache-2.0
"""What AWS reports now, from moto, and the sentence for each way in which it does not answer."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from profiler.ec2 import aws
from profiler.ec2.aws import AwsAccess, LiveError
from profiler.ec2.live import Balance, Balances, LiveApi, is_volume_id
from profiler.ec2.permissions import PERMISSIONS
from sysctl.volume import instances
from sysctl.volume.volume_types import EbsVolume, check
from tests.unit.aws import KEYS, REGION, SECRET, Silent, new_volume, put_credits, set_environment

UNKNOWN_ID = "vol-0123456789abcdef0"


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    set_environment(monkeypatch, tmp_path)


@pytest.fixture
def amazon():
    with mock_aws():
        yield


@pytest.fixture
def api(amazon):
    return LiveApi(AwsAccess(REGION))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"VolumeType": "gp2", "Size": 100}, EbsVolume("gp2", 100)),
        ({"VolumeType": "st1", "Size": 500}, EbsVolume("st1", 500)),
        (
            {"VolumeType": "gp3", "Size": 100, "Iops": 4000, "Throughput": 500},
            EbsVolume("gp3", 100, 4000, 500.0),
        ),
        ({"VolumeType": "gp3", "Size": 100}, EbsVolume("gp3", 100, 3000, None)),
        ({"VolumeType": "io2", "Size": 100, "Iops": 5000}, EbsVolume("io2", 100, 5000)),
    ],
)
def test_a_volume(api, words, expected):
    found = api.volume(new_volume(**words))
    assert found == expected
    assert check(found).warnings == ()


class Answers:
    """A session that gives answers without a network."""

    region = REGION

    def __init__(self, *answers):
        self._answers = iter(answers)

    def __call__(self, _):
        return self

    def request(self, permission, **_):
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refusal(code):
    return ClientError({"Error": {"Code": code, "Message": SECRET}}, "Any")


def asked(*answers):
    return LiveApi(AwsAccess(REGION), Answers(*answers))


def test_what_aws_itself_adds_to_a_volume_of_a_fixed_type():
    """AWS gives the IOPS of gp2 too, but they cannot be chosen."""
    volume = {"VolumeType": "gp2", "Size": 100, "Iops": 300}
    assert asked({"Volumes": [volume]}).volume(UNKNOWN_ID) == EbsVolume("gp2", 100)


def test_an_instance_type_is_that_of_the_table(api):
    for name in ("m5.large", "t2.micro", "p4d.24xlarge"):
        assert api.instance(name) == instances.table().find(name)


def test_the_newest_credits(api):
    put_credits("AWS/EBS", "BurstBalance", ("VolumeId", "vol-1"), (20, 60.0), (5, 43.0), (40, 90.0))
    put_credits("AWS/EC2", "EBSByteBalance%", ("InstanceId", "i-1"), (5, 99.0))
    put_credits("AWS/EC2", "EBSIOBalance%", ("InstanceId", "i-2"), (5, 10.0))
    found = api.balances("vol-1", "i-1")
    assert found.volume.share == pytest.approx(0.43)
    age_s = (datetime.now(timezone.utc) - found.volume.measured_at).total_seconds()
    assert 240 < age_s < 400
    assert found.instance_bytes.share == pytest.approx(0.99)
    assert found.instance_ios is None
    assert api.balances("vol-1", None).instance_bytes is None


def test_credits_that_nobody_measured(api):
    put_credits("AWS/EBS", "BurstBalance", ("VolumeId", "vol-1"), (90, 60.0))
    assert api.balances("vol-1", "i-1") == Balances()
    assert api.balances(None, None) == Balances()


def test_credits_stay_within_the_bucket():
    at = datetime(2026, 11, 23, 16, 5, tzinfo=timezone.utc)
    result = {"Id": "volume", "Timestamps": [at], "Values": [100.4]}
    found = asked({"MetricDataResults": [result]}).balances("vol-1", None)
    assert found.volume == Balance(1.0, at)


def reason(call, *words):
    with pytest.raises(LiveError) as raised:
        call(*words)
    assert SECRET not in raised.value.message + raised.value.hint
    return raised.value.message


def test_a_volume_that_does_not_exist(api):
    assert reason(api.volume, UNKNOWN_ID) == f"there is no volume {UNKNOWN_ID} in {REGION}"


def test_a_volume_of_another_region(api):
    elsewhere = new_volume("us-east-1", VolumeType="gp3", Size=10)
    assert reason(api.volume, elsewhere) == f"there is no volume {elsewhere} in {REGION}"
    assert LiveApi(AwsAccess("us-east-1")).volume(elsewhere).size_gib == 10


def test_an_instance_type_that_does_not_exist(api):
    said = reason(api.instance, "m5.larg")
    assert said == f"there is no instance type m5.larg in {REGION}"


def test_a_type_that_is_not_in_the_table(api):
    said = reason(api.volume, new_volume(VolumeType="standard", Size=10))
    assert "is of type standard, which is not in the table of" in said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("UnauthorizedOperation", "ec2:DescribeVolumes is denied"),
        ("RequestLimitExceeded", "AWS limits the request rate of ec2:DescribeVolumes"),
        ("ExpiredToken", "the session token has expired"),
        ("AuthFailure", f"AWS did not accept the credentials in {REGION}"),
        ("Unavailable", "AWS reported an internal error for ec2:DescribeVolumes"),
        ("Some\x1bthing", "AWS answered Some\\x1bthing to ec2:DescribeVolumes"),
    ],
)
def test_refused(code, said):
    assert reason(asked(refusal(code)).volume, UNKNOWN_ID) == said


def test_denied_metrics_name_their_action():
    said = reason(asked(refusal("AccessDenied")).balances, "vol-1", None)
    assert said == "cloudwatch:GetMetricData is denied"


@pytest.mark.parametrize("answer", [{}, {"Volumes": []}, {"Volumes": [{"VolumeType": "gp3"}]}])
def test_an_answer_with_little_in_it(answer):
    api = asked(answer)
    try:
        assert api.volume(UNKNOWN_ID) == EbsVolume("gp3")
    except LiveError as error:
        assert error.message == f"EC2 returned no volume {UNKNOWN_ID}"


def test_an_instance_without_memory():
    answer = {"InstanceTypes": [{"InstanceType": "m5.large"}]}
    assert "is incomplete" in reason(asked(answer).instance, "m5.large")


def test_a_denied_action_does_not_stop_others():
    api = asked(refusal("UnauthorizedOperation"), {"Volumes": [{"VolumeType": "gp3"}]})
    assert "denied" in reason(api.instance, "m5.large")
    assert api.volume(UNKNOWN_ID) == EbsVolume("gp3")


def test_bad_credentials_stop_all_further_requests():
    api = asked(refusal("ExpiredToken"))
    assert reason(api.volume, UNKNOWN_ID) == reason(api.balances, "vol-1", None)


def test_no_credentials(monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name)
    began_s = time.monotonic()
    assert reason(LiveApi(AwsAccess(REGION)).volume, UNKNOWN_ID) == "no AWS credentials were found"
    assert time.monotonic() - began_s < 2


def test_off_ec2_the_metadata_service_is_not_asked_for_credentials(monkeypatch, silent):
    """Nobody answers at its address, and two attempts of a second each would be noticed."""
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", silent.url)
    said = "no AWS credentials were found"
    assert reason(LiveApi(AwsAccess(REGION)).volume, UNKNOWN_ID) == said
    assert silent.connections == 0
    assert reason(LiveApi(AwsAccess(REGION, is_on_ec2=True)).volume, UNKNOWN_ID) == said
    assert silent.accepts_one()


@pytest.mark.parametrize(
    ("access", "said"),
    [
        (AwsAccess(), "no AWS region is set"),
        (AwsAccess("no region", None), "the AWS region is not valid"),
        (AwsAccess(REGION, "nobody"), "there is no such AWS profile"),
    ],
)
def test_a_configuration_that_cannot_be_used(access, said):
    assert reason(LiveApi(access).volume, UNKNOWN_ID) == said


@pytest.fixture(params=[False])
def silent(request):
    started = Silent(trickles=request.param)
    yield started
    started.end()


@pytest.mark.parametrize("silent", [False, True], indirect=True)
def test_an_endpoint_that_hangs_is_given_up(monkeypatch, silent):
    monkeypatch.setattr(aws, "READ_TIMEOUT_S", 0.3)
    monkeypatch.setattr(aws, "DEADLINE_S", 2.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", silent.url)
    api = LiveApi(AwsAccess(REGION))
    began_s = time.monotonic()
    said = reason(api.volume, UNKNOWN_ID)
    assert "did not answer in time" in said
    assert time.monotonic() - began_s < 6
    began_s, connections = time.monotonic(), silent.connections
    assert reason(api.instance, "m5.large") == said
    assert silent.connections == connections
    assert time.monotonic() - began_s < 0.1


def test_nobody_listens(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:word@127.0.0.1:1")
    said = reason(LiveApi(AwsAccess(REGION)).volume, UNKNOWN_ID)
    assert said == "127.0.0.1 cannot be reached"


def test_every_permission_names_an_operation_of_its_service():
    for permission in PERMISSIONS:
        client = boto3.client(permission.service, region_name=REGION)
        assert permission.operation in client.meta.method_to_api_mapping.values()


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        ("vol-0123456789abcdef0", True),
        ("vol-01234567", True),
        ("vol-0123456789abcdef", False),
        ("vol0123456789abcdef0", False),
        ("vol-0123456789ABCDEF0", False),
    ],
)
def test_ids(text, is_id):
    assert is_volume_id(text) is is_id
