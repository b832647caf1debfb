"""What is searched: boto3's transfer settings as axes, their ranges as data.

The first four axes and their ranges are those of the AWS Open Source Blog's "Learn Amazon Simple
Storage Service transfer configuration with Syne Tune". All numbers are searched by their
logarithm: what matters of each is the factor between two values (the post's sample drew
max_concurrency evenly, so that one draw in twenty was below 60).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Union

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted
from profiler.pull.clients import catalogue
from profiler.pull.settings import TransferSettings
from sysctl.knobs.transfer import TRANSFER_CLIENT

#: One setting's value: a count, a size in bytes, a switch (a bool is an int) or a client's name.
Value = Union[int, str]
#: A value for each axis that is searched, by name.
Point = Mapping[str, Value]


@dataclass(frozen=True)
class Range:
    """Whole numbers from `low` to `high`, both included, searched by their logarithm."""

    name: str
    low: int
    high: int


@dataclass(frozen=True)
class Choice:
    """One of a few values without an order."""

    name: str
    values: tuple[Value, ...]


Axis = Union[Range, Choice]

#: The axes of the post, searched by default.
POST_AXES: tuple[Axis, ...] = (
    Range("max_concurrency", 10, 1000),
    Range("multipart_chunksize", 10**6, 10**10),
    Range("max_io_queue", 100, 100_000),
    Range("io_chunksize", 1000, 10**9),
)
ALL_AXES: tuple[Axis, ...] = (
    *POST_AXES,
    Range("multipart_threshold", 10**6, 10**10),
    Choice("use_threads", (True, False)),
)
#: The axes in bytes.
SIZES = ("multipart_chunksize", "io_chunksize", "multipart_threshold")
#: boto3's own, which all is compared with.
DEFAULTS = TransferSettings()
#: The axis of pull clients, which is no setting of theirs.
CLIENT = "client"
DEFAULT_NAMES = tuple(axis.name for axis in POST_AXES)


def client_axis(names: Sequence[str]) -> Choice:
    """Which client pulls, as a category: those named, and first of all boto3's manager.

    Raises UsageError for a name of none, or of one that cannot be used on this host.
    """
    for name in names:
        client = catalogue.by_name(name)
        if client.version() is None:
            raise UsageError(f"the client {name} is not installed", client.install)
    return Choice(CLIENT, tuple(dict.fromkeys((TRANSFER_CLIENT, *names))))


def client_at(point: Point) -> str:
    """The name of the client that pulls at a point: boto3's manager where it is not searched."""
    return str(point.get(CLIENT, TRANSFER_CLIENT))


def axes_named(names: Sequence[str]) -> tuple[Axis, ...]:
    """The axes of these names, in their own order. Raises UsageError for an unknown name."""
    known = {axis.name: axis for axis in ALL_AXES}
    for name in names:
        if name not in known:
            raise UsageError(f"{quoted(name)} cannot be tuned", f"use some of {', '.join(known)}")
    return tuple(axis for axis in ALL_AXES if axis.name in names)


def fitted(
    axes: Sequence[Axis], object_bytes: int, present: TransferSettings = DEFAULTS
) -> tuple[Axis, ...]:
    """The axes up to the size of the largest object: all beyond it is one part, or one chunk.

    A threshold just beyond it is that of no parts. The defaults and the present settings lie on
    the axes, wherever these would end otherwise: what is measured is them, and nothing near them.
    """
    return tuple(_fitted(axis, object_bytes, present) for axis in axes)


def _fitted(axis: Axis, object_bytes: int, present: TransferSettings) -> Axis:
    if not isinstance(axis, Range):
        return axis
    high = axis.high
    if axis.name in SIZES:
        enough = object_bytes + (axis.name == "multipart_threshold")
        high = max(axis.low, min(high, enough))
    held: list[int] = [getattr(settings, axis.name) for settings in (DEFAULTS, present)]
    return replace(axis, low=min(axis.low, *held), high=max(high, *held))


def point_of(settings: TransferSettings, axes: Sequence[Axis]) -> dict[str, Value]:
    """Where settings lie on the axes, which are `fitted` to them."""
    return {axis.name: _on(axis, settings) for axis in axes}


def _on(axis: Axis, settings: TransferSettings) -> Value:
    if axis.name == CLIENT:
        return TRANSFER_CLIENT
    value: Value = getattr(settings, axis.name)
    return value


def defaults_beyond(base: TransferSettings, axes: Sequence[Axis]) -> Point | None:
    """boto3's defaults as a point of all settings, where `base` has others that no axis varies.

    None where they lie on the axes.
    """
    on_axes = point_of(DEFAULTS, axes)
    if settings_at(on_axes, base) == DEFAULTS:
        return None
    return {**asdict(DEFAULTS), **on_axes}


def settings_at(point: Point, base: TransferSettings) -> TransferSettings:
    """The settings of a point; what is not searched is as in `base`."""
    values = {name: value for name, value in point.items() if name != CLIENT}
    return replace(base, **values)  # type: ignore[arg-type]


def held_bytes(settings: TransferSettings, bytes_at_once: int) -> int:
    """How much may wait in a worker's memory for the thread that writes, at most, in bytes.

    Of `bytes_at_once`, which it fetches at a time: one object, or several. s3transfer bounds the
    queue by its number of chunks; each fetching thread holds one more.
    """
    if not settings.use_threads:
        return min(bytes_at_once, settings.io_chunksize)
    chunks = settings.max_io_queue + settings.max_concurrency
    return min(bytes_at_once, chunks * settings.io_chunksize)
