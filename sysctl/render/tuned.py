# SPDX-License-Identifier: Apache-2.0
"""The sysctls of a recommendation as a TuneD profile (tuned.conf(5)).

TuneD restores the originals when another profile is selected or its service stops, so a profile
needs no undo of its own. Files in /etc/sysctl.d override it (`reapply_sysctl`).

It keeps the value of each option that the profile names, and writes that back (tuned 2.20,
plugins/plugin_sysctl.py). If a ratio is in force and the profile names bytes, or the reverse, that
value is 0: the kernel refuses it or takes it as a threshold of 0. Such a change has no profile.
"""

from __future__ import annotations

from sysctl.change.recommendation import RecommendedChange
from sysctl.knobs.vm import BY_NAME
from sysctl.render.checked import sysctl_lines
from sysctl.render.comments import bytes_warning, comment, evidence_lines, explained
from sysctl.render.installed import all_but_sysctls_left_out
from sysctl.render.snippet import STEM, TITLE, Format, InexpressibleError, Snippet

FILE_NAME = f"{STEM}.tuned.conf"
PROFILE = "writewise"
#: The folder of custom profiles, before TuneD 2.23 and since.
FOLDERS = ("/etc/tuned", "/etc/tuned/profiles")


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the profile; nothing if no sysctl changes. Raises InexpressibleError."""
    if not change.changes_sysctls:
        return ()
    for name in change.sysctl_values:
        in_force = BY_NAME[name].counterpart if name in BY_NAME else None
        if in_force in change.originals and name not in change.originals:
            raise InexpressibleError(f"TuneD cannot restore {in_force} after it has set {name}")
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
        f"          tuned-adm profile CURRENT {PROFILE}   (CURRENT: see `tuned-adm active`)",
        "Note:     a file in /etc/sysctl.d, such as 99-*.conf, overrides these values.",
        "To undo:  tuned-adm profile CURRENT   (TuneD restores the old values)",
    ]
    reasons = {advice.name: advice.reason for advice in change.sysctls}
    lines = dict(zip(change.sysctl_values, sysctl_lines(change.sysctl_values)))
    main = "\n[main]\nsummary=Write-back settings for pulls from S3, found by writewise\n"
    return (Snippet(FILE_NAME, f"{comment(head)}{main}\n[sysctl]{explained(lines, reasons)}"),)


FORMAT = Format("tuned", render, (FILE_NAME,))
