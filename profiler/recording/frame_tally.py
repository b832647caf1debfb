# SPDX-License-Identifier: Apache-2.0
"""How often each rule was violated in a profile's timeframes, with bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from contracts.evaluate import Finding
from profiler.recording.timeframes import Frame

#: Number of frames with violations that are kept; later ones are only counted.
MAX_FRAMES_KEPT = 1000


@dataclass(frozen=True)
class RuleTally:
    """The frames that violated one rule, and those in which it led (see `Finding.superseded`).

    `largest` is its largest value in a frame, in the measurement's base unit; None without one.
    """

    violated: int = 0
    led: int = 0
    largest: float | None = None


@dataclass(frozen=True)
class Violations:
    """A frame with violations: only the labels and values of the rules that led."""

    number: int
    start_ns: int
    elapsed_ns: int
    led: tuple[tuple[str, float | None], ...]


class FrameTally:
    """Counts frames; a consumer of `Timeframes`.

    `count` is the number of all frames, `kept` the first ones with violations, and `left_out` the
    number of later ones.
    """

    def __init__(self, max_kept: int = MAX_FRAMES_KEPT) -> None:
        self._max_kept = max_kept
        self.count = 0
        self.rules: tuple[RuleTally, ...] = ()
        self.kept: list[Violations] = []
        self.left_out = 0

    def __call__(self, frame: Frame) -> None:
        """Count a frame."""
        self.count += 1
        before = self.rules or (RuleTally(),) * len(frame.findings)
        self.rules = tuple(map(_with, before, frame.findings))
        if not frame.leading:
            return
        if len(self.kept) < self._max_kept:
            led = tuple((finding.rule.label, finding.value) for finding in frame.leading)
            elapsed_ns = frame.snapshot.elapsed_ns
            self.kept.append(Violations(frame.number, frame.start_ns, elapsed_ns, led))
        else:
            self.left_out += 1

    def judge(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Return the findings of the whole run with the verdicts of its frames.

        Thresholds apply to timeframes: a rule is violated if it was in any frame, and superseded if
        it led in none of them.
        """
        return tuple(
            replace(
                finding, violated=rule.violated > 0, superseded=rule.violated > 0 and not rule.led
            )
            for finding, rule in zip(findings, self.rules)
        )


def _with(rule: RuleTally, finding: Finding) -> RuleTally:
    values = [value for value in (rule.largest, finding.value) if value is not None]
    return RuleTally(
        violated=rule.violated + finding.violated,
        led=rule.led + (finding.violated and not finding.superseded),
        largest=max(values, default=None),
    )
