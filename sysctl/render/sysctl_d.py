"""A recommendation as a file for /etc/sysctl.d, with its evidence and its undo in comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contracts.units import format_size
from sysctl.advise import Recommendation
from sysctl.explain import Reason
from sysctl.knobs.vm import BY_NAME
from sysctl.render.comments import comment, evidence

FILE_NAME = "90-writewise.conf"


def render(recommendation: Recommendation) -> str:
    """The file's text; a comment alone when no sysctl is to be changed. Deterministic.

    Values that were in force already are written too: what was measured is the combination.
    """
    reasons = [r for r in recommendation.reasons if r.name in BY_NAME]
    if recommendation.best is None or not any(r.action == "set" for r in reasons):
        return comment(["Written by writewise: no change of a sysctl is recommended."])
    thresholds = recommendation.best.thresholds
    present = recommendation.present.setting.values
    head = [
        "Written by writewise: write-back settings for pulls from S3.",
        "",
        *evidence(recommendation),
        "",
        f"The price: up to {format_size(thresholds.dirty_bytes)} of written data is in memory only",
        "and would be lost with the power.",
        "",
        f"To use:   install -m 0644 {FILE_NAME} /etc/sysctl.d/ && "
        f"sysctl -p /etc/sysctl.d/{FILE_NAME}",
        f"To undo:  rm /etc/sysctl.d/{FILE_NAME} && sysctl -w "
        + " ".join(f"{name}={value}" for name, value in _originals(reasons, present).items()),
    ]
    body = "".join(f"\n{comment([r.why])}{r.name} = {int(r.value)}\n" for r in reasons)
    return comment(head) + body


def _originals(reasons: Sequence[Reason], present: Mapping[str, int]) -> dict[str, int]:
    """What to write back: of a ratio/bytes pair the member that was in force."""
    originals: dict[str, int] = {}
    for reason in reasons:
        counterpart = BY_NAME[reason.name].counterpart
        for name in (reason.name, counterpart):
            if name is not None and name in present:
                originals[name] = present[name]
    return originals
