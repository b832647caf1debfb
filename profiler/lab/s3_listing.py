# SPDX-License-Identifier: Apache-2.0
"""The XML documents of ListBuckets and ListObjectsV2.

Source: the pages of these operations in the Amazon S3 API reference.
"""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote
from xml.sax.saxutils import escape

from profiler.lab.s3_objects import ListedObject, ObjectStore, iso_date

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_MAX_KEYS = 1000


def bucket_document(store: ObjectStore) -> str:
    """Return the answer to ListBuckets."""
    names = "".join(
        f"<Bucket><Name>{escape(name)}</Name><CreationDate>{iso_date(0)}</CreationDate></Bucket>"
        for name in store.buckets()
    )
    body = f"<Owner><ID>lab</ID></Owner><Buckets>{names}</Buckets>"
    return f'<ListAllMyBucketsResult xmlns="{_NAMESPACE}">{body}</ListAllMyBucketsResult>'


@dataclass(frozen=True)
class _Page:
    keys: list[str]
    common_prefixes: list[str]
    next_start: str | None


def _cut_page(keys: Sequence[str], prefix: str, delimiter: str, after: str, limit: int) -> _Page:
    """Return the first `limit` keys and common prefixes after `after`, in order.

    A common prefix counts as one and is listed once, so an `after` within one skips it.
    """
    if limit == 0:
        return _Page([], [], None)
    page_keys: list[str] = []
    folded: list[str] = []
    last = after
    for key in itertools.islice(keys, _first_of(keys, prefix, after), None):
        if not key.startswith(prefix):
            break
        inside, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        common = prefix + inside + delimiter if found else ""
        if common and (common == after or (folded and folded[-1] == common)):
            continue
        if after.endswith(delimiter or "\0") and common and after.startswith(common):
            continue
        if len(page_keys) + len(folded) == limit:
            return _Page(page_keys, folded, last)
        (folded if common else page_keys).append(common or key)
        last = common or key
    return _Page(page_keys, folded, None)


def _first_of(keys: Sequence[str], prefix: str, after: str) -> int:
    """Return the index of the first key with the prefix after `after`, by binary search.

    A listing of many pages needs it for each page.
    """
    low, high = 0, len(keys)
    prefix_bytes, after_bytes = os.fsencode(prefix), os.fsencode(after)
    while low < high:
        middle = (low + high) // 2
        key = os.fsencode(keys[middle])
        if key < prefix_bytes or key <= after_bytes:
            low = middle + 1
        else:
            high = middle
    return low


def listing_document(store: ObjectStore, bucket: str, parameters: Mapping[str, str]) -> str:
    """Return the answer to ListObjectsV2. Raises ValueError for an invalid parameter."""
    prefix, delimiter = parameters.get("prefix", ""), parameters.get("delimiter", "")
    token = parameters.get("continuation-token")
    after = _decode_token(token) if token else parameters.get("start-after", "")
    limit = _parse_max_keys(parameters.get("max-keys", str(_MAX_KEYS)))
    page = _cut_page(store.keys(bucket), prefix, delimiter, after, limit)
    encode = _url_encode if parameters.get("encoding-type") == "url" else escape
    entries = list(store.entries(bucket, page.keys))
    fields = [
        ("Name", escape(bucket)),
        ("Prefix", encode(prefix)),
        *([("Delimiter", encode(delimiter))] if delimiter else []),
        *([("EncodingType", "url")] if encode is _url_encode else []),
        *([("ContinuationToken", escape(token))] if token else []),
        ("MaxKeys", str(limit)),
        ("KeyCount", str(len(entries) + len(page.common_prefixes))),
        ("IsTruncated", "true" if page.next_start is not None else "false"),
    ]
    if page.next_start is not None:
        fields.append(("NextContinuationToken", _encode_token(page.next_start)))
    fields += [("Contents", _contents(entry, encode(entry.key))) for entry in entries]
    fields += [
        ("CommonPrefixes", f"<Prefix>{encode(common)}</Prefix>") for common in page.common_prefixes
    ]
    body = "".join(f"<{name}>{value}</{name}>" for name, value in fields)
    return f'<ListBucketResult xmlns="{_NAMESPACE}">{body}</ListBucketResult>'


def _contents(entry: ListedObject, encoded_key: str) -> str:
    return (
        f"<Key>{encoded_key}</Key><LastModified>{iso_date(entry.modified_s)}</LastModified>"
        f"<ETag>&quot;{entry.digest.etag}&quot;</ETag><Size>{entry.size_bytes}</Size>"
        "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
        "<StorageClass>STANDARD</StorageClass>"
    )


def _url_encode(text: str) -> str:
    return quote(text, safe="/", errors="surrogateescape")


def _parse_max_keys(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("max-keys is not a number")
    return min(int(text[:9]), _MAX_KEYS)


def _encode_token(key: str) -> str:
    return base64.urlsafe_b64encode(os.fsencode(key)).decode()


def _decode_token(token: str) -> str:
    return os.fsdecode(base64.b64decode(token, altchars=b"-_", validate=True))
