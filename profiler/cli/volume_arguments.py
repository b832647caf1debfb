# SPDX-License-Identifier: Apache-2.0
"""Values of the options of a volume: GiB, MiB/s and shares of credits, as AWS writes them.

A bare number has AWS's unit: `--volume-size 500` is 500 GiB, `--throughput 125` is 125 MiB/s. The
report says so.
"""

from __future__ import annotations

from typing import NamedTuple

from contracts.shared import units
from contracts.shared.text import quoted
from profiler.cli.argument_types import typed

_GIB, _MIB = 2**30, 2**20
_SHARES = {"full": 1.0, "empty": 0.0}


class Gib(NamedTuple):
    """A size in whole GiB, and how it was read if that differs from the text."""

    gib: int
    note: str | None = None


class Throughput(NamedTuple):
    """A throughput in MiB/s, and how it was read if that differs from the text."""

    mib_per_s: float
    note: str | None = None


def _is_bare(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and text.isascii()


def _gib(text: str) -> Gib:
    size_bytes = units.parse_size_bytes(f"{text}GiB" if _is_bare(text) else text)
    if size_bytes < 1:
        raise ValueError(f"invalid size {quoted(text)}; it must be more than 0")
    gib = -(-size_bytes // _GIB)
    if _is_bare(text):
        return Gib(gib, f"{text} is taken as {gib:,} GiB, as AWS does")
    rounded = f"{text} is rounded up to {gib:,} GiB: volumes have whole GiB"
    return Gib(gib, rounded if gib * _GIB != size_bytes else None)


def _throughput(text: str) -> Throughput:
    amount = text[:-2] if text.endswith("/s") else text
    size_bytes = units.parse_size_bytes(f"{amount}MiB" if _is_bare(amount) else amount)
    if size_bytes < 1:
        raise ValueError(f"invalid throughput {quoted(text)}; it must be more than 0")
    note = f"{text} is taken as {text} MiB/s, as AWS does" if _is_bare(text) else None
    return Throughput(size_bytes / _MIB, note)


def _share(text: str) -> float:
    if text in _SHARES:
        return _SHARES[text]
    number = text[:-1] if text.endswith("%") else text
    if not _is_bare(number) or float(number) > 100:
        raise ValueError(
            f"invalid credits {quoted(text)}; use full, empty or a percentage: 0 to 100"
        )
    return float(number) / 100


#: Of a volume: `500`, `500GiB`, `1T`.
gib = typed(_gib)
#: Of a volume: `125`, `125MiB`, `125MiB/s`.
throughput = typed(_throughput)
#: Of a bucket, from 0 to 1: `full`, `empty`, `35`, `35%`.
share = typed(_share)
