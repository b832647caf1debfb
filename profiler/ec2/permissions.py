# SPDX-License-Identifier: Apache-2.0
"""What is asked of EC2 and CloudWatch about volumes, and the IAM actions that allow it.

All are read-only. None of them supports a smaller resource than `*` (Service Authorization
Reference, "Actions, resources, and condition keys for Amazon EC2" and "for Amazon CloudWatch").
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadPermission:
    """An IAM action, and what it is needed for."""

    action: str
    reason: str

    @property
    def service(self) -> str:
        """The service as botocore names it: `ec2`."""
        return self.action.partition(":")[0]

    @property
    def operation(self) -> str:
        """The API operation that needs it: `DescribeVolumes`."""
        return self.action.partition(":")[2]


VOLUMES = ReadPermission("ec2:DescribeVolumes", "read a volume's type, size, IOPS and throughput")
INSTANCE_TYPES = ReadPermission(
    "ec2:DescribeInstanceTypes", "read the EBS and network limits of the instance type"
)
METRICS = ReadPermission(
    "cloudwatch:GetMetricData", "read the credits that the volume and the instance have now"
)

#: All that is asked about a volume and its instance.
PERMISSIONS = (VOLUMES, INSTANCE_TYPES, METRICS)
