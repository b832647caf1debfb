"""The words of Mistral's contract language, and what Writewise makes of each.

A word is built (it is in `model`), Mistral's but not built, or unknown. The last two are refused,
each with its own sentence: a contract must never be read as less than it says. To build a word,
move it from here to the enumeration in `model`. Source of the words: `docs/contracts.md`.
"""

from __future__ import annotations

from collections.abc import Iterable

from contracts.model import CallType, Measurement
from contracts.text import quoted, suggestion

#: Call types of Mistral's that no probe here counts yet.
CALL_TYPES_NOT_BUILT = (
    *("accept", "access", "connect", "create", "delete", "fschange"),
    *("glob", "open", "read", "seek", "mmap", "none"),
)
#: Mistral sees these by wrapping the MPI library; the kernel has no such call.
CALL_TYPES_OF_MPI = (
    *("mpi_access", "mpi_create", "mpi_delete", "mpi_fschange", "mpi_open"),
    *("mpi_read", "mpi_seek", "mpi_sync", "mpi_write"),
)
#: Measurements of Mistral's that are not taken yet.
MEASUREMENTS_NOT_BUILT = (
    *("seek-distance", "memory", "memory-rss", "memory-vsize"),
    *("user-time", "system-time", "cpu-time"),
    *("host-cpu-user-time", "host-cpu-system-time", "host-cpu-iowait-time"),
)
#: The header word of a contract that measures, and that of one that slows I/O down.
MONITOR, THROTTLE = "monitortimeframe", "throttletimeframe"

_CALL_TYPES = {call_type.value: call_type for call_type in CallType}
_MEASUREMENTS = {measurement.value: measurement for measurement in Measurement}


def parse_call_type(text: str) -> CallType:
    """`write` → CallType.WRITE. Raises ValueError; of `read+write` it names the part not built."""
    if text in _CALL_TYPES:
        return _CALL_TYPES[text]
    words = text.split("+")
    for word in words:
        if word not in _CALL_TYPES:
            raise ValueError(_refused_call_type(word))
    raise ValueError(f"{quoted(text)}: call types joined with '+' are Mistral's, not built yet")


def _refused_call_type(word: str) -> str:
    if word in CALL_TYPES_OF_MPI:
        return (
            f"{quoted(word)} is Mistral's and cannot be measured here: "
            "MPI calls are made in a library, not in the kernel"
        )
    return _refused(word, "call type", _CALL_TYPES, (*CALL_TYPES_NOT_BUILT, *CALL_TYPES_OF_MPI))


def parse_measurement(text: str) -> Measurement:
    """`mean-latency` → Measurement.MEAN_LATENCY. Raises ValueError."""
    if text in _MEASUREMENTS:
        return _MEASUREMENTS[text]
    raise ValueError(_refused(text, "measurement", _MEASUREMENTS, MEASUREMENTS_NOT_BUILT))


def check_timeframe_type(text: str) -> None:
    """Raise ValueError unless the contract is one that monitors."""
    if text == THROTTLE:
        raise ValueError(
            f"{THROTTLE!r} is Mistral's and refused: Writewise measures, it does not throttle; "
            f"use {MONITOR}"
        )
    if text != MONITOR:
        raise ValueError(_refused(text, "contract type", (MONITOR,), (THROTTLE,)))


def _refused(word: str, noun: str, built: Iterable[str], not_built: tuple[str, ...]) -> str:
    """The sentence that refuses `word`: not built yet, or unknown with the closest known word."""
    if word in not_built:
        return f"{quoted(word)} is Mistral's, not built yet; use {_choice(built)}"
    remedy = suggestion(word, (*built, *not_built)) or f"use {_choice(built)}"
    return f"{quoted(word)} is no {noun}; {remedy}"


def _choice(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
