# SPDX-License-Identifier: Apache-2.0
"""How long an EBS volume, or its instance, was over its limit during a run.

EBS counts the time in which more was asked of the volume than the volume, or the instance, allows:
separately for IOPS and throughput (`profiler/ec2/log_page.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sysctl.evidence.checks import seconds, share_or_time

#: The share of the time from which an exceeded limit counts as what held a run up.
MAIN_SHARE = 0.1


class EbsLimit(enum.Enum):
    """A limit of an EBS volume or of its instance; the value is its name in messages and JSON."""

    VOLUME_IOPS = "volume IOPS"
    VOLUME_THROUGHPUT = "volume throughput"
    INSTANCE_IOPS = "instance IOPS"
    INSTANCE_THROUGHPUT = "instance throughput"

    @property
    def is_of_instance(self) -> bool:
        """Whether it is the instance's limit, which a faster volume does not raise."""
        return self in (EbsLimit.INSTANCE_IOPS, EbsLimit.INSTANCE_THROUGHPUT)

    @property
    def is_of_throughput(self) -> bool:
        """Whether it limits bytes a second, not operations."""
        return self in (EbsLimit.VOLUME_THROUGHPUT, EbsLimit.INSTANCE_THROUGHPUT)


@dataclass(frozen=True)
class OverLimit:
    """The time (s) over each limit, within the `observed_s` between the first and last reading.

    `rate_bytes_per_s` is the mean rate of reads and writes over all of it. `at_limit_s` is the
    length of those intervals between two readings in which a limit was exceeded for at least half
    of the time. The rates at the limit are the means over these intervals: what the volume or the
    instance lets through. They are None without such an interval.
    """

    observed_s: float
    volume_iops_s: float = 0.0
    volume_throughput_s: float = 0.0
    instance_iops_s: float = 0.0
    instance_throughput_s: float = 0.0
    at_limit_s: float = 0.0
    at_limit_rate_bytes_per_s: float | None = None
    at_limit_ops_per_s: float | None = None
    rate_bytes_per_s: float = 0.0

    @property
    def seconds(self) -> Mapping[EbsLimit, float]:
        """The time over each limit in s."""
        return {
            EbsLimit.VOLUME_IOPS: self.volume_iops_s,
            EbsLimit.VOLUME_THROUGHPUT: self.volume_throughput_s,
            EbsLimit.INSTANCE_IOPS: self.instance_iops_s,
            EbsLimit.INSTANCE_THROUGHPUT: self.instance_throughput_s,
        }

    @property
    def longest(self) -> EbsLimit | None:
        """The limit that was exceeded for the longest time; None if none was."""
        limit, time_s = max(self.seconds.items(), key=lambda item: item[1])
        return limit if time_s else None

    @property
    def main(self) -> EbsLimit | None:
        """The same; None if it was exceeded for less than `MAIN_SHARE` of the time."""
        limit = self.longest
        return limit if limit and self.share(limit) >= MAIN_SHARE else None

    def share(self, limit: EbsLimit) -> float:
        """Return the share of the observed time (0 to 1) over this limit.

        The counters advance in steps of their own, so the time can exceed the observed time a
        little.
        """
        return min(1.0, self.seconds[limit] / self.observed_s)


def most_limited(runs: Iterable[OverLimit]) -> OverLimit | None:
    """Return that of the volume that was over one of its limits for the longest time."""
    return max(runs, key=lambda each: max(each.seconds.values()), default=None)


def over_limit_from_json(data: Mapping[str, Any]) -> OverLimit:
    """Return what `dataclasses.asdict` made. Raises KeyError, TypeError, ValueError."""
    rate, ops = data["at_limit_rate_bytes_per_s"], data["at_limit_ops_per_s"]
    return OverLimit(
        observed_s=seconds(data["observed_s"]),
        volume_iops_s=share_or_time(data["volume_iops_s"]),
        volume_throughput_s=share_or_time(data["volume_throughput_s"]),
        instance_iops_s=share_or_time(data["instance_iops_s"]),
        instance_throughput_s=share_or_time(data["instance_throughput_s"]),
        at_limit_s=share_or_time(data["at_limit_s"]),
        at_limit_rate_bytes_per_s=None if rate is None else share_or_time(rate),
        at_limit_ops_per_s=None if ops is None else share_or_time(ops),
        rate_bytes_per_s=share_or_time(data["rate_bytes_per_s"]),
    )
