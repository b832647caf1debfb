# SPDX-License-Identifier: Apache-2.0
"""What to do after a report, as a command to copy that works in every directory."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from contracts.shared.installation import program
from contracts.shared.text import printable
from contracts.shared.units import exact_size
from profiler.report.console import print_lines
from profiler.report.plan_words import volume_options
from sysctl.advice.advise import Recommendation
from sysctl.advice.conclusions import Case, Sampled
from sysctl.advice.reasons import SET
from sysctl.change.recommendation import FILE_NAME
from sysctl.knobs.transfer import TRANSFER_BY_NAME
from sysctl.knobs.vm import THRESHOLDS
from sysctl.render.transfer import JSON_NAME

_INDENT = len("Next: ")
_OR_WHILE_NEEDED = "It asks first; `rollback` undoes it. Without a standing risk, during pulls:"
#: A bound is rounded up to a multiple, so that the pull that was measured fits.
_BOUND_STEP_BYTES = 256 * 2**20


@dataclass(frozen=True)
class NextStep:
    """A command (empty: none) and a sentence about it."""

    command: str
    sentence: str = ""


def command(*words: str, as_root: bool = False) -> str:
    """Return a Writewise command with its words quoted, and `sudo` if it needs root."""
    called = f"sudo {program()}" if as_root else program()
    return " ".join([called, *map(shlex.quote, words)])


def print_next(steps: Sequence[NextStep], console: Console) -> None:
    """Print `Next:`, each command on one line, and its purpose below it."""
    for number, step in enumerate(steps):
        lead = "\nNext: " if number == 0 else " " * _INDENT
        if step.command:
            text = Text(lead + printable(step.command), style="bold")
            console.print(text, soft_wrap=True)
            lead = " " * _INDENT
        if step.sentence:
            print_lines([f"{lead}{step.sentence}".lstrip("\n")], console, hanging=_INDENT)


def next_steps(
    recommendation: Recommendation,
    results: Path,
    written: Sequence[Path] = (),
    *,
    has_details: bool = False,
) -> list[NextStep]:
    """Return what to do after a sweep with its results in `results` and the files written."""
    first = _first_step(recommendation, results, {path.name: path for path in written})
    more = _while_needed(recommendation)
    steps = [replace(first, sentence=_OR_WHILE_NEEDED) if more else first, *more]
    return steps if has_details else [*steps, _details(results)]


def _first_step(
    recommendation: Recommendation, results: Path, by_name: Mapping[str, Path]
) -> NextStep:
    if recommendation.best is None:
        return _after_none(recommendation, results)
    changed = {reason.name for reason in recommendation.reasons if reason.action == SET}
    if changed <= set(TRANSFER_BY_NAME):
        return _after_transfer(recommendation, results, by_name.get(JSON_NAME))
    return _after_change(by_name.get(FILE_NAME, results))


def _details(results: Path) -> NextStep:
    return NextStep(command("advise", "--details", str(results.absolute())))


def _while_needed(recommendation: Recommendation) -> list[NextStep]:
    """Return how to have higher thresholds only while a pull is written."""
    price = recommendation.price
    changed = {reason.name for reason in recommendation.reasons if reason.action == SET}
    if recommendation.best is None or price is None or not changed & set(THRESHOLDS):
        return []
    bound_bytes = -(-price.at_risk_bytes // _BOUND_STEP_BYTES) * _BOUND_STEP_BYTES
    bound = ("--max-at-risk", exact_size(bound_bytes))
    place = recommendation.analysis.runs.circumstances.node.destination or "DEST"
    return [
        NextStep(command("run", "--auto", "--on", place, *bound, "--", "COMMAND", as_root=True)),
        NextStep(command("govern", place, *bound, as_root=True)),
    ]


def _after_change(applied: Path) -> NextStep:
    return NextStep(
        command("apply", str(applied.absolute()), as_root=True),
        "It shows each change and asks first. `writewise rollback` undoes it.",
    )


def _after_transfer(recommendation: Recommendation, results: Path, file: Path | None) -> NextStep:
    if file is None:
        writes = "It writes the file that `writewise pull --transfer` reads."
        return NextStep(command("advise", str(results.absolute()), "--format", "transfer"), writes)
    return NextStep(
        command("pull", *_place(recommendation), "--transfer", str(file.absolute())),
        "Every pull with this file uses the settings; nothing on the host changes.",
    )


def _place(recommendation: Recommendation) -> list[str]:
    """Return source and destination of the pulls as words of a command."""
    node = recommendation.analysis.runs.circumstances.node
    place = [node.source or "s3://BUCKET/PREFIX", node.destination or "DEST"]
    return place + (["--endpoint-url", node.endpoint_url] if node.endpoint_url else [])


def _after_none(recommendation: Recommendation, results: Path) -> NextStep:
    place = _place(recommendation)
    file = str(results.absolute())
    other_file = str(results.absolute().with_name(f"{results.stem}-again.json"))
    sweep = ("sweep", *place)
    for note in recommendation.notes:
        if isinstance(note, Sampled) and note.hides_waits:
            larger = ("--max-bytes", exact_size(note.enough_bytes), "--output", other_file)
            return NextStep(command(*sweep, *larger, as_root=True))
    volume = recommendation.volume
    if volume.volume is not None and volume.choice is not None:
        shows = "It shows this volume in full: credits, repeated pulls, what limits it."
        return NextStep(
            command("plan", "--results", file, *volume_options(volume.choice.other.plan)), shows
        )
    return {
        Case.NOTHING_TO_GAIN: NextStep(
            command("transfer", "tune", *place), "It tries the settings of the pull itself."
        ),
        Case.OTHER_WAITS: NextStep(
            command("pull", *place, as_root=True), "It shows what the writes waited for."
        ),
        Case.BEYOND_MEMORY: NextStep(
            command("predict", file, "--memory", "64GiB"),
            "It predicts the pull on a host with more memory.",
        ),
        Case.NOISE: NextStep(
            command(*sweep, "--output", other_file, as_root=True),
            "Sweep again when the host is quieter, or with a larger --budget.",
        ),
        Case.NOTHING_MEASURED: NextStep(
            command(*sweep, "--output", file, "--resume", as_root=True),
            "Remove the cause first.",
        ),
        Case.UNFINISHED: NextStep(
            command(*sweep, "--output", file, "--resume", as_root=True),
            "It continues this sweep; give it the options of the first call.",
        ),
        Case.NOT_WITHIN_LIMITS: NextStep(
            command("advise", file, "--max-at-risk", "SIZE"),
            "It shows what a higher limit gains.",
        ),
        Case.PRESENT_BEYOND_LIMITS: NextStep(
            command(*sweep, "--output", other_file, as_root=True),
            "Give it your limits: it searches for settings within them.",
        ),
    }.get(
        recommendation.case,
        NextStep(
            command("pull", *place, as_root=True),
            "Keep the current settings. This shows what slows the pull down.",
        ),
    )
