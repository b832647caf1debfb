"""What a tuning leaves in a folder: the settings in each form that a program reads, the evidence.

`~/.aws/config` has an `s3` section that the AWS CLI reads and boto3 does not. Its keys are others
(AWS CLI's s3 configuration): max_concurrent_requests is max_concurrency; multipart_threshold,
multipart_chunksize and io_chunksize are the same; its max_queue_size is s3transfer's request
queue, not max_io_queue, which has no key, as use_threads has none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from profiler.pull.clients.catalogue import by_name
from profiler.pull.settings import TransferSettings, transfer_document
from profiler.tune import results
from profiler.tune.folder import SETTINGS_FILES, write
from profiler.tune.recheck import Recheck
from profiler.tune.tuner import Tuning
from sysctl.render.comments import comment
from sysctl.render.snippet import TITLE
from sysctl.render.transfer import python_code

_WHAT = "transfer settings that `writewise transfer tune` found."
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
            f"# {TITLE}{_WHAT}",
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
    return {
        "about": f"{TITLE}all that `writewise transfer tune` measured.",
        "context": tuning.context,
        "ended": tuning.ended,
        "interrupted": tuning.ended_by is not None,
        "limit": tuning.limit,
        "problem": tuning.problem,
        "trials": results.rows(tuning),
        "recheck": None if tuning.recheck is None else _recheck_document(tuning.recheck),
        "recommended_client": tuning.recommended_client,
        "recommended": None if tuning.recommended is None else asdict(tuning.recommended),
    }


def _recheck_document(checked: Recheck) -> dict[str, object]:
    """JSON has no infinity: the high end that a single pair does not tell is null."""
    interval = checked.interval
    high = interval.high if math.isfinite(interval.high) else None
    return {
        "default": [asdict(pull) for pull in checked.default],
        "best": [asdict(pull) for pull in checked.best],
        "interval": {**asdict(interval), "high": high},
        "noise_floor": checked.noise_floor,
        "pairs_wanted": checked.wanted,
        "is_faster": checked.is_faster,
    }


def write_outputs(tuning: Tuning, folder: Path) -> tuple[list[str], list[str]]:
    """Write all files to `folder`, which is made; the names written, and those left out and why.

    Files of the settings are written only where they are recommended; those of an earlier tuning
    are replaced or, where this one found that nothing is to be recommended, removed. Raises
    UsageError, before the first is written where one would replace a file that is not ours.
    """
    document = json.dumps(tuning_document(tuning), indent=2, allow_nan=False)
    files: dict[str, bytes | None] = {
        "tuning.json": f"{document}\n".encode(),
        "trials.csv": results.csv_text(tuning).encode(),
    }
    if tuning.has_verdict:
        files.update(_settings_files(tuning.recommended, tuning.recommended_client))
    extra, left_out = _optional(tuning)
    files.update(extra)
    write(folder, files)
    return [name for name, content in files.items() if content is not None], left_out


def _settings_files(
    settings: TransferSettings | None, client: str | None
) -> dict[str, bytes | None]:
    """The content of each file of the settings; None for one that is not to be.

    boto3's and the AWS CLI's only for a client that is theirs.
    """
    texts: dict[str, str] = {}
    if settings is not None:
        about = f"{TITLE}{_WHAT}"
        document = {"about": about, **transfer_document(settings), "client": client}
        texts["transfer.json"] = json.dumps(document, indent=2) + "\n"
    if settings is not None and client and by_name(client).transfer_client == "classic":
        texts["transfer_config.py"] = comment([f"{TITLE}{_WHAT}"]) + python_code(asdict(settings))
        texts["aws_config"] = aws_config(settings)
    return {name: texts[name].encode() if name in texts else None for name in SETTINGS_FILES}


def _optional(tuning: Tuning) -> tuple[dict[str, bytes], list[str]]:
    makers: tuple[tuple[str, str, Callable[[Tuning], bytes]], ...] = (
        ("trials.parquet", "pyarrow", results.parquet_bytes),
        ("best.svg", "matplotlib", results.image_bytes),
    )
    made = {name: make(tuning) for name, package, make in makers if results.is_installed(package)}
    missing = [f"{name} needs {package}" for name, package, _ in makers if name not in made]
    return made, missing
