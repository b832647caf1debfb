# SPDX-License-Identifier: Apache-2.0
"""Compares a file with the object: its size, and the checksum that S3 has.

S3 has a checksum of the whole object (x-amz-checksum-type FULL_OBJECT) if it was uploaded with one,
and an MD5 as ETag if it was uploaded in one part without KMS or customer keys; for other objects a
hash of the parts' hashes (`upload_parts`). If there is none, or the parts' sizes are unknown, only
the size is compared, and the result says so. Source: Amazon S3 user guide, "Checking object
integrity".
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from typing import Any

from profiler.pull.hashes import CHECKSUMS, MakeHash, digest, md5
from profiler.pull.upload_parts import PartBytes, find_composite

SIZE_ONLY = "size only"
_MD5 = re.compile(r"[0-9a-f]{32}")


def verify(
    descriptor: int, head: Mapping[str, Any], part_bytes: PartBytes | None = None
) -> tuple[str, str | None]:
    """Compare an open file with HeadObject's answer and return the method used and the problem.

    The problem is None if the file matches. Without `part_bytes`, an object uploaded in parts is
    compared by a checksum of the whole or by size alone. Raises OSError, and what `part_bytes`
    raises.
    """
    size_bytes, wanted_bytes = os.fstat(descriptor).st_size, int(head["ContentLength"])
    if size_bytes != wanted_bytes:
        return SIZE_ONLY, f"the file has {size_bytes} bytes, the object {wanted_bytes}"
    whole = _checksum_of_whole(head)
    if whole is not None:
        name, expected, make_hash = whole
        return name, None if digest(descriptor, make_hash) == expected else _differs(name)
    composite = find_composite(head, etag_is_md5=not _etag_is_encrypted(head))
    if composite is not None and part_bytes is not None:
        is_same = composite.compare(descriptor, size_bytes, part_bytes)
        if is_same is not None:
            return composite.name, None if is_same else _differs(composite.name)
    return SIZE_ONLY, None


def _differs(method: str) -> str:
    return f"the file differs from the object: its {method} checksum does not match"


def forget_cached(descriptor: int) -> None:
    """Drop an open file's pages from the page cache, so that the next read comes from its device.

    The kernel drops only clean pages (mm/fadvise.c, v6.1), so the file is written back first. A
    file system in memory keeps its pages, which are its only copy. Raises OSError.
    """
    os.fdatasync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _checksum_of_whole(head: Mapping[str, Any]) -> tuple[str, bytes, MakeHash] | None:
    etag = str(head.get("ETag", "")).strip('"')
    # S3 sends the type. Servers that do not have no checksum of the whole for uploads in parts.
    presumed = "COMPOSITE" if "-" in etag else "FULL_OBJECT"
    if head.get("ChecksumType", presumed) == "FULL_OBJECT":
        for field, name, make_hash in CHECKSUMS:
            expected = _decode(str(head.get(field, "")))
            if expected:
                return name, expected, make_hash
    if _MD5.fullmatch(etag) and not _etag_is_encrypted(head):
        return "MD5", bytes.fromhex(etag), md5
    return None


def _decode(checksum: str) -> bytes | None:
    """Return the bytes of a base64 checksum; None if it is empty or composite (`…-3`)."""
    try:
        return base64.b64decode(checksum, validate=True) or None
    except binascii.Error:
        return None


def _etag_is_encrypted(head: Mapping[str, Any]) -> bool:
    is_kms = str(head.get("ServerSideEncryption", "")).startswith("aws:kms")
    return is_kms or "SSECustomerAlgorithm" in head
