# SPDX-License-Identifier: Apache-2.0
"""obstore, the Python binding of Rust's object_store; it works outside Python's global lock."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from profiler.pull.access import S3Access
from profiler.pull.clients.answers import error_of, head_object
from profiler.pull.clients.interface import Answer, OnBytes
from profiler.pull.clients.ranged_get import write_at
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject

#: obstore's exceptions → S3's error codes, which explain a pull's errors. For HTTP 404 obstore
#: raises Python's own FileNotFoundError.
_CODES = {
    "FileNotFoundError": "404",
    "NotFoundError": "404",
    "PermissionDeniedError": "AccessDenied",
    "UnauthenticatedError": "InvalidAccessKeyId",
    "PreconditionError": "PreconditionFailed",
}
#: Its errors quote S3's answer, of which only the code is used.
_QUOTED_CODE = re.compile(r"<Code>([A-Za-z.]{1,60})</Code>")
#: In the error's text if no connection could be made.
_UNREACHABLE = "kind: Connect,"


class ObstoreClient:
    """Fetches parts of `multipart_chunksize` with `max_concurrency` threads, which write them."""

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        import obstore  # noqa: F401 - fails now if it is missing, not with the first object

        self._client = access.make_client(settings.max_concurrency)
        self._access, self._settings = access.resolved(self._client), settings
        self._parts = ThreadPoolExecutor(settings.max_concurrency)
        self._stores: dict[str, Any] = {}
        self.objects_at_once = settings.max_concurrency

    def download(self, bucket: str, remote: RemoteObject, path: str, on_bytes: OnBytes) -> None:
        """See PullClient. Raises botocore's ClientError, obstore's exceptions, and OSError."""
        store = self.store_of(bucket)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
        try:
            self._download(store, remote, descriptor, on_bytes)
        finally:
            os.close(descriptor)

    def _download(
        self, store: Any, remote: RemoteObject, descriptor: int, on_bytes: OnBytes
    ) -> None:
        step, size = self._settings.multipart_chunksize, remote.size_bytes
        starts = range(0, size, step)
        if len(starts) <= 1:  # in this thread
            self._fetch(store, remote, None, descriptor, on_bytes)
            return
        ranges = [(start, min(start + step, size)) for start in starts]
        parts = [
            self._parts.submit(self._fetch, store, remote, part, descriptor, on_bytes)
            for part in ranges
        ]
        try:
            for part in parts:
                part.result()
        finally:  # no thread may write to the descriptor once it is closed
            for part in parts:
                part.cancel()
            for part in parts:
                with contextlib.suppress(BaseException):
                    part.result()

    def _fetch(
        self,
        store: Any,
        remote: RemoteObject,
        part: tuple[int, int] | None,
        descriptor: int,
        on_bytes: OnBytes,
    ) -> None:
        options: dict[str, Any] = {"if_match": f'"{remote.etag}"'}
        if part is not None:
            options["range"] = part
        position, end = part or (0, remote.size_bytes)
        with explained(self._client.meta.endpoint_url):
            body = store.get(remote.key, options=options)
            for block in body.stream(min_chunk_size=self._settings.io_chunksize):
                view = memoryview(block)
                write_at(descriptor, view, position)
                position += len(view)
                on_bytes(len(view))
        if position != end:
            raise OSError(f"{end - position} bytes are missing")

    def store_of(self, bucket: str) -> Any:
        """Return obstore's store for a bucket, always the same one."""
        return self._stores.get(bucket) or self._stores.setdefault(bucket, self._open(bucket))

    def _open(self, bucket: str) -> Any:
        from obstore.auth.boto3 import Boto3CredentialProvider
        from obstore.store import S3Store

        options: dict[str, Any] = {"skip_signature": True}
        if self._access.sign_requests:
            session = self._access.make_session()
            options = {"credential_provider": Boto3CredentialProvider(session)}
        if self._access.endpoint_url is not None:  # it refuses None
            options["endpoint"] = self._access.endpoint_url
        return S3Store(
            bucket,
            region=self._client.meta.region_name,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": "1h", "connect_timeout": "10s"},
            retry_config={"max_retries": 4},
            **options,
        )

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PullClient."""
        return head_object(self._client, bucket, key, part)


@contextlib.contextmanager
def explained(endpoint_url: str) -> Iterator[None]:
    """Turn obstore's exceptions into botocore's, with S3's code or for an unreachable server."""
    from botocore.exceptions import EndpointConnectionError
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        quoted = _QUOTED_CODE.search(str(error))
        code = quoted.group(1) if quoted else _CODES.get(type(error).__name__)
        if code is None and _UNREACHABLE in str(error):
            raise EndpointConnectionError(endpoint_url=endpoint_url) from None
        if code is None:
            raise
        raise error_of(code) from None
