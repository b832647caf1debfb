"""Argument types for argparse that speak the units of contracts and give their sentences."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from contracts.shared import units
from contracts.shared.text import quoted

if TYPE_CHECKING:
    from sysctl.sweep.budget import Budget

T = TypeVar("T")

#: PID_MAX_LIMIT of include/linux/threads.h; ids are below it.
_PID_LIMIT = 2**22
#: poll(2) takes an int of milliseconds: 24 days.
_MAX_DURATION_MS = 2**31 - 1


def _typed(parse: Callable[[str], T]) -> Callable[[str], T]:
    """argparse shows a ValueError's text only when it is an ArgumentTypeError."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _positive_count(text: str) -> int:
    value = units.parse_count(text)
    if value < 1:
        raise ValueError("must be 1 or more")
    return value


def _directory(text: str) -> Path:
    """Path("") would be the current directory: what an unset variable must not become."""
    if not text:
        raise ValueError("is empty; the current directory is .")
    return Path(text)


def _process_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8 and 0 < int(text) < _PID_LIMIT):
        raise ValueError(f"{quoted(text)} is no process id; they are 1 to {_PID_LIMIT - 1}")
    return int(text)


def _duration(text: str) -> int:
    duration_ns = units.parse_duration_ns(text)
    if duration_ns // 10**6 > _MAX_DURATION_MS:
        raise ValueError(f"{text!r} is too long; at most {_MAX_DURATION_MS // 1000}s")
    return duration_ns


def _integers(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise ValueError(f"{text!r} is no list of whole numbers such as 10,20,40")
    return tuple(int(word) for word in words)


def _budget(text: str) -> Budget:
    from sysctl.sweep.budget import MIN_TRIALS, Budget

    digits, is_time = text.removesuffix("min"), text.endswith("min")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 7 and int(digits)):
        raise ValueError(f"{quoted(text)} is neither trials, such as 30, nor time, such as 20min")
    if is_time:
        return Budget(time_s=60.0 * int(digits))
    if int(digits) < MIN_TRIALS:
        raise ValueError(f"a comparison takes {MIN_TRIALS} trials at least")
    return Budget(trials=int(digits))


def _words(text: str) -> tuple[str, ...]:
    words = text.split(",")
    if not all(words):
        raise ValueError(f"{quoted(text)} is no list such as none,mq-deadline")
    return tuple(words)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**31):
        raise ValueError(f"{quoted(text)} is no seed; they are 0 to {2**31 - 1}")
    return int(text)


#: Bytes: `48MiB`.
size = _typed(units.parse_size_bytes)
#: A count of at least 1: `40`, `10k`.
count = _typed(_positive_count)
#: The id of a process: `1234`.
process_id = _typed(_process_id)
#: Nanoseconds to wait: `10s`.
duration = _typed(_duration)
#: Nanoseconds that a call takes: `30ms`.
latency = _typed(units.parse_latency_ns)
#: A directory, which `''` is not: `/data`.
directory = _typed(_directory)
#: Whole numbers with commas between: `10,20,40`.
integers = _typed(_integers)
#: Words with commas between: `none,mq-deadline`.
words = _typed(_words)
#: What decides an order that looks random: `7`.
seed = _typed(_seed)
#: What a sweep may cost: `30` trials or `20min`.
budget = _typed(_budget)
