"""What every rendered file says above its settings: what, why, measured when and on what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contracts.shared.units import counted, format_seconds, format_size
from sysctl.change.forms import CONTAINERS
from sysctl.change.recommendation import Measured, RecommendedChange
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.render.checked import shown_transfer


def comment(lines: Iterable[str]) -> str:
    """Each line behind `# `, and a comment in every format.

    What YAML cannot read, a terminal would obey or a reader would not see is escaped; no line ends
    in a backslash, with which some formats go on in the next line.
    """
    return "".join(f"# {one_line(line)}".rstrip() + "\n" for line in lines)


def explained(lines: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    """The line of each setting below its reason and a blank line; both by the setting's name."""
    return "".join(
        f"\n{comment(filter(None, [reasons[name]]))}{line}\n" for name, line in lines.items()
    )


def one_line(text: str) -> str:
    """`text` without any character that is not printable, and without a backslash at its end."""
    visible = "".join(char if char.isprintable() else _escaped(char) for char in text).rstrip()
    return f"{visible}." if visible.endswith("\\") else visible


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def evidence_lines(change: RecommendedChange) -> list[str]:
    """Measured when and on what, present against recommended, and what the change may cost.

    Raises InexpressibleError for settings of the pull that are none.
    """
    evidence = change.evidence
    instance = evidence.instance or "no EC2 instance"
    return [
        f"Measured {evidence.measured_at or '?'} by writewise {evidence.version or '?'} on",
        f"{evidence.host or '?'} ({instance}, Linux {evidence.kernel or '?'}, "
        f"{format_size(evidence.available_bytes)} of memory available):",
        f"{counted(evidence.objects, 'object')}, {format_size(evidence.bytes)} "
        f"from {evidence.source or '?'}",
        f"to {evidence.destination or '?'} ({evidence.fstype or '?'}){_by(evidence.client)}.",
        f"  present      {_side(evidence.present)}",
        f"  recommended  {_side(evidence.recommended)}",
        f"{evidence.verdict}.",
        *_joint_lines(change),
        f"The price: {format_size(evidence.at_risk_bytes)} of written data was in memory only at "
        "most",
        f"(with a larger pull up to {format_size(evidence.ceiling_bytes)}). A kernel panic, host",
        "failure or termination loses it.",
    ]


def bytes_warning(values: Mapping[str, int]) -> list[str]:
    """For values in bytes: on which hosts they starve containers; no lines for ratios."""
    if not {DIRTY_PAIR[1], BACKGROUND_PAIR[1]} & set(values):
        return []
    return [f"WARNING: bytes are {CONTAINERS}."]


def _by(client: str) -> str:
    return f", pulled by the client {client}" if client else ""


def _joint_lines(change: RecommendedChange) -> list[str]:
    """That neither half alone need gain what was measured of both."""
    if not change.transfer or change.is_of_pull_alone:
        return []
    return [
        "Measured with both halves, the settings of the host and those of the pull:",
        f"  {shown_transfer(change.transfer)}",
        "Either of them alone may gain less.",
    ]


def _side(side: Measured) -> str:
    durable = f", durable after {format_seconds(side.durable_s)}" if side.durable_s else ""
    runs = counted(side.runs, "run")
    return f"returned after {format_seconds(side.return_s)} (median of {runs}{durable})"


def assignments(values: Mapping[str, int]) -> str:
    """`vm.dirty_ratio=20 vm.dirty_background_ratio=10`: what `sysctl -w` takes."""
    return " ".join(f"{name}={value}" for name, value in values.items())
