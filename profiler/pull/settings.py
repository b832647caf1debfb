"""The transfer settings of a pull: boto3's own knobs, under boto3's own names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from contracts.errors import UsageError
from contracts.text import quoted, suggestion
from contracts.units import exact_size, parse_count, parse_size_bytes

if TYPE_CHECKING:
    from boto3.s3.transfer import TransferConfig

MIB = 2**20


@dataclass(frozen=True)
class TransferSettings:
    """boto3's TransferConfig as far as it is tuned here; sizes in bytes, defaults boto3's.

    `max_concurrency` is the number of threads that fetch parts of an object, `max_io_queue` how
    many read chunks may wait in memory for the thread that writes.
    """

    max_concurrency: int = 10
    multipart_chunksize: int = 8 * MIB
    io_chunksize: int = 256 * 1024
    max_io_queue: int = 100

    def to_transfer_config(self) -> TransferConfig:
        """The boto3 object.

        The classic client always: the CRT client that boto3 may choose by itself on some instance
        types ignores `endpoint_url` (boto/boto3#4839) and most of these settings, and only one
        process of a host gets it, so figures would depend on where and by whom they were taken.
        """
        from boto3.s3.transfer import TransferConfig

        return TransferConfig(
            max_concurrency=self.max_concurrency,
            multipart_chunksize=self.multipart_chunksize,
            io_chunksize=self.io_chunksize,
            max_io_queue=self.max_io_queue,
            preferred_transfer_client="classic",
        )

    def __str__(self) -> str:
        """What `parse_settings` reads back."""
        return ",".join(f"{name}={_text(name, getattr(self, name))}" for name in _RANGES)


#: Lowest and highest value of each setting. The highest are beyond use, and below harm: a thread
#: per unit of concurrency, 5 GiB is S3's largest part, chunks and queue are held in memory.
_RANGES = {
    "max_concurrency": (1, 1000),
    "multipart_chunksize": (64 * 1024, 5 * 2**30),
    "io_chunksize": (1024, 2**30),
    "max_io_queue": (1, 1_000_000),
}
_SIZES = ("multipart_chunksize", "io_chunksize")


def parse_settings(text: str) -> TransferSettings:
    """`max_concurrency=20,io_chunksize=1MiB` → settings; what is not named keeps its default.

    Sizes take a unit; a bare number is bytes, as in boto3. Raises UsageError with every mistake.
    """
    values: dict[str, int] = {}
    problems: list[str] = []
    for item in filter(None, text.split(",")):
        name, _, value = item.strip().partition("=")
        try:
            values[name] = _parse_value(name, value, values)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise UsageError(f"--transfer: {'; '.join(problems)}", _usage())
    return replace(TransferSettings(), **values)


def _parse_value(name: str, text: str, seen: Iterable[str]) -> int:
    if name not in _RANGES:
        hint = suggestion(name, _RANGES)
        raise ValueError(f"{quoted(name)} is no transfer setting{', ' + hint if hint else ''}")
    if name in seen:
        raise ValueError(f"{name} is given twice")
    try:
        is_size_with_unit = name in _SIZES and not text.isdigit()
        value = parse_size_bytes(text) if is_size_with_unit else parse_count(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    lowest, highest = _RANGES[name]
    if not lowest <= value <= highest:
        raise ValueError(f"{name}: use {_text(name, lowest)} to {_text(name, highest)}")
    return value


def _text(name: str, value: int) -> str:
    return exact_size(value) if name in _SIZES else str(value)


def _usage() -> str:
    defaults = TransferSettings()
    names = ", ".join(field.name for field in fields(defaults))
    return f"settings are {names}; the defaults are {defaults}"
