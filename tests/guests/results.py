# SPDX-License-Identifier: Apache-2.0
"""The results of the guests' runs, and their matrix in docs/development/kernels.md."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

from tests.guests.catalogue import GUESTS, Guest, Role
from tests.guests.features import FEATURES, Feature
from tests.guests.images import PROJECT
from tests.guests.running import FeatureResult, GuestResult

FILE = Path(__file__).with_name("results.json")
_LOCK = threading.Lock()
DOCS = PROJECT / "docs/development/kernels.md"
#: Why a feature is not tested on a guest.
_UNTESTED = {
    Role.CORE: "only kernels that are refused need it",
    Role.OTHER: "too slow on emulated CPUs; this guest runs what depends most on the kernel, "
    "the compiler and Python",
    Role.REFUSED: "the row of refused probes runs `advise`, and `apply`, `verify`, `status` and "
    "`rollback` of sysctls; the rest was not run",
}
_ELSEWHERE = "run on another guest, which is enough"
_REFUSED = "Linux 5.10 lacks what the probes need; `doctor` names it"


def keep(result: GuestResult) -> None:
    """Replace a guest's results; those of features that did not run stay."""
    with _LOCK:
        _keep(result)


def _keep(result: GuestResult) -> None:
    kept = load()
    former = kept.get(result.guest, {})
    if former.get("kernel") != result.kernel:  # another image: its results are void
        former = {"features": {}}
    document = result.to_json()
    document["features"] = {**former["features"], **document["features"]}
    kept[result.guest] = document
    _write(kept)


def forget(guest: Guest) -> None:
    """Remove a guest's results: none is valid for a guest that does not boot."""
    with _LOCK:
        _write({name: found for name, found in load().items() if name != guest.name})


def _write(kept: dict[str, Any]) -> None:
    FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def load() -> dict[str, Any]:
    """Return the results by guest."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def summary(result: GuestResult) -> str:
    """Return the sentence that ends the run of a guest."""
    failed = [name for name, each in result.features.items() if each.failed or not each.passed]
    verdict = f"failed: {', '.join(failed)}" if failed else "every feature passed"
    return f"{result.guest} ({result.kernel}, boot {result.boot_s:.0f} s): {verdict}"


def matrix() -> str:
    """Return the Markdown table, with a row per feature and a column per guest, and its notes."""
    kept = load()
    notes: list[str] = []
    kernels = ["kernel", *(kept.get(guest.name, {}).get("kernel", "–") for guest in GUESTS)]
    rows = [["", *(guest.name for guest in GUESTS)], ["---"] * (1 + len(GUESTS)), kernels]
    for feature in FEATURES:
        cells = [_cell(feature, guest, kept.get(guest.name, {}), notes) for guest in GUESTS]
        rows.append([feature.name, *cells])
    boots = [f"{kept[g.name]['boot_s']:.0f} s" if g.name in kept else "–" for g in GUESTS]
    rows.append(["boot to the first command", *boots])
    rows.append(["all features, minutes", *(_minutes(kept.get(g.name, {})) for g in GUESTS)])
    rows.append(["oldest result", *(_oldest(kept.get(g.name, {})) for g in GUESTS)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *(f"{at}. {note}." for at, note in enumerate(notes, 1))])


def _minutes(document: dict[str, Any]) -> str:
    spent_s = document.get("boot_s", 0.0)
    spent_s += sum(each["seconds"] for each in document.get("features", {}).values())
    return f"{spent_s / 60:.0f}" if spent_s else "–"


def _oldest(document: dict[str, Any]) -> str:
    """Return the time and the commit of the oldest of a guest's results."""
    commits = [each.get("commit", "") for each in document.get("features", {}).values()]
    return min(commits, default="–") or "22 November, before commits were kept"


def _cell(feature: Feature, guest: Guest, document: dict[str, Any], notes: list[str]) -> str:
    """Return the text of one cell; a reason goes to the notes, and its number into the cell."""

    def noted(text: str, reason: str) -> str:
        if reason not in notes:
            notes.append(reason)
        return f"{text} ({notes.index(reason) + 1})"

    if not feature.is_for(guest):
        if guest.role is Role.REFUSED and feature.needs_probes:
            return noted("refused", _REFUSED)
        why = _ELSEWHERE if feature.guests else _UNTESTED[guest.role]
        return noted("untested", why)
    found = document.get("features", {}).get(feature.name)
    if found is None:
        return "not run yet"
    result = FeatureResult(**found)
    if result.failed or not result.passed:
        return f"**{result.failed} failed**"
    return " ".join([f"{result.passed} pass", *(noted("skip", each) for each in result.skipped)])


def write_docs(name: str, table: str) -> None:
    """Write a table between its two comments in docs/development/kernels.md."""
    between = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
    text = between.sub(
        lambda found: f"{found[1]}\n{table}\n\n{found[2]}", DOCS.read_text(), count=1
    )
    DOCS.write_text(text)
