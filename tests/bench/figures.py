# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks: medians with intervals, tables in Markdown, goals, the host."""

from __future__ import annotations

import os
import platform
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

RESAMPLES = 2_000


@dataclass(frozen=True)
class Estimate:
    """A median and its 95 % interval."""

    median: float
    low: float
    high: float

    def text(self, form: str = "{:.0f}") -> str:
        """Return `12 [11, 14]`; `form` formats one number."""
        return "{} [{}, {}]".format(*map(form.format, (self.median, self.low, self.high)))

    def magnitude(self) -> Estimate:
        """Return how far it is from zero, in either direction."""
        ends = abs(self.low), abs(self.high)
        return Estimate(abs(self.median), 0 if self.low <= 0 <= self.high else min(ends), max(ends))

    def less(self, allowed: float) -> Estimate:
        """Return the excess over a limit, which has no interval."""
        return Estimate(self.median - allowed, self.low - allowed, self.high - allowed)


def estimate(values: Sequence[float]) -> Estimate:
    """Estimate the interval by bootstrap, with the same resamples in every run."""
    source = random.Random(1)
    medians = [median(source.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    fortieths = quantiles(medians, n=40)
    return Estimate(median(values), fortieths[0], fortieths[-1])


def host_line(what: str) -> str:
    """Return what was measured, and on which host."""
    return f"{what}. {this_host()}; medians with 95 % intervals."


def this_host() -> str:
    """Return the kernel, the number of CPUs, and the version of Python."""
    return (
        f"Linux {platform.release()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}"
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print it as Markdown; all columns but the first are figures, aligned to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for row in (header, rule, *rows):
        first, *rest = zip(row, widths)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]
        print("| " + " | ".join(cells) + " |")
    print(flush=True)


def print_goal(sentence: str, excess: Estimate, unit: str, form: str = "{:+.0f}") -> None:
    """Print whether a goal is met: `excess` is the measured value minus the allowed one."""
    verdict = "met" if excess.high <= 0 else "missed" if excess.low > 0 else "not decided"
    print(f"- {sentence}: {verdict}, {excess.text(form)} {unit} from what is allowed", flush=True)


def rounds_wanted(default: int) -> int:
    """Return the rounds to measure: the program's first argument, if there is one."""
    return int(sys.argv[1]) if len(sys.argv) > 1 else default


def differences(
    left: Sequence[float], right: Sequence[float], of: Callable[[float, float], float]
) -> list[float]:
    """Return `of(left, right)` of each round."""
    return [of(one, other) for one, other in zip(left, right)]
