"""A recommendation as a TuneD profile (tuned.conf(5)): its sysctls.

TuneD brings the originals back when another profile is chosen or its service stops, so a profile
needs no undo of its own. A file in /etc/sysctl.d wins over it (`reapply_sysctl`).
"""

from __future__ import annotations

from sysctl.change.recommendation import RecommendedChange
from sysctl.render.checked import sysctl_lines
from sysctl.render.comments import bytes_warning, comment, evidence_lines, explained
from sysctl.render.installed import all_but_sysctls_left_out
from sysctl.render.snippet import STEM, TITLE, Format, Snippet

FILE_NAME = f"{STEM}.tuned.conf"
PROFILE = "writewise"
#: Where profiles of one's own are, before TuneD 2.23 and since.
FOLDERS = ("/etc/tuned", "/etc/tuned/profiles")


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The profile; nothing where no sysctl changes. Raises InexpressibleError."""
    if not change.changes_sysctls:
        return ()
    older, newer = (f"{folder}/{PROFILE}/tuned.conf" for folder in FOLDERS)
    head = [
        f"{TITLE}write-back settings for pulls from S3, as a TuneD profile.",
        *bytes_warning(change.sysctl_values),
        "",
        *evidence_lines(change),
        *all_but_sysctls_left_out(change),
        "",
        f"To use:   install -D -m 0644 {FILE_NAME} {older}",
        f"          (since TuneD 2.23: {newer}), then",
        f"          tuned-adm profile PRESENT {PROFILE}   (PRESENT: what tuned-adm active names)",
        "          No file in /etc/sysctl.d may set the same: it wins.",
        "To undo:  tuned-adm profile PRESENT; TuneD writes back what was there.",
    ]
    reasons = {advice.name: advice.reason for advice in change.sysctls}
    lines = dict(zip(change.sysctl_values, sysctl_lines(change.sysctl_values)))
    main = "\n[main]\nsummary=Write-back settings for pulls from S3, found by writewise\n"
    return (Snippet(FILE_NAME, f"{comment(head)}{main}\n[sysctl]{explained(lines, reasons)}"),)


FORMAT = Format("tuned", render, (FILE_NAME,))
