"""The only parser and printer of bytes, times and counts.

Parsing follows Mistral (`docs/contracts.md`): an unsigned integer and an exact suffix, no
fractions. Each parser raises ValueError with a sentence that names the units it takes.
"""

from __future__ import annotations

import re

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
#: The largest figure the kernel side can hold.
MAX_VALUE = 2**64 - 1

_NUMBER = re.compile(r"([0-9]{1,20})([A-Za-z]{0,3})")


def _parse(text: str, units: dict[str, int], noun: str, use: str) -> int:
    match = _NUMBER.fullmatch(text)
    if not match or match[2] not in units:
        raise ValueError(f"{quoted(text)} is no {noun}; use {use}")
    value = int(match[1]) * units[match[2]]
    if value > MAX_VALUE:
        raise ValueError(f"{text!r} is too large: at most 2^64 - 1")
    return value


def parse_size_bytes(text: str) -> int:
    """`48MiB` → 50331648. Raises ValueError."""
    return _parse(text, BYTES_PER_UNIT, "size", "a whole number with B, kB, MB, GB, KiB, MiB, …")


def parse_latency_ns(text: str) -> int:
    """`30ms` → 30000000. Raises ValueError."""
    return _parse(text, NS_PER_UNIT, "latency", "us, ms or s")


def parse_duration_ns(text: str) -> int:
    """`10s` → 10000000000. Raises ValueError."""
    return _parse(text, NS_PER_UNIT, "time", "us, ms or s, as in 10s")


def parse_timeframe_ns(text: str) -> int:
    """`1000s` → 1000000000000; a timeframe of 0 is none. Raises ValueError."""
    timeframe_ns = _parse(text, NS_PER_UNIT, "timeframe", "us, ms or s")
    if timeframe_ns == 0:
        raise ValueError(f"{text!r} is no timeframe; it must be longer than 0")
    return timeframe_ns


def parse_count(text: str) -> int:
    """`10k` → 10000. Raises ValueError."""
    return _parse(text, COUNT_PER_UNIT, "count", "a whole number, or one with k, K or M")


def _exact(value: int, units: dict[str, int], smallest: str) -> str:
    """`value` in the largest unit that divides it, so that parsing gives it back."""
    if value == 0:
        return f"0{smallest}"
    fitting = [(factor, unit) for unit, factor in units.items() if value % factor == 0]
    if not fitting:
        raise ValueError(f"{value} is no whole number of {smallest}, the smallest unit")
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
    """For reading, from seconds: 18.62 → `18.6 s`."""
    return format_duration(seconds * 10**9)


def format_minutes(seconds: float) -> str:
    """For reading, from seconds: 130 → `2 min 10 s`; less than a minute as `format_seconds`."""
    if seconds < 60:
        return format_seconds(seconds)
    minutes, rest_s = divmod(round(seconds), 60)
    return f"{minutes} min {rest_s} s"


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
