# SPDX-License-Identifier: Apache-2.0
"""The transfer settings of a recommendation, for `--transfer` and as boto3's `TransferConfig`.

They are not installed on a host: they are options of the pull.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sysctl.change.recommendation import RecommendedChange
from sysctl.knobs.transfer import TRANSFER_BY_NAME, TRANSFER_CLIENT, TRANSFER_KNOBS
from sysctl.render.checked import known_transfer
from sysctl.render.comments import comment, evidence_lines, one_line
from sysctl.render.snippet import STEM, TITLE, Format, Snippet

JSON_NAME = f"{STEM}.transfer.json"
PYTHON_NAME = f"{STEM}.transfer_config.py"
_WHAT = f"{TITLE}transfer settings for pulls from S3."
JSON_BEGINS = f'{{\n "about": [\n  "{_WHAT}"'


def render_json(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the file for `writewise pull --transfer`; nothing without transfer settings."""
    if not change.transfer:
        return ()
    about = opening(change, f"writewise pull --transfer {JSON_NAME} …")
    document = {
        "about": [one_line(line) for line in about],
        "settings": all_settings(change.transfer),
        "client": TRANSFER_CLIENT,
    }
    return (Snippet(JSON_NAME, json.dumps(document, indent=1, ensure_ascii=False) + "\n"),)


def render_python(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return a module that makes the TransferConfig; nothing without transfer settings."""
    if not change.transfer:
        return ()
    head = comment(opening(change, f"copy {PYTHON_NAME} into the program that pulls"))
    return (Snippet(PYTHON_NAME, f"{head}\n{python_code(all_settings(change.transfer))}"),)


def opening(change: RecommendedChange, use: str) -> list[str]:
    """Return the first lines of a file of transfer settings, with how to `use` it."""
    return [
        _WHAT,
        *evidence_lines(change),
        f"To use:   {use}",
        "To undo:  pull without them; they change nothing on the host",
    ]


def python_code(settings: Mapping[str, int]) -> str:
    """Return code that makes a TransferConfig; with the classic client, as measured."""
    lines = [f"    {name}={value!r}," for name, value in settings.items()]
    pool = max(10, settings["max_concurrency"])
    return "\n".join(
        (
            "from boto3.s3.transfer import TransferConfig",
            "",
            "config = TransferConfig(",
            *lines,
            '    preferred_transfer_client="classic",',
            ")",
            "# s3.download_file(bucket, key, path, Config=config), with a client made by",
            f'# boto3.client("s3", config=botocore.config.Config(max_pool_connections={pool}))',
            "# A loop that fetches one object after the other takes longer than measured for",
            "# objects below the threshold: `writewise` fetches many of them at once.",
            "",
        )
    )


def all_settings(settings: Mapping[str, int]) -> dict[str, int]:
    """Return all settings by name, with defaults for the others. Raises InexpressibleError."""
    given = known_transfer(settings)
    values = {knob.name: given.get(knob.name, knob.default) for knob in TRANSFER_KNOBS}
    return {name: bool(v) if TRANSFER_BY_NAME[name].is_switch else v for name, v in values.items()}


FORMAT = Format("transfer", render_json, (JSON_NAME,), JSON_BEGINS, is_default=True)
PYTHON_FORMAT = Format("transfer-config", render_python, (PYTHON_NAME,), is_default=True)
