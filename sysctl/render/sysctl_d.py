"""A recommendation as a file for /etc/sysctl.d, with its evidence and its undo in comments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contracts.units import format_size
from sysctl.advise import Recommendation
from sysctl.explain import SET
from sysctl.forms import BYTES, RATIO, Form
from sysctl.knobs.vm import BY_NAME
from sysctl.render.comments import comment, evidence

FILE_NAME = "90-writewise.conf"
#: All that advice may write: as measured, and either other form.
FILE_NAMES = (FILE_NAME, *(f"90-writewise-{kind}.conf" for kind in (RATIO, BYTES)))


def other_file_name(form: Form) -> str:
    """`90-writewise-bytes.conf`: the same thresholds in the form that was not measured."""
    return f"90-writewise-{form.kind}.conf"


def other_form(recommendation: Recommendation) -> Form | None:
    """The form of the thresholds that was not measured, if they can be written so."""
    forms = [form for form in recommendation.forms or () if not form.is_measured and form.values]
    return forms[0] if forms and _has_change(recommendation) else None


def render(recommendation: Recommendation, form: Form | None = None) -> str:
    """The file's text; a comment alone when no sysctl is to be changed. Deterministic.

    With `form` its thresholds are written in place of those measured. Values that were in force
    already are written too: what was measured is the combination.
    """
    best, price = recommendation.best, recommendation.price
    if best is None or price is None or not _has_change(recommendation):
        return comment(["Written by writewise: no change of a sysctl is recommended."])
    settings = _settings(recommendation, form)
    name = other_file_name(form) if form else FILE_NAME
    present = recommendation.present.setting.values
    originals = " ".join(f"{n}={v}" for n, v in _originals(settings, present).items())
    head = [
        "Written by writewise: write-back settings for pulls from S3.",
        *_form_lines(recommendation, form),
        "",
        *evidence(recommendation),
        "",
        f"The price: {format_size(price.at_risk_bytes)} of written data was in memory only at most",
        f"(with a larger pull up to {format_size(price.ceiling_bytes)}); a power loss takes it.",
        "",
        f"To use:   install -m 0644 {name} /etc/sysctl.d/ && sysctl -p /etc/sysctl.d/{name}",
        f"To undo:  rm /etc/sysctl.d/{name} && sysctl -w {originals}",
    ]
    body = "".join(
        f"\n{comment([why] if why else [])}{n} = {int(v)}\n" for n, (v, why) in settings.items()
    )
    return comment(head) + body


def _has_change(recommendation: Recommendation) -> bool:
    return any(r.name in BY_NAME and r.action == SET for r in recommendation.reasons)


def _settings(recommendation: Recommendation, form: Form | None) -> dict[str, tuple[int, str]]:
    """Each sysctl with its value and why; the thresholds those of `form`."""
    measured = {r.name: (int(r.value), r.why) for r in recommendation.reasons if r.name in BY_NAME}
    if form is None:
        return measured
    replaced = {str(BY_NAME[name].counterpart) for name in form.values}
    kept = {name: value for name, value in measured.items() if name not in replaced}
    whys = {name: measured.get(str(BY_NAME[name].counterpart), (0, ""))[1] for name in form.values}
    return {**{name: (value, whys[name]) for name, value in form.values.items()}, **kept}


def _form_lines(recommendation: Recommendation, form: Form | None) -> list[str]:
    """Which of the two files is which."""
    if form is not None:
        return [
            f"The thresholds of {FILE_NAME} as {form.kind}: use one of the two files, not both.",
            f"{form.note}.",
        ]
    other = other_form(recommendation)
    return [f"The same as {other.kind} is in {other_file_name(other)}."] if other else []


def _originals(names: Iterable[str], present: Mapping[str, int]) -> dict[str, int]:
    """What to write back: of a ratio/bytes pair the member that was in force."""
    originals: dict[str, int] = {}
    for name in names:
        for member in (name, BY_NAME[name].counterpart):
            if member is not None and member in present:
                originals[member] = present[member]
    return originals
