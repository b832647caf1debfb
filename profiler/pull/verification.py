"""Whether the bytes on disk are the object: its size, and the checksum that S3 gives.

S3 gives a checksum of the whole object (x-amz-checksum-type FULL_OBJECT) for objects uploaded
with one, and an MD5 as ETag for those uploaded in one part without KMS or customer keys; of others
a hash of the parts' hashes (`upload_parts`). Where there is none, or the parts' sizes are not told,
the size alone is compared, and the result says so. Source: Amazon S3 user guide, "Checking object
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
    """Compare an open file with HeadObject's answer: the method used, and the problem if any.

    The problem is None if the file is the object. Without `part_bytes` uploads in parts are
    compared by a checksum of the whole or by size alone. Raises OSError, and what `part_bytes`
    raises.
    """
    size_bytes, wanted_bytes = os.fstat(descriptor).st_size, int(head["ContentLength"])
    if size_bytes != wanted_bytes:
        return SIZE_ONLY, f"has {size_bytes} bytes where the object has {wanted_bytes}"
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
    return f"differs from the object: its {method} checksum is another"


def forget_cached(descriptor: int) -> None:
    """Make the next reading of an open file come from its device.

    Only clean pages are dropped (mm/fadvise.c, v6.1), so the file is written back first; a file
    system in memory keeps its pages, which are all it has. Raises OSError.
    """
    os.fdatasync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _checksum_of_whole(head: Mapping[str, Any]) -> tuple[str, bytes, MakeHash] | None:
    etag = str(head.get("ETag", "")).strip('"')
    # Servers that tell no type have none of the whole for what came in parts; S3 tells it.
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
    """The bytes of a base64 checksum; None without one and for a composite one (`…-3`)."""
    try:
        return base64.b64decode(checksum, validate=True) or None
    except binascii.Error:
        return None


def _etag_is_encrypted(head: Mapping[str, Any]) -> bool:
    is_kms = str(head.get("ServerSideEncryption", "")).startswith("aws:kms")
    return is_kms or "SSECustomerAlgorithm" in head
