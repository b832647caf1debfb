"""What a tuning leaves in a folder: the settings in each form that a program reads, the evidence.

`~/.aws/config` has an `s3` section that the AWS CLI reads and boto3 does not. Its keys are others
(AWS CLI's s3 configuration): max_concurrent_requests is max_concurrency; multipart_threshold,
multipart_chunksize and io_chunksize are the same; its max_queue_size is s3transfer's request
queue, not max_io_queue, which has no key, as use_threads has none.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from contracts.errors import UsageError
from contracts.text import printable
from contracts.writing import create, directory_of, make_directories, remove
from profiler.pull.clients.catalogue import by_name
from profiler.pull.settings import TransferSettings, transfer_document
from profiler.tune import results
from profiler.tune.tuner import Tuning
from sysctl.render.transfer import python_code

TRANSFER_FILE = "transfer.json"
_SETTINGS_FILES = (TRANSFER_FILE, "transfer_config.py", "aws_config")
_AWS_KEYS = (
    ("max_concurrent_requests", "max_concurrency"),
    ("multipart_threshold", "multipart_threshold"),
    ("multipart_chunksize", "multipart_chunksize"),
    ("io_chunksize", "io_chunksize"),
)
_NO_AWS_KEY = ("max_io_queue", "use_threads")


def aws_config(settings: TransferSettings) -> str:
    """The settings as a section of `~/.aws/config`, which the AWS CLI reads and boto3 does not."""
    lines = [f"  {theirs} = {getattr(settings, ours)}" for theirs, ours in _AWS_KEYS]
    unmapped = ", ".join(f"{name} ({getattr(settings, name)})" for name in _NO_AWS_KEY)
    return "\n".join(
        (
            "# for the AWS CLI only: boto3 does not read this section",
            f"# without a key there: {unmapped}",
            "[default]",
            "s3 =",
            *lines,
            "",
        )
    )


def tuning_document(tuning: Tuning) -> dict[str, object]:
    """All of a tuning as JSON."""
    checked = tuning.recheck
    return {
        "context": tuning.context,
        "ended": tuning.ended,
        "interrupted": tuning.ended_by is not None,
        "limit": tuning.limit,
        "problem": tuning.problem,
        "trials": results.rows(tuning),
        "recheck": None
        if checked is None
        else {
            "default": [asdict(pull) for pull in checked.default],
            "best": [asdict(pull) for pull in checked.best],
            "interval": asdict(checked.interval),
            "noise_floor": checked.noise_floor,
            "pairs_wanted": checked.wanted,
            "is_faster": checked.is_faster,
        },
        "recommended_client": tuning.recommended_client,
        "recommended": None if tuning.recommended is None else asdict(tuning.recommended),
    }


def write_outputs(tuning: Tuning, folder: Path) -> tuple[list[str], list[str]]:
    """Write all files to `folder`, which is made; the names written, and those left out and why.

    Files of the settings are written only where they are recommended; those of an earlier tuning
    are replaced or, where there is nothing to recommend now, removed. Raises UsageError.
    """
    make_directories(folder)
    texts: dict[str, str] = {
        "tuning.json": json.dumps(tuning_document(tuning), indent=2) + "\n",
        "trials.csv": results.csv_text(tuning),
    }
    wanted = _settings_files(tuning.recommended, tuning.recommended_client)
    texts.update({name: text for name, text in wanted.items() if text is not None})
    for name, text in wanted.items():
        if text is None:
            remove(folder / name)
    files = {name: text.encode() for name, text in texts.items()}
    extra, left_out = _optional(tuning)
    files.update(extra)
    for name, content in files.items():
        _write(folder / name, content)
    return list(files), left_out


def _settings_files(settings: TransferSettings | None, client: str | None) -> dict[str, str | None]:
    """The text of each file of the settings; None for one that is not to be.

    boto3's and the AWS CLI's only for a client that is theirs.
    """
    files: dict[str, str | None] = dict.fromkeys(_SETTINGS_FILES)
    if settings is not None:
        document = {**transfer_document(settings), "client": client}
        files[TRANSFER_FILE] = json.dumps(document, indent=2) + "\n"
    if settings is not None and client and by_name(client).transfer_client == "classic":
        files["transfer_config.py"] = python_code(asdict(settings))
        files["aws_config"] = aws_config(settings)
    return files


def _optional(tuning: Tuning) -> tuple[dict[str, bytes], list[str]]:
    makers: tuple[tuple[str, str, Callable[[Tuning], bytes]], ...] = (
        ("trials.parquet", "pyarrow", results.parquet_bytes),
        ("best.svg", "matplotlib", results.image_bytes),
    )
    made = {name: make(tuning) for name, package, make in makers if results.is_installed(package)}
    missing = [f"{name} needs {package}" for name, package, _ in makers if name not in made]
    return made, missing


def _write(path: Path, content: bytes) -> None:
    """Replace `path` at once; a symlink is replaced itself. Raises UsageError."""
    temporary = f".writewise-{secrets.token_hex(8)}"
    try:
        with directory_of(path) as (directory, name):
            try:
                with os.fdopen(create(directory, temporary), "wb") as file:
                    file.write(content)
                os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)
                raise
    except OSError as error:
        message = f"cannot write {printable(str(path))}: {error.strerror}"
        raise UsageError(message, "name another folder with --output") from None
