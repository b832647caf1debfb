# SPDX-License-Identifier: Apache-2.0
"""The words of Mistral's contract language, and those that Writewise adds.

Words in `model` are supported. Mistral's other words and unknown words are refused with different
messages: no part of a contract is ever ignored. Words that Mistral does not have are accepted only
in YAML. Source of the words: `docs/reference/contracts.md`.
"""

from __future__ import annotations

from collections.abc import Iterable

from contracts.model import PERCENTILES, CallType, Measurement
from contracts.shared.text import quoted, suggestion

#: Mistral measures these by wrapping the MPI library; they are not system calls.
CALL_TYPES_OF_MPI = (
    *("mpi_access", "mpi_create", "mpi_delete", "mpi_fschange", "mpi_open"),
    *("mpi_read", "mpi_seek", "mpi_sync", "mpi_write"),
)
#: The call type of a rule on memory or CPU time.
NO_CALLS = "none"
#: Words that Mistral does not have.
YAML_ONLY = tuple(word.value for word in (CallType.FSYNC, *PERCENTILES))
#: The header word of a contract that measures I/O, and of one that limits it.
MONITOR, THROTTLE = "monitortimeframe", "throttletimeframe"

_CALL_TYPES = {call_type.value: call_type for call_type in CallType}
_MEASUREMENTS = {measurement.value: measurement for measurement in Measurement}


def parse_call_types(text: str) -> tuple[CallType, ...]:
    """`write` or `read+write` → the types in the enumeration's order; `none` → no type.

    Raises ValueError for the first word that is unknown or repeated.
    """
    if text == NO_CALLS:
        return ()
    words = text.split("+")
    if NO_CALLS in words:
        raise ValueError(f"{quoted(text)} combines {NO_CALLS} with types of calls")
    for number, word in enumerate(words):
        if word not in _CALL_TYPES:
            raise ValueError(_refused_call_type(word))
        if word in words[:number]:
            raise ValueError(f"{quoted(text)} names {word} twice")
    return tuple(call_type for word, call_type in _CALL_TYPES.items() if word in words)


def call_types_text(call_types: Iterable[CallType]) -> str:
    """The text that `parse_call_types` parses to the same types."""
    return "+".join(call_type.value for call_type in call_types) or NO_CALLS


def _refused_call_type(word: str) -> str:
    if word in CALL_TYPES_OF_MPI:
        return (
            f"Writewise cannot measure Mistral's {quoted(word)}: "
            "MPI calls are library calls, not system calls"
        )
    return _unknown(word, "call type", (*_CALL_TYPES, NO_CALLS))


def parse_measurement(text: str) -> Measurement:
    """`mean-latency` → Measurement.MEAN_LATENCY. Raises ValueError."""
    if text in _MEASUREMENTS:
        return _MEASUREMENTS[text]
    raise ValueError(_unknown(text, "measurement", _MEASUREMENTS))


def check_timeframe_type(text: str) -> None:
    """Raise ValueError unless the contract's type is `monitortimeframe`."""
    if text == THROTTLE:
        raise ValueError(
            f"Mistral's {THROTTLE!r} is not supported: Writewise measures I/O and does not "
            f"throttle it; use {MONITOR}"
        )
    if text != MONITOR:
        raise ValueError(_unknown(text, "contract type", (MONITOR,)))


def _unknown(word: str, noun: str, known: Iterable[str]) -> str:
    """The message for an unknown word, with the closest known word or all of them."""
    remedy = suggestion(word, known) or f"use {_choice(known)}"
    return f"unknown {noun} {quoted(word)}; {remedy}"


def _choice(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
