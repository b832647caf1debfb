"""What every rendered file says above its settings: what, why, measured when and on what."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.text import printable
from contracts.units import format_size
from sysctl.advise import Recommendation
from sysctl.evidence import Side


def comment(lines: Iterable[str]) -> str:
    """Each line behind `# `."""
    return "".join(f"# {printable(line)}".rstrip() + "\n" for line in lines)


def evidence(recommendation: Recommendation) -> list[str]:
    """Measured when, on what, present against recommended."""
    context = recommendation.results.context
    best = recommendation.best or recommendation.present
    seen = best.observation
    return [
        f"Measured {context.get('started_at', '?')} by writewise {context.get('version', '?')} on",
        f"{context.get('host', '?')} ({context.get('instance') or 'no EC2 instance'}, "
        f"Linux {context.get('kernel', '?')}, "
        f"{format_size(context.get('available_bytes', 0))} of memory available):",
        f"{seen.objects} objects, {format_size(seen.bytes)} from {context.get('source', '?')}",
        f"to {context.get('destination', '?')} ({context.get('fstype', '?')}).",
        f"  present      {_side(recommendation.present)}",
        f"  recommended  {_side(best)}",
        f"{recommendation.verdict}.",
    ]


def _side(side: Side) -> str:
    times = side.return_s
    durable = f", durable after {side.durable_s:.1f} s" if side.durable_s is not None else ""
    runs = f"{times.count} run{'s' if times.count > 1 else ''}"
    return f"returned after {times.median:.1f} s (median of {runs}{durable})"
