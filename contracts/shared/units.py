# SPDX-License-Identifier: Apache-2.0
"""The only parser and printer of sizes, durations, counts and budgets.

The command line has decimals, short units (`K`, `M`, `G`, … are powers of 1024; `m`, `min`, `h`,
`d`) and bare numbers, which are bytes or seconds. Contracts in YAML have the same and need a unit
(`YAML`). Contracts in Mistral's syntax (`MISTRAL`, `docs/reference/contracts.md`) have an unsigned
integer and an exact unit. What one grammar accepts means the same in the wider ones. Each parser
raises ValueError with a sentence that says what is wrong and gives an example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from contracts.shared.text import quoted

BYTES_PER_UNIT = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,  # Mistral's second spelling of kB, not 1024
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "PB": 10**15,
    "EB": 10**18,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "PiB": 2**50,
    "EiB": 2**60,
}
NS_PER_UNIT = {"us": 10**3, "ms": 10**6, "s": 10**9}
COUNT_PER_UNIT = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6}
#: Not of Mistral's: `1G` is `1GiB`.
BYTES_PER_SHORT_UNIT = {unit: 2 ** (10 * power) for power, unit in enumerate("KMGTPE", start=1)}
NS_PER_LONG_UNIT = {
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
#: The largest figure the kernel side can hold.
MAX_VALUE = 2**64 - 1
#: Of a budget: more than a search could ever run.
MAX_TRIALS = 999_999

#: How a long time is printed: from so many seconds on, in which two units.
_LONG_UNITS = (
    (2 * 86400, ("d", 86400), ("h", 3600)),
    (3600, ("h", 3600), ("min", 60)),
    (60, ("min", 60), ("s", 1)),
)

_WHOLE = r"([0-9]{1,20})()"
_DECIMAL = r"([0-9]{1,20})(?:\.([0-9]{1,9}))?"
_UNIT = r"([A-Za-z]{0,3})"


class TooLargeError(ValueError):
    """A figure that is well formed, but larger than the kernel side can hold."""


class _Figure(NamedTuple):
    """How one kind of figure is written: a number and a unit, `use` for the message."""

    noun: str
    units: Mapping[str, int]
    use: str
    most: str
    number: str = _DECIMAL

    def parse(self, text: str) -> int:
        """Return the figure in its smallest unit. Raises ValueError."""
        match = re.fullmatch(self.number + _UNIT, text)
        if not match or match[3] not in self.units:
            raise ValueError(f"invalid {self.noun} {quoted(text)}; {self._what_to_do(text)}")
        digits, factor = match[2] or "", self.units[match[3]]
        value = int(match[1] + digits) * factor
        scale: int = 10 ** len(digits)
        rounded = (value + scale // 2) // scale
        if rounded > MAX_VALUE:
            raise TooLargeError(f"{self.noun} {quoted(text)} is too large; use at most {self.most}")
        if value and not rounded:
            raise ValueError(f"{self.noun} {quoted(text)} is too small; {self.use}")
        return rounded

    def _what_to_do(self, text: str) -> str:
        """What to write instead: the unit in its right case, if only that is wrong."""
        if text.startswith("-") and self.number == _DECIMAL:
            return "it must not be negative"
        number = text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
        unit = text[len(number) :].lower()
        meant = [each for each in self.units if each.lower() == unit and unit]
        if self.number == _DECIMAL and meant and re.fullmatch(_DECIMAL, number):
            return f"did you mean {number}{meant[-1]}?"
        return self.use


_USE_SIZE = "use a number with a unit, such as 500MiB, 1.5GiB or 1GB"
_USE_DURATION = "use a number with a unit, such as 90s, 1500ms, 20m or 1h"
_USE_EXACT = "use a whole number with us, ms or s"
_USE_EXACT_SIZE = "use a whole number with B, kB, MB, GB, KiB, MiB, …"
#: `MAX_VALUE` bytes, nanoseconds and calls, rounded down.
_MOST_BYTES, _MOST_TIME, _MOST_S, _MOST_CALLS = "15EiB", "213503d", "18446744073s", str(MAX_VALUE)
_YAML_SIZE = _Figure("size", {**BYTES_PER_UNIT, **BYTES_PER_SHORT_UNIT}, _USE_SIZE, _MOST_BYTES)
_YAML_TIMEFRAME = _Figure(
    "timeframe", {**NS_PER_UNIT, **NS_PER_LONG_UNIT}, _USE_DURATION, _MOST_TIME
)
_SIZE = _Figure("size", {**_YAML_SIZE.units, "": 1}, _USE_SIZE, _MOST_BYTES)
_DURATION = _Figure("duration", {**_YAML_TIMEFRAME.units, "": 10**9}, _USE_DURATION, _MOST_TIME)
_LATENCY = _Figure("latency", NS_PER_UNIT, "use a number with us, ms or s, such as 30ms", _MOST_S)
_COUNT = _Figure(
    "count", COUNT_PER_UNIT, "use a whole number, such as 500 or 10k", _MOST_CALLS, _WHOLE
)
_MISTRAL_SIZE = _Figure("size", BYTES_PER_UNIT, _USE_EXACT_SIZE, _MOST_BYTES, _WHOLE)
_MISTRAL_LATENCY = _Figure("latency", NS_PER_UNIT, _USE_EXACT, _MOST_S, _WHOLE)
_MISTRAL_TIMEFRAME = _Figure("timeframe", NS_PER_UNIT, _USE_EXACT, _MOST_S, _WHOLE)


def parse_size_bytes(text: str) -> int:
    """`500`, `1G`, `1GB`, `1.5GiB` → bytes. Raises ValueError."""
    return _SIZE.parse(text)


def parse_duration_ns(text: str) -> int:
    """`90`, `90s`, `1500ms`, `20m`, `20min`, `1h` → nanoseconds. Raises ValueError."""
    return _DURATION.parse(text)


def parse_latency_ns(text: str) -> int:
    """`30ms`, `1.5ms` → nanoseconds; a unit is needed. Raises ValueError."""
    return _LATENCY.parse(text)


def parse_count(text: str) -> int:
    """`10k` → 10000. Raises ValueError."""
    return _COUNT.parse(text)


def parse_budget(text: str) -> tuple[int | None, int | None]:
    """`12`, `20m` or `12,20m` → trials and nanoseconds; None is no limit. Raises ValueError."""
    trials, duration_ns = None, None
    for word in text.split(","):
        if word.isascii() and word.isdigit() and trials is None:
            trials = _trials(text, word)
        elif _is_time(word) and duration_ns is None:
            duration_ns = _DURATION.parse(word)
        else:
            raise ValueError(
                f"invalid budget {quoted(text)}; use trials (12), time (20m) or both (12,20m)"
            )
    if trials == 0 or duration_ns == 0:
        raise ValueError("a budget must be more than 0; use 12, 20m or 12,20m")
    return trials, duration_ns


def _trials(text: str, word: str) -> int:
    if len(word) > len(str(MAX_TRIALS)) or int(word) > MAX_TRIALS:
        raise ValueError(f"budget {quoted(text)} is too large; use at most {MAX_TRIALS} trials")
    return int(word)


def _is_time(word: str) -> bool:
    """Whether it has a unit: a bare number of a budget is trials."""
    return re.fullmatch(_DECIMAL + r"([a-z]{1,3})", word) is not None and word.endswith(
        tuple(filter(None, _DURATION.units))
    )


def _longer_than_0(figure: _Figure, text: str) -> int:
    value_ns = figure.parse(text)
    if value_ns == 0:
        raise ValueError(f"invalid {figure.noun} {quoted(text)}; it must be longer than 0")
    return value_ns


class Grammar(NamedTuple):
    """How the figures of a contract are read: a parser for each kind. They raise ValueError."""

    size_bytes: Callable[[str], int]
    latency_ns: Callable[[str], int]
    timeframe_ns: Callable[[str], int]
    count: Callable[[str], int]


YAML = Grammar(
    _YAML_SIZE.parse,
    parse_latency_ns,
    lambda text: _longer_than_0(_YAML_TIMEFRAME, text),
    parse_count,
)
MISTRAL = Grammar(
    _MISTRAL_SIZE.parse,
    _MISTRAL_LATENCY.parse,
    lambda text: _longer_than_0(_MISTRAL_TIMEFRAME, text),
    parse_count,
)


def _exact(value: int, units: dict[str, int], smallest: str) -> str:
    """`value` in the largest unit that divides it, so that parsing gives it back."""
    if value == 0:
        return f"0{smallest}"
    fitting = [(factor, unit) for unit, factor in units.items() if value % factor == 0]
    if not fitting:
        raise ValueError(f"{value} is not a whole number of {smallest}, the smallest unit")
    factor, unit = max(fitting)
    return f"{value // factor}{unit}"


def exact_size(size_bytes: int) -> str:
    """A size that `parse_size_bytes` reads back to the same value: 1048576 → `1MiB`."""
    return _exact(size_bytes, BYTES_PER_UNIT, "B")


def exact_latency(latency_ns: int) -> str:
    """A latency that `parse_latency_ns` reads back to the same value: 1000000 → `1ms`.

    Raises ValueError for a part of a microsecond, which the language cannot write.
    """
    return _exact(latency_ns, NS_PER_UNIT, "us")


def exact_count(count: int) -> str:
    """A count that `parse_count` reads back to the same value."""
    return _exact(count, {"": 1, "k": 10**3, "M": 10**6}, "")


def format_size(size_bytes: float) -> str:
    """For reading: 2013265920 → `1.88 GiB`."""
    value, units = float(size_bytes), ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    for unit in units:
        if abs(value) < 1024 or unit == units[-1]:
            return f"{value:.0f} B" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def format_rate(bytes_per_s: float) -> str:
    """For reading: `62.5 MiB/s`."""
    return f"{format_size(bytes_per_s)}/s"


def format_duration(duration_ns: float) -> str:
    """For reading: 1234567 → `1.23 ms`."""
    value = float(duration_ns)
    for unit, factor in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if abs(value) < 1000 * factor:
            return f"{_three_digits(value / factor)} {unit}" if factor > 1 else f"{value:.0f} ns"
    return f"{_three_digits(value / 10**9)} s"


def format_seconds(seconds: float) -> str:
    """For reading, from seconds: 18.62 → `18.6 s`; from an hour on as `format_minutes`."""
    return format_duration(seconds * 10**9) if seconds < 3600 else format_minutes(seconds)


def format_minutes(seconds: float) -> str:
    """For reading, from seconds: `2 min 10 s`, `5 min`, `1 h 20 min`, `24 h`, `17 d 17 h`.

    Less than a minute is as `format_seconds`.
    """
    if seconds < 60:
        return format_seconds(seconds)
    if not math.isfinite(seconds):
        return f"{seconds} s"
    whole_s = round(seconds)
    for least_s, (large, unit_s), (small, part_s) in _LONG_UNITS:
        if whole_s >= least_s:
            parts = round(whole_s / part_s)
            count, rest = divmod(parts, unit_s // part_s)
            return f"{format_count(count)} {large}" + (f" {rest} {small}" if rest else "")
    raise AssertionError("unreachable")


def format_count(count: int) -> str:
    """For reading: 15360 → `15,360`."""
    return f"{count:,}"


def counted(count: int, noun: str) -> str:
    """For reading, with a noun that takes an s: `1 call`, `15,360 calls`."""
    return f"{format_count(count)} {noun if count == 1 else noun + 's'}"


def _three_digits(value: float) -> str:
    """Three significant digits, more only before the decimal point."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
