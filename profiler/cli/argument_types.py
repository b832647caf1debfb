"""Argument types for argparse that speak the units of contracts and give their sentences."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contracts import units

T = TypeVar("T")


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


def _integers(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise ValueError(f"{text!r} is no list of whole numbers such as 10,20,40")
    return tuple(int(word) for word in words)


#: Bytes: `48MiB`.
size = _typed(units.parse_size_bytes)
#: A count of at least 1: `40`, `10k`.
count = _typed(_positive_count)
#: Nanoseconds: `30ms`, `10s`.
latency = _typed(units.parse_latency_ns)
#: A directory, which `''` is not: `/data`.
directory = _typed(_directory)
#: Whole numbers with commas between: `10,20,40`.
integers = _typed(_integers)
