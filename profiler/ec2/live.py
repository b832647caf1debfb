# SPDX-License-Identifier: Apache-2.0
"""What AWS reports now: a volume, an instance type's limits, and credits.

Needs credentials. A figure that AWS does not give is None or missing, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from contracts.shared.text import printable
from profiler.ec2.aws import AwsAccess, AwsSession, LiveError, Scope
from profiler.ec2.permissions import INSTANCE_TYPES, METRICS, VOLUMES, ReadPermission
from sysctl.volume import volume_types
from sysctl.volume.instances import EbsLimits, Instance
from sysctl.volume.limits import MIB
from sysctl.volume.volume_types import EbsVolume

_VOLUME_ID = re.compile(r"vol-[0-9a-f]{8}(?:[0-9a-f]{9})?")
#: Credits are reported every 1 to 5 minutes, some minutes late, while the volume is attached.
_NEWEST = timedelta(hours=1)
_PERIOD_S = 60
#: Name of a figure → CloudWatch's namespace, metric and dimension.
_METRICS = {
    "volume": ("AWS/EBS", "BurstBalance", "VolumeId"),
    "instance_bytes": ("AWS/EC2", "EBSByteBalance%", "InstanceId"),
    "instance_ios": ("AWS/EC2", "EBSIOBalance%", "InstanceId"),
}


Answer = TypeVar("Answer")
#: Makes a session; tests give their own.
SessionMaker = Callable[[AwsAccess], AwsSession]


@dataclass(frozen=True)
class Balance:
    """Credits as a share (0 to 1) of their bucket, and when CloudWatch measured them."""

    share: float
    measured_at: datetime


@dataclass(frozen=True)
class Balances:
    """The credits of a volume and of its instance. None: no figure of the last hour."""

    volume: Balance | None = None
    instance_bytes: Balance | None = None
    instance_ios: Balance | None = None


def is_volume_id(text: str) -> bool:
    """Return whether the text has the form of a volume's id: `vol-0123456789abcdef0`."""
    return _VOLUME_ID.fullmatch(text) is not None


class LiveApi:
    """Asks EC2 and CloudWatch. Every method raises LiveError with the reason why not."""

    def __init__(self, access: AwsAccess, session: SessionMaker = AwsSession) -> None:
        self._session = session(access)
        self._failed: dict[str | None, LiveError] = {}

    def volume(self, volume_id: str) -> EbsVolume:
        """Return a volume. IOPS and throughput are None if they follow from its type and size."""
        found = self._request(VOLUMES, volume_id, VolumeIds=[volume_id]).get("Volumes")
        if not found:
            raise LiveError(f"EC2 returned no volume {volume_id}")
        return _read(VOLUMES, lambda: _volume(volume_id, found[0]))

    def instance(self, name: str) -> Instance:
        """Return the limits of an instance type."""
        answer = self._request(INSTANCE_TYPES, printable(name), InstanceTypes=[name])
        found = answer.get("InstanceTypes")
        if not found:
            raise LiveError(f"EC2 returned no instance type {printable(name)}")
        return _read(INSTANCE_TYPES, lambda: _instance(found[0]))

    def balances(self, volume_id: str | None, instance_id: str | None) -> Balances:
        """Return the newest credits of a volume and of an instance; None: do not ask for it."""
        queries = list(_queries({"VolumeId": volume_id, "InstanceId": instance_id}))
        if not queries:
            return Balances()
        now = datetime.now(timezone.utc)
        answer = self._request(
            METRICS,
            "",
            MetricDataQueries=queries,
            StartTime=now - _NEWEST,
            EndTime=now,
            ScanBy="TimestampDescending",
        )
        newest = {each["Id"]: _newest(each) for each in answer.get("MetricDataResults", [])}
        return Balances(**{name: newest.get(name) for name in _METRICS})

    def _request(
        self, permission: ReadPermission, asked: str, **parameters: Any
    ) -> Mapping[str, Any]:
        """Return an answer. After a failure that concerns all requests, none is sent."""
        for failed in (None, permission.service):
            if failed in self._failed:
                raise self._failed[failed]
        try:
            answer: Mapping[str, Any] = self._session.request(permission, **parameters)
        except Exception as error:  # botocore also raises AttributeError
            from profiler.ec2.live_errors import explain

            explained = explain(error, permission, self._session.region, asked)
        else:
            return answer
        if explained.scope is not Scope.REQUEST:
            self._failed[None if explained.scope is Scope.ALL else permission.service] = explained
        raise explained


def _read(permission: ReadPermission, make: Callable[[], Answer]) -> Answer:
    """Return what is made of an answer. Raises LiveError if the answer lacks a figure."""
    try:
        return make()
    except (LookupError, TypeError, ValueError, AttributeError):
        raise LiveError(f"the answer to {permission.action} is incomplete") from None


def _volume(volume_id: str, answer: Mapping[str, Any]) -> EbsVolume:
    """Return the volume of an answer. The table's rules say what follows from type and size."""
    name = str(answer.get("VolumeType"))
    entry = volume_types.table()["types"].get(name)
    if entry is None:
        raise LiveError(
            f"{volume_id} is of type {printable(name)}, which is not in the table of "
            f"{volume_types.table()['as_of']}",
            "pass --volume-type for a volume that is like it",
        )
    is_chosen = entry["model"] == "provisioned"
    throughput = answer.get("Throughput") if "mib_per_s" in entry and is_chosen else None
    return EbsVolume(
        name,
        int(answer["Size"]) if "Size" in answer else None,
        int(answer["Iops"]) if is_chosen and "Iops" in answer else None,
        None if throughput is None else float(throughput),
    )


def _instance(answer: Mapping[str, Any]) -> Instance:
    """Return the instance type of an answer; a figure that it lacks is None."""
    ebs = answer.get("EbsInfo", {}).get("EbsOptimizedInfo")
    network = answer.get("NetworkInfo", {})
    cards = network.get("NetworkCards") or [{}]
    card = cards[network.get("DefaultNetworkCardIndex", 0)]
    return Instance(
        name=str(answer["InstanceType"]),
        memory_bytes=int(answer["MemoryInfo"]["SizeInMiB"]) * MIB,
        ebs=EbsLimits(
            float(ebs["BaselineThroughputInMBps"]),
            float(ebs["MaximumThroughputInMBps"]),
            int(ebs["BaselineIops"]),
            int(ebs["MaximumIops"]),
        )
        if ebs
        else None,
        network_baseline_gbit_per_s=card.get("BaselineBandwidthInGbps"),
        network_peak_gbit_per_s=card.get("PeakBandwidthInGbps"),
    )


def _queries(id_by_dimension: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
    for name, (namespace, metric, dimension) in _METRICS.items():
        identity = id_by_dimension[dimension]
        if identity is None:
            continue
        yield {
            "Id": name,
            "MetricStat": {
                "Metric": {
                    "Namespace": namespace,
                    "MetricName": metric,
                    "Dimensions": [{"Name": dimension, "Value": identity}],
                },
                "Period": _PERIOD_S,
                "Stat": "Average",
            },
        }


def _newest(result: Mapping[str, Any]) -> Balance | None:
    """Return the newest value, which comes first; None if there is none."""
    values = list(zip(result.get("Timestamps", []), result.get("Values", [])))
    if not values:
        return None
    measured_at, percent = max(values)
    return Balance(min(1.0, max(0.0, percent / 100)), measured_at.astimezone(timezone.utc))
