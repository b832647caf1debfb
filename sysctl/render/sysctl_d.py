"""A recommendation as files for /etc/sysctl.d, each with its evidence and its undo in comments.

Format: sysctl.d(5) of systemd and sysctl.conf(5) of procps, which agree on what is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sysctl.change.forms import BYTES, RATIO
from sysctl.change.recommendation import OtherForm, RecommendedChange
from sysctl.knobs.vm import BY_NAME
from sysctl.render.checked import sysctl_lines
from sysctl.render.comments import assignments, bytes_warning, comment, evidence_lines, explained
from sysctl.render.snippet import STEM, TITLE, Format, Snippet

FILE_NAME = f"{STEM}.conf"
FOLDER = "/etc/sysctl.d"
PATH = f"{FOLDER}/{FILE_NAME}"
#: All that advice may write: as measured, and either other form.
FILE_NAMES = (FILE_NAME, *(f"{STEM}-{kind}.conf" for kind in (RATIO, BYTES)))


def other_file_name(form: OtherForm) -> str:
    """`90-writewise-bytes.conf`: the same thresholds in the form that was not measured."""
    return f"{STEM}-{form.kind}.conf"


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The file as measured, and the other form beside it where there is one.

    Values that were in force already are written too: what was measured is the combination.
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
    told = {name: reasons.get(name) or _reason_of_pair(reasons, name) for name in values}
    name = other_file_name(form)
    return (measured, Snippet(name, _text(change, values, told, name, form)))


def installed_text(change: RecommendedChange, path: str, originals: Mapping[str, int]) -> str:
    """The file as measured for this host, where `writewise apply` puts it at `path`.

    `originals` are the write-back sysctls of this host before the first change, none if they are
    not known any more. Raises InexpressibleError.
    """
    here = replace(change, originals=originals)
    by_hand = undo_command(here, path) if here.undo_values else f"rm {path}, and boot"
    head = [
        f"{TITLE}write-back settings for pulls from S3.",
        *bytes_warning(change.sysctl_values),
        "",
        *evidence_lines(change),
        "",
        "To undo:  writewise rollback",
        f"By hand:  {by_hand}",
    ]
    reasons = {advice.name: advice.reason for advice in change.sysctls}
    return comment(head) + _body(change.sysctl_values, reasons)


def undo_command(change: RecommendedChange, path: str = PATH) -> str:
    """What takes the file back, and brings back what was in force."""
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
        f"To use:   install -m 0644 {name} {FOLDER}/ && sysctl -p {path}",
        f"To undo:  {undo_command(change, path)}",
    ]
    return comment(head) + _body(values, reasons)


def _body(values: Mapping[str, int], reasons: Mapping[str, str]) -> str:
    lines = dict(zip(values, sysctl_lines(values)))
    return explained(lines, reasons)


def _in_form(change: RecommendedChange, form: OtherForm) -> dict[str, int]:
    """The values with the thresholds of `form` in place of those measured."""
    replaced = {BY_NAME[name].counterpart for name in form.values if name in BY_NAME}
    kept = {name: v for name, v in change.sysctl_values.items() if name not in replaced}
    return {**form.values, **kept}


def _reason_of_pair(reasons: dict[str, str], name: str) -> str:
    knob = BY_NAME.get(name)
    return reasons.get(str(knob.counterpart), "") if knob else ""


def _form_lines(change: RecommendedChange, form: OtherForm | None) -> list[str]:
    """Which of the two files is which."""
    if form is not None:
        return [
            f"The thresholds of {FILE_NAME} as {form.kind}: use one of the two files, not both.",
            f"{form.note}.",
        ]
    other = change.other_form
    return [f"The same as {other.kind} is in {other_file_name(other)}."] if other else []


FORMAT = Format("sysctl.d", render, FILE_NAMES, is_default=True)
