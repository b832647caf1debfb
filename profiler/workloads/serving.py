# SPDX-License-Identifier: Apache-2.0
"""Makes a workload's objects on this host and serves them with the lab's S3 server.

Most objects are hard links, so a set larger than memory stays in the page cache and needs little
disk space. The contents depend only on the workload, so all hosts pull the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from profiler.lab.s3_server import S3Server
from profiler.pull.errors import explain_local
from profiler.workloads.catalogue import Workload
from profiler.workloads.folder import temporary_folder

BUCKET = "workload"
_BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def served(workload: Workload) -> Iterator[S3Server]:
    """Yield a server with the workload in BUCKET, from a temporary folder.

    What killed runs left is removed first. Raises PullError if the objects do not fit into the
    folder, WritewiseError if the server does not start.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder())
            make_objects(folder, workload)
        except OSError as error:
            raise explain_local(error, "cannot make the workload's objects") from error
        yield stack.enter_context(
            S3Server(
                folder / "buckets",
                first_byte_latency_s=workload.first_byte_latency_ns / 1e9,
                rate_bytes_per_s=float(workload.rate_bytes_per_s),
            )
        )


def make_objects(folder: Path, workload: Workload) -> None:
    """Make `buckets/BUCKET` in `folder`, and `contents` with the files that it links to."""
    bucket, contents = folder / "buckets" / BUCKET, folder / "contents"
    bucket.mkdir(parents=True)
    contents.mkdir()
    for number in range(workload.contents):
        _write(contents / str(number), workload.size_bytes, number)
    if workload.shards:
        _make_shards(bucket, contents, workload)
        return
    for number in range(workload.objects):
        os.link(_content(contents, workload, number), bucket / f"{number:06}.bin")


def _content(contents: Path, workload: Workload, number: int) -> Path:
    return contents / str(number % workload.contents)


def _make_shards(bucket: Path, contents: Path, workload: Workload) -> None:
    """Write the files into TAR files, under the names that they would have as objects."""
    for shard, files in enumerate(workload.files_of_shards):
        with tarfile.open(bucket / f"shard-{shard:04}.tar", "x") as archive:
            for number in files:
                entry = tarfile.TarInfo(f"{number:06}.bin")
                entry.size = workload.size_bytes
                with _content(contents, workload, number).open("rb") as file:
                    archive.addfile(entry, file)


def _write(path: Path, size_bytes: int, number: int) -> None:
    """Write incompressible bytes that are the same on every host: SHAKE-128 of the position."""
    with path.open("xb") as file:
        for position in range(0, size_bytes, _BLOCK_BYTES):
            block = hashlib.shake_128(f"writewise {number} {position}".encode())
            file.write(block.digest(min(_BLOCK_BYTES, size_bytes - position)))
