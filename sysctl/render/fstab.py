"""A recommendation as a line for /etc/fstab (fstab(5)), with its undo in comments."""

from __future__ import annotations

from sysctl.advise import Recommendation
from sysctl.explain import MOUNT_OPTIONS
from sysctl.knobs.mount import split_options
from sysctl.render.comments import comment

FILE_NAME = "fstab.writewise"
_ESCAPED = str.maketrans({" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134", "#": "\\043"})


def render(recommendation: Recommendation) -> str:
    """The line, or a comment alone when no mount option is to be changed. Deterministic."""
    reasons = [r for r in recommendation.reasons if r.name == MOUNT_OPTIONS]
    best = recommendation.best
    if best is None or not any(r.action == "set" for r in reasons):
        tried = [f"  {r.action} {r.value}: {r.why}" for r in reasons]
        return comment(["Written by writewise: no change of mount options is recommended.", *tried])
    words = split_options(best.setting.mount_options or "")
    return comment(_head(recommendation)) + _line(recommendation, words)


def _head(recommendation: Recommendation) -> list[str]:
    reasons = [r for r in recommendation.reasons if r.name == MOUNT_OPTIONS]
    present = ",".join(recommendation.results.context.get("mount_options", ())) or "defaults"
    return [
        "Written by writewise: the options (4th field) for this volume in /etc/fstab.",
        *(f"  {r.action} {r.value}: {r.why}" for r in reasons),
        f"To undo: write the old options back (they were {present}) and mount afresh.",
        "A device name may change between boots: prefer the UUID= that your line has.",
    ]


def _line(recommendation: Recommendation, words: tuple[str, ...]) -> str:
    context = recommendation.results.context
    policy = [str(option) for option in context.get("mount_policy", ())]
    options = ",".join(dict.fromkeys([*policy, *words])) or "defaults"
    fields = (context.get("device", "?"), context.get("mount_target", "?"), context["fstype"])
    first = " ".join(str(field).translate(_ESCAPED) for field in fields)
    return f"{first} {options.translate(_ESCAPED)} 0 0\n"
