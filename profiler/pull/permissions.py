# SPDX-License-Identifier: Apache-2.0
"""What a pull asks of S3, and the IAM actions that allow it.

Operations and their permissions are those of the Amazon S3 API Reference: ListObjectsV2 needs
s3:ListBucket, GetObject and HeadObject need s3:GetObject.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Permission:
    """An IAM action, the resource that it is granted on, and the operations that need it."""

    action: str
    resource: str
    operations: tuple[str, ...]
    reason: str


LIST = Permission(
    "s3:ListBucket",
    "arn:aws:s3:::BUCKET",
    ("ListObjectsV2",),
    "list the objects below a prefix",
)
GET = Permission(
    "s3:GetObject",
    "arn:aws:s3:::BUCKET/PREFIX*",
    ("GetObject", "HeadObject"),
    "fetch objects, and read their size and checksum",
)
#: S3 itself asks KMS, so no operation of ours is named.
DECRYPT = Permission(
    "kms:Decrypt",
    "the key of the objects",
    (),
    "only for objects that are encrypted with a KMS key",
)

#: All that a pull needs.
PERMISSIONS = (LIST, GET, DECRYPT)
