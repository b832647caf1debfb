# SPDX-License-Identifier: Apache-2.0
"""A recommendation as files for /etc/sysctl.d, each with its evidence and its undo in comments.

Format: sysctl.d(5) of systemd and sysctl.conf(5) of procps, which agree on this syntax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sysctl.change.forms import BYTES, RATIO
from sysctl.change.recommendation import OtherForm, RecommendedChange
from sysctl.knobs.vm import BY_NAME
from sysctl.render.checked import sysctl_lines
from sysctl.render.comments import (
    assignments,
    bytes_warning,
    comment,
    evidence_lines,
    explained,
    labelled,
    override_note,
    wrapped,
)
from sysctl.render.snippet import STEM, TITLE, Format, Snippet

FILE_NAME = f"{STEM}.conf"
FOLDER = "/etc/sysctl.d"
PATH = f"{FOLDER}/{FILE_NAME}"
#: All files that advice may write: as measured, and either other form.
FILE_NAMES = (FILE_NAME, *(f"{STEM}-{kind}.conf" for kind in (RATIO, BYTES)))


def other_file_name(form: OtherForm) -> str:
    """Return `90-writewise-bytes.conf`, for the same thresholds in the form not measured."""
    return f"{STEM}-{form.kind}.conf"


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the file as measured, and the other form if there is one.

    Values that were already in force are written too: the combination was measured.
    """
    if not change.changes_sysctls:
        return ()
    sysctl_lines(change.sysctl_values)
    reasons = {advice.name: advice.reason for advice in change.sysctls}
    measured = Snippet(FILE_NAME, _text(change, change.sysctl_values, reasons, FILE_NAME, None))
    form = change.other_form
    if form is None:
        return (measured,)
    values = _in_form(change, form)
    by_name = {name: reasons.get(name) or _reason_of_pair(reasons, name) for name in values}
    name = other_file_name(form)
    return (measured, Snippet(name, _text(change, values, by_name, name, form)))


def installed_text(change: RecommendedChange, path: str, originals: Mapping[str, int]) -> str:
    """Return the file that `writewise apply` writes to `path` on this host.

    `originals` are the write-back sysctls of this host before the first change, if they are still
    known. Raises InexpressibleError.
    """
    here = replace(change, originals=originals)
    by_hand = undo_command(here, path) if here.undo_values else f"rm {path} && reboot"
    head = [
        f"{TITLE}write-back settings for pulls from S3.",
        *bytes_warning(change.sysctl_values),
        "",
        *evidence_lines(change),
        "",
        "To undo:  writewise rollback",
        *labelled("By hand:", by_hand),
        *override_note(path.rpartition("/")[0]),
    ]
    reasons = {advice.name: advice.reason for advice in change.sysctls}
    return comment(head) + _body(change.sysctl_values, reasons)


def undo_command(change: RecommendedChange, path: str = PATH) -> str:
    """Return the command that removes the file and restores the old values."""
    return f"rm {path} && sysctl -w {assignments(change.undo_values)}"


def _text(
    change: RecommendedChange,
    values: dict[str, int],
    reasons: dict[str, str],
    name: str,
    form: OtherForm | None,
) -> str:
    path = f"{FOLDER}/{name}"
    head = [
        f"{TITLE}write-back settings for pulls from S3.",
        *_form_lines(change, form),
        *(bytes_warning(values) if form is None else ()),
        "",
        *evidence_lines(change),
        "",
        *labelled("To use:", f"install -m 0644 {name} {FOLDER}/ && sysctl -p {path}"),
        *labelled("To undo:", undo_command(change, path)),
        *override_note(FOLDER),
    ]
    return comment(head) + _body(values, reasons)


def _body(values: Mapping[str, int], reasons: Mapping[str, str]) -> str:
    lines = dict(zip(values, sysctl_lines(values)))
    return explained(lines, reasons)


def _in_form(change: RecommendedChange, form: OtherForm) -> dict[str, int]:
    """Return the values with the thresholds of `form` instead of those measured."""
    replaced = {BY_NAME[name].counterpart for name in form.values if name in BY_NAME}
    kept = {name: v for name, v in change.sysctl_values.items() if name not in replaced}
    return {**form.values, **kept}


def _reason_of_pair(reasons: dict[str, str], name: str) -> str:
    knob = BY_NAME.get(name)
    return reasons.get(str(knob.counterpart), "") if knob else ""


def _form_lines(change: RecommendedChange, form: OtherForm | None) -> list[str]:
    """Return comment lines on the form of the thresholds, and on the other file."""
    if form is not None:
        return [
            f"The thresholds of {FILE_NAME} as {form.kind}: use one of the two files, not both.",
            *wrapped(f"{form.note}."),
        ]
    other = change.other_form
    return [f"{other_file_name(other)} has the thresholds as {other.kind}."] if other else []


FORMAT = Format("sysctl.d", render, FILE_NAMES, is_default=True)
