# SPDX-License-Identifier: Apache-2.0
"""The comments of every snippet: its evidence, risks and reasons, and the commands that use it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from contracts.shared.units import counted, format_seconds, format_size
from sysctl.change.forms import CONTAINERS
from sysctl.change.recommendation import Evidence, Measured, RecommendedChange
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.render.checked import shown_transfer

#: Columns of a line of prose: behind `# `, or as an item of a JSON list, it fits 100.
_WIDTH = 96


def comment(lines: Iterable[str]) -> str:
    """Return each line behind `# `, which is a comment in every format.

    Characters that YAML cannot read, a terminal would interpret or a reader would not see are
    escaped. No line ends in a backslash, which continues a line in some formats.
    """
    return "".join(f"# {one_line(line)}".rstrip() + "\n" for line in lines)


def wrapped(*sentences: str) -> list[str]:
    """Return prose as lines for `comment`; a word that is longer than a line stays whole."""
    text = " ".join(map(one_line, sentences))
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def labelled(label: str, command: str) -> list[str]:
    """Return a shell command behind `label`, with a line for each part that `&&` joins."""
    lines = command.replace(" && ", " &&\n").split("\n")
    return [f"{first:10}{line}" for first, line in zip([label, *[""] * len(lines)], lines)]


def explained(lines: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    """Return each setting's line, below a blank line and its reason; both by the setting's name."""
    return "".join(f"\n{comment(wrapped(reasons[name]))}{line}\n" for name, line in lines.items())


def one_line(text: str) -> str:
    """Return `text` with unprintable characters escaped and without a backslash at its end."""
    visible = "".join(char if char.isprintable() else _escaped(char) for char in text).rstrip()
    return f"{visible}." if visible.endswith("\\") else visible


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def evidence_lines(change: RecommendedChange) -> list[str]:
    """Return when and on what it was measured, both results, and the risks of the change.

    Raises InexpressibleError for invalid transfer settings.
    """
    evidence = change.evidence
    return [
        *_origin_lines(evidence),
        *_volume_lines(evidence),
        f"  current      {_side(evidence.present)}",
        f"  recommended  {_side(evidence.recommended)}",
        *wrapped(f"{evidence.verdict}."),
        *_joint_lines(change),
        *_risk_lines(evidence),
    ]


def _origin_lines(evidence: Evidence) -> list[str]:
    """Return when, on which host or class of nodes, and with which pull it was measured."""
    when = f"Measured {evidence.measured_at or '?'} by writewise {evidence.version or '?'}"
    if evidence.class_key:
        return wrapped(
            f"{when} on nodes of the class {evidence.class_key}",
            f"({format_size(evidence.dirtyable_bytes)} of memory for files on the median node):",
            f"{format_size(evidence.bytes)} a pull.",
        )
    instance = evidence.instance or "not an EC2 instance"
    return wrapped(
        when,
        f"on {evidence.host or '?'} ({instance}, Linux {evidence.kernel or '?'},",
        f"{format_size(evidence.available_bytes)} of memory available):",
        f"{counted(evidence.objects, 'object')}, {format_size(evidence.bytes)}",
        f"from {evidence.source or '?'} to {evidence.destination or '?'}",
        f"({evidence.fstype or '?'}){_by(evidence.client)}.",
    )


def _volume_lines(evidence: Evidence) -> list[str]:
    """Return the measured volume, or on EC2 that it is unknown."""
    if not evidence.volume and not evidence.instance:
        return []
    return wrapped(f"EBS volume: {evidence.volume or 'unknown'}.")


def _risk_lines(evidence: Evidence) -> list[str]:
    """Return what is lost with the host, and what other programs may notice."""
    return wrapped(
        f"Risks: up to {format_size(evidence.at_risk_bytes)} of written data was only in memory "
        f"(with a larger pull up to {format_size(evidence.ceiling_bytes)}).",
        "Instance termination, a spot interruption, a kernel panic or a host failure loses it; a "
        "snapshot taken before write-back does not contain it.",
        "Memory with such data cannot be reclaimed until it is written: other programs may wait "
        "for memory, or be killed when it runs out (OOM), and their fsync calls may take longer.",
    )


def override_note(folder: str) -> list[str]:
    """Return that a later file of a folder of sysctl.d overrides ours."""
    return [f"Note:     a file with a later name, such as {folder}/99-*.conf, overrides this one."]


def bytes_warning(values: Mapping[str, int]) -> list[str]:
    """Return the hosts on which thresholds in bytes starve containers; no lines for ratios."""
    if not {DIRTY_PAIR[1], BACKGROUND_PAIR[1]} & set(values):
        return []
    return wrapped(f"WARNING: bytes are {CONTAINERS}.")


def _by(client: str) -> str:
    return f", pulled with the client {client}" if client else ""


def _joint_lines(change: RecommendedChange) -> list[str]:
    """Return that both halves were measured together, if there are two."""
    if not change.transfer or change.is_of_pull_alone:
        return []
    options = shown_transfer(change.transfer).replace(" --transfer ", "\n--transfer ")
    return [
        "Both halves were measured together: the settings of the host, and those of the pull:",
        *(f"  {line}" for line in options.split("\n")),
        "Either half alone may gain less.",
    ]


def _side(side: Measured) -> str:
    durable = f", durable after {format_seconds(side.durable_s)}" if side.durable_s else ""
    runs = counted(side.runs, "run")
    return f"returned after {format_seconds(side.return_s)} (median of {runs}{durable})"


def assignments(values: Mapping[str, int]) -> str:
    """Return `vm.dirty_ratio=20 vm.dirty_background_ratio=10`, the arguments of `sysctl -w`."""
    return " ".join(f"{name}={value}" for name, value in values.items())
