# SPDX-License-Identifier: Apache-2.0
"""Long series made short for a chart: no peak is lost, and the size is bounded."""

from __future__ import annotations

from collections.abc import Sequence

#: Points of a figure; one column has up to four samples of a series.
COLUMNS = 800
#: Points of a rate, each the mean over its part of the run.
BINS = 240


def reduced(
    times: Sequence[float], values: Sequence[float], columns: int = COLUMNS
) -> list[tuple[float, float]]:
    """Return first, smallest, largest and last sample of each column, in the order of time."""
    if len(times) <= 2 * columns:
        return list(zip(times, values))
    begin, span = times[0], (times[-1] - times[0]) or 1.0
    kept: list[tuple[float, float]] = []
    start = 0
    for column in range(columns):
        end = start
        limit = begin + span * (column + 1) / columns
        while end < len(times) and (times[end] <= limit or column == columns - 1):
            end += 1
        if end > start:
            inside = range(start, end)
            chosen = {
                start,
                min(inside, key=values.__getitem__),
                max(inside, key=values.__getitem__),
                end - 1,
            }
            kept += [(times[at], values[at]) for at in sorted(chosen)]
        start = end
    return kept


def binned_rate(
    times: Sequence[float], totals: Sequence[float], bins: int = BINS
) -> list[tuple[float, float, float]]:
    """Return (begin, end, mean increase per time) over parts of the run, from a growing total."""
    if len(times) < 2:
        return []
    least = (times[-1] - times[0]) / bins
    found: list[tuple[float, float, float]] = []
    first = 0
    for at in range(1, len(times)):
        span = times[at] - times[first]
        if span > 0 and (span >= least or at == len(times) - 1):
            rate = max(0.0, totals[at] - totals[first]) / span
            found.append((times[first], times[at], rate))
            first = at
    return found


def spans_where(times: Sequence[float], holds: Sequence[bool]) -> list[tuple[float, float]]:
    """Return begin and end of each time in which it holds; a sample holds until the next one."""
    spans: list[tuple[float, float]] = []
    begin: float | None = None
    for at, is_so in enumerate(holds):
        if is_so and begin is None:
            begin = times[at]
        if begin is not None and (not is_so or at == len(holds) - 1):
            if times[at] > begin:
                spans.append((begin, times[at]))
            begin = None
    return spans


def joined(spans: Sequence[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Return the spans with those joined that are less than `gap` apart."""
    found: list[tuple[float, float]] = []
    for begin, end in spans:
        if found and begin - found[-1][1] < gap:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return found
