# SPDX-License-Identifier: Apache-2.0
"""The values that options take: what each type accepts, and its error for anything else."""

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
#: For memory and volumes: a bare number below a page has a forgotten unit.
_PAGE_BYTES = 4096


def typed(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Convert ValueError to ArgumentTypeError, whose text argparse shows."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _amount(text: str) -> int:
    size_bytes = units.parse_size_bytes(text)
    if text.isdigit() and 0 < size_bytes < _PAGE_BYTES:
        raise ValueError(f"{text} without a unit is bytes; did you mean {text}MiB or {text}GiB?")
    return size_bytes


def _positive_amount(text: str) -> int:
    size_bytes = _amount(text)
    if size_bytes < 1:
        raise ValueError(f"invalid size {quoted(text)}; it must be more than 0")
    return size_bytes


def _positive_count(text: str) -> int:
    value = units.parse_count(text)
    if value < 1:
        raise ValueError(f"invalid count {quoted(text)}; it must be 1 or more")
    return value


def _path(text: str) -> Path:
    """Refuse "": Path("") would be the current directory, which an unset variable must not mean."""
    if not text:
        raise ValueError("the path is empty; the current directory is .")
    if "\0" in text:
        raise ValueError("the path has a NUL character; omit it")
    return Path(text)


def _process_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8 and 0 < int(text) < _PID_LIMIT):
        raise ValueError(f"invalid process id {quoted(text)}; use 1 to {_PID_LIMIT - 1}")
    return int(text)


def _any_duration(text: str) -> int:
    """One that is too large for its type is as long as can be: the caller has a lower limit."""
    try:
        return units.parse_duration_ns(text)
    except units.TooLargeError:
        return units.MAX_VALUE


def _duration(text: str) -> int:
    duration_ns = _any_duration(text)
    if duration_ns // 10**6 > _MAX_DURATION_MS:
        raise ValueError(f"duration {quoted(text)} is too long; use at most 24d")
    return duration_ns


def _positive_duration(text: str) -> int:
    duration_ns = _duration(text)
    if not duration_ns:
        raise ValueError(f"invalid duration {quoted(text)}; it must be longer than 0")
    return duration_ns


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"invalid number {quoted(text)}; use a whole number such as 80")
    return int(text)


def _integers(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
        raise ValueError(f"invalid list {quoted(text)}; use whole numbers such as 10,20,40")
    return tuple(int(word) for word in words)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(units.parse_size_bytes(word) for word in text.split(","))


def _budget(text: str) -> Budget:
    from sysctl.sweep.budget import MIN_TRIALS, Budget

    trials, duration_ns = units.parse_budget(text)
    if trials is not None and trials < MIN_TRIALS:
        raise ValueError(f"a comparison needs at least {MIN_TRIALS} trials, not {trials}")
    return Budget(trials, None if duration_ns is None else duration_ns / 10**9)


def _words(text: str) -> tuple[str, ...]:
    words = text.split(",")
    if not all(words):
        raise ValueError(f"invalid list {quoted(text)}; use names with commas between, such as a,b")
    return tuple(words)


def _mount_options(text: str) -> str:
    if not all(text.split(",")):
        raise ValueError(
            f"invalid options {quoted(text)}; use words with commas between, or defaults for none"
        )
    return text


def _destination(text: str) -> Path:
    if text.startswith("s3://"):
        raise ValueError(f"{quoted(text)} is an S3 address; DEST, a directory, must follow it")
    return _path(text)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) < 2**31):
        raise ValueError(f"invalid seed {quoted(text)}; use 0 to {2**31 - 1}")
    return int(text)


def _share(text: str) -> float:
    """Return a share above 0 and below 1; a number without % could be meant either way."""
    number = text[:-1]
    is_number = number.isascii() and number.replace(".", "", 1).isdigit() and len(number) < 20
    if not text.endswith("%") or not is_number or not 0 < float(number) < 100:
        raise ValueError(f"invalid share {quoted(text)}; use a percentage such as 5% or 0.1%")
    return float(number) / 100


def _shares(text: str) -> tuple[float, ...]:
    return tuple(map(_share, text.split(",")))


#: Bytes: `500`, `48MiB`, `1.5G`.
size = typed(units.parse_size_bytes)
#: Bytes of memory, data or a volume; a small bare number has a forgotten unit.
amount = typed(_amount)
#: The same, and more than 0.
positive_amount = typed(_positive_amount)
#: A count of at least 1: `40`, `10k`.
count = typed(_positive_count)
#: The id of a process: `1234`.
process_id = typed(_process_id)
#: Nanoseconds, for a caller with a limit of its own: `90`, `90s`, `20m`.
any_duration = typed(_any_duration)
#: The same, up to 24 days.
duration = typed(_duration)
#: The same, and longer than 0.
positive_duration = typed(_positive_duration)
#: A directory, but not `''`: `/data`.
directory = typed(_path)
#: A directory to pull to, but not an S3 address.
destination = typed(_destination)
#: A file, but not `''`.
file = typed(_path)
#: A whole number: `80`.
whole = typed(_whole)
#: Whole numbers separated by commas: `10,20,40`.
integers = typed(_integers)
#: Sizes separated by commas: `512MiB,1GiB`.
sizes = typed(_sizes)
#: The same as text, for options that also take words.
size_words = typed(lambda text: tuple(map(str, _sizes(text))))
#: Words separated by commas: `none,mq-deadline`.
words = typed(_words)
#: Mount options separated by commas: `noatime,logbsize=256k`.
mount_options = typed(_mount_options)
#: The seed of a random order: `7`.
seed = typed(_seed)
#: A share of nodes: `5%`.
share = typed(_share)
#: Shares separated by commas: `0.1%,1%,10%`.
shares = typed(_shares)
#: The limit of a search: `12` trials, `20m`, or `12,20m`.
budget = typed(_budget)
