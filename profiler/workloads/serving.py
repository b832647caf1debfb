"""A workload's objects, made on this host and served by the lab's S3 server.

Most are hard links, so that a set larger than memory stays in the page cache and costs little
disk. The content depends on the workload alone: two hosts pull the same bytes.
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
    """The server with the workload in the bucket BUCKET, from a folder in TMPDIR of its own.

    What a killed run left there is removed first. Raises PullError when the folder cannot take it,
    WritewiseError when the server does not start.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder())
            make_objects(folder, workload)
        except OSError as error:
            raise explain_local(error, "the workload's objects cannot be made") from error
        yield stack.enter_context(
            S3Server(
                folder / "buckets",
                first_byte_latency_s=workload.first_byte_latency_ns / 1e9,
                rate_bytes_per_s=float(workload.rate_bytes_per_s),
            )
        )


def make_objects(folder: Path, workload: Workload) -> None:
    """Make `buckets/BUCKET` in `folder`, and beside it the contents that its files link to."""
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
    """The files in as many TAR files, with the names that they would have as objects."""
    for shard, files in enumerate(workload.files_of_shards):
        with tarfile.open(bucket / f"shard-{shard:04}.tar", "x") as archive:
            for number in files:
                entry = tarfile.TarInfo(f"{number:06}.bin")
                entry.size = workload.size_bytes
                with _content(contents, workload, number).open("rb") as file:
                    archive.addfile(entry, file)


def _write(path: Path, size_bytes: int, number: int) -> None:
    """Bytes that no device can compress and any host makes alike: SHAKE-128 of the position."""
    with path.open("xb") as file:
        for position in range(0, size_bytes, _BLOCK_BYTES):
            block = hashlib.shake_128(f"writewise {number} {position}".encode())
            file.write(block.digest(min(_BLOCK_BYTES, size_bytes - position)))
