"""The words of Mistral's contract language, and what Writewise makes of each.

A word is in `model`, Mistral's but nothing that Writewise does, or unknown. The last two are
refused, each with its own sentence: a contract must never be read as less than it says. Some of
ours are no words of Mistral's, so only YAML has them. Source of the words: `docs/contracts.md`.
"""

from __future__ import annotations

from collections.abc import Iterable

from contracts.model import PERCENTILES, CallType, Measurement
from contracts.shared.text import quoted, suggestion

#: Mistral sees these by wrapping the MPI library; the kernel has no such call.
CALL_TYPES_OF_MPI = (
    *("mpi_access", "mpi_create", "mpi_delete", "mpi_fschange", "mpi_open"),
    *("mpi_read", "mpi_seek", "mpi_sync", "mpi_write"),
)
#: The call type of a rule that is not about calls.
NO_CALLS = "none"
#: Words of ours that Mistral's syntax does not have.
YAML_ONLY = tuple(word.value for word in (CallType.FSYNC, *PERCENTILES))
#: The header word of a contract that measures, and that of one that slows I/O down.
MONITOR, THROTTLE = "monitortimeframe", "throttletimeframe"

_CALL_TYPES = {call_type.value: call_type for call_type in CallType}
_MEASUREMENTS = {measurement.value: measurement for measurement in Measurement}


def parse_call_types(text: str) -> tuple[CallType, ...]:
    """`write` or `read+write` → the types in the enumeration's order; `none` → no type.

    Raises ValueError naming the first word that is unknown or that comes twice.
    """
    if text == NO_CALLS:
        return ()
    words = text.split("+")
    if NO_CALLS in words:
        raise ValueError(f"{quoted(text)} joins {NO_CALLS} with calls")
    for number, word in enumerate(words):
        if word not in _CALL_TYPES:
            raise ValueError(_refused_call_type(word))
        if word in words[:number]:
            raise ValueError(f"{quoted(text)} names {word} twice")
    return tuple(call_type for word, call_type in _CALL_TYPES.items() if word in words)


def call_types_text(call_types: Iterable[CallType]) -> str:
    """The text that `parse_call_types` reads back."""
    return "+".join(call_type.value for call_type in call_types) or NO_CALLS


def _refused_call_type(word: str) -> str:
    if word in CALL_TYPES_OF_MPI:
        return (
            f"{quoted(word)} is Mistral's and cannot be measured here: "
            "MPI calls are made in a library, not in the kernel"
        )
    return _unknown(word, "call type", (*_CALL_TYPES, NO_CALLS))


def parse_measurement(text: str) -> Measurement:
    """`mean-latency` → Measurement.MEAN_LATENCY. Raises ValueError."""
    if text in _MEASUREMENTS:
        return _MEASUREMENTS[text]
    raise ValueError(_unknown(text, "measurement", _MEASUREMENTS))


def check_timeframe_type(text: str) -> None:
    """Raise ValueError unless the contract is one that monitors."""
    if text == THROTTLE:
        raise ValueError(
            f"{THROTTLE!r} is Mistral's and refused: Writewise measures, it does not throttle; "
            f"use {MONITOR}"
        )
    if text != MONITOR:
        raise ValueError(_unknown(text, "contract type", (MONITOR,)))


def _unknown(word: str, noun: str, known: Iterable[str]) -> str:
    """The sentence that refuses `word`, with the closest known word or all of them."""
    remedy = suggestion(word, known) or f"use {_choice(known)}"
    return f"{quoted(word)} is no {noun}; {remedy}"


def _choice(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
