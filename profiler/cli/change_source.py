# SPDX-License-Identifier: Apache-2.0
"""Where a recommended change comes from: `recommendation.json`, or results to advise on now."""

from __future__ import annotations

import json
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.files import FileKind
from contracts.shared.text import printable
from profiler.report.advised_change import change_of
from profiler.report.conclusions import verdict_text
from sysctl.advice.advise import advise
from sysctl.change.recommendation import RecommendedChange
from sysctl.change.recommendation_file import from_json
from sysctl.evidence import results
from sysctl.render.transfer import JSON_NAME

_FILE = FileKind(
    noun="recommendation",
    max_bytes=32 * 2**20,
    hint="give the recommendation.json of `writewise advise`, or the results of `writewise sweep`",
)


def read_change(path: Path, *, trusted: bool = False) -> RecommendedChange:
    """Return the change in the file, or the one that its results recommend.

    Raises UsageError; with `trusted`, to change the host, also if other users can write the file.
    """
    name = printable(str(path))
    try:
        document = json.loads(_FILE.read_text(str(path), trusted=trusted))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{name} is not valid JSON, or is truncated: {error}", _FILE.hint
        ) from None
    is_results = isinstance(document, dict) and document.get("format") == results.FORMAT
    change = _advised(path, trusted) if is_results else from_json(document, name)
    if change.is_of_pull_alone:
        raise UsageError(
            f"{name} recommends settings of the pull alone, and nothing to change on a host",
            f"give its {JSON_NAME}, of `writewise advise`, to `writewise pull --transfer`",
        )
    return change


def _advised(path: Path, trusted: bool) -> RecommendedChange:
    recommendation = advise(results.load(path, trusted=trusted))
    change = change_of(recommendation)
    if change is None:
        raise UsageError(
            f"{printable(str(path))} recommends no change, so there is nothing to apply",
            f"its verdict: {printable(verdict_text(recommendation))}",
        )
    return from_json(json.loads(json.dumps(change.to_json())), printable(str(path)))
