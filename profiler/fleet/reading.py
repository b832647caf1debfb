# SPDX-License-Identifier: Apache-2.0
"""Reading records of other nodes: nothing in them is trusted, and every error is named.

What is unpacked, parsed and checked is bounded first. A value decides nothing: it chooses no path,
and reaches SQL only as data.
"""

from __future__ import annotations

import functools
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from contracts.causes import Cause
from contracts.shared.text import printable
from contracts.stats import BUCKET_COUNT
from profiler.fleet.record import (
    ARMS,
    DAY_HISTOGRAMS,
    DAY_VERSION,
    KIND,
    MAX_UNPACKED_BYTES,
    PULL_HISTOGRAMS,
    PULL_VERSION,
    SYSCTL_PREFIX,
    VERIFIED,
    DayCounts,
    FleetRecord,
    PullCounts,
    PullRates,
    RolloutArm,
)
from sysctl.evidence.class_key import class_key_from_json, class_problems
from sysctl.knobs.vm import BY_NAME

#: Bounds of plausible values: sums over a million nodes stay below 2^63.
_MOST_BYTES, _MOST_NS, _MOST_COUNT = 2**53, 10**17, 10**12
_MOST_SECONDS = 31 * 86400.0
#: What a node finds plausible itself (`sysctl.evidence.prediction`): one record with a rate near 0
#: would add more time to its class than all others.
_SLOWEST_BYTES_PER_S, _FASTEST_BYTES_PER_S = 1e3, 1e12
_MOST_STAGES = 1000
_MAX_PROBLEMS, _SHOWN_CHARACTERS = 20, 60
#: Of a class with its key; larger ones are not remembered.
_REMEMBERED_CHARACTERS = 2000
_MOST_DIGITS = 30
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (_MOST_DIGITS + 1))
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_START = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GZIP = 31  # zlib's window bits, and 16 for a gzip header

Check = Callable[[object], bool]


class BrokenRecordError(ValueError):
    """A record that cannot be used; `problems` names every error."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def read_records(packed: bytes) -> Iterator[FleetRecord]:
    """Yield the records in a packed file, one a line. Raises BrokenRecordError, also on the way."""
    lines = unpack(packed).split(b"\n")
    if lines[-1]:
        raise BrokenRecordError("the last line is not complete")
    if len(lines) == 1:
        raise BrokenRecordError("it has no record")
    for line in lines[:-1]:
        yield parse_record(line)


def unpack(packed: bytes) -> bytes:
    """Return the content of one gzip stream, of which no more than the limit is ever unpacked."""
    unpacking = zlib.decompressobj(_GZIP)
    try:
        content = unpacking.decompress(packed, MAX_UNPACKED_BYTES + 1)
    except zlib.error:
        raise BrokenRecordError("not a gzip file, or a damaged one") from None
    if len(content) > MAX_UNPACKED_BYTES:
        raise BrokenRecordError(f"more than {MAX_UNPACKED_BYTES >> 20} MiB unpacked")
    if not unpacking.eof:
        raise BrokenRecordError("the gzip file is not complete")
    if unpacking.unused_data:
        raise BrokenRecordError("there is more after the end of the gzip data")
    return content


def parse_record(line: bytes) -> FleetRecord:
    """Return the record in a line of JSON. Raises BrokenRecordError that names every error."""
    data = _parsed(line)
    if data.get("kind") != KIND:
        raise BrokenRecordError(f"kind: not {KIND}")
    version = data.get("version")
    if type(version) is not int or version not in _FORMS:
        known = " or ".join(map(str, _FORMS))
        raise BrokenRecordError(f"version: {_shown(version)} is not {known}")
    try:
        problems = list(_problems(data, _FORMS[version]))
    except RecursionError:  # what could just be parsed can be too deep to be shown
        raise BrokenRecordError("nested too deeply") from None
    if problems:
        more = len(problems) - _MAX_PROBLEMS
        rest = [f"and {more} more errors"] if more > 0 else []
        raise BrokenRecordError(*problems[:_MAX_PROBLEMS], *rest)
    return _record(data)


def _parsed(line: bytes) -> dict[str, Any]:
    if _LONG_NUMBER.search(line):  # converting one with many digits would take quadratic time
        raise BrokenRecordError(f"a number with more than {_MOST_DIGITS} digits")
    try:
        data = json.loads(
            line.decode("utf-8"),
            parse_constant=_refuse,
            object_pairs_hook=_without_repetition,
        )
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, BrokenRecordError) else "not valid JSON"
        raise BrokenRecordError(reason) from None
    if not isinstance(data, dict):
        raise BrokenRecordError("not a JSON object")
    return data


def _refuse(name: str) -> NoReturn:
    raise BrokenRecordError(f"{name} is not a number of JSON")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BrokenRecordError("a name occurs twice in an object")
    return found


def _problems(data: Mapping[str, Any], form: _Form) -> Iterator[str]:
    """Yield every error of a record of this form."""
    yield from _fields(data, form.fields, "")
    if "class" in data:
        yield from _class_problems(data["class"], data.get("class_key"))
    for name, checks in form.parts.items():
        part = data.get(name)
        if part is None:
            if name not in _MAY_BE_NULL and name in data:
                yield f"{name}: null"
        elif not isinstance(part, dict):
            yield f"{name}: not an object"
        else:
            yield from _fields(part, checks, f"{name}.")
    yield from _setting_problems(data.get("settings"))
    if "day" in form.parts:
        yield from _day_problems(data.get("day"))


def _class_problems(shared: object, key: object) -> tuple[str, ...]:
    """Return every error of a class and its key. Most records repeat what another one has."""
    text = json.dumps(shared)
    if isinstance(key, str) and len(text) + len(key) <= _REMEMBERED_CHARACTERS:
        return _remembered_problems(text, key)
    return _found_problems(shared, key)


@functools.lru_cache(maxsize=4096)
def _remembered_problems(text: str, key: str) -> tuple[str, ...]:
    return _found_problems(json.loads(text), key)


def _found_problems(shared: object, key: object) -> tuple[str, ...]:
    problems = tuple(class_problems(shared))
    if not problems and key != str(class_key_from_json(shared)):
        return ("class_key: not the key of its class",)
    return problems


def _fields(data: Mapping[str, Any], checks: Mapping[str, Check], prefix: str) -> Iterator[str]:
    yield from (f"{prefix}{name}: missing" for name in checks if name not in data)
    for name, value in data.items():
        if name not in checks:
            yield f"{prefix or 'unknown field '}{_shown(name)}" + (": unknown" if prefix else "")
        elif not checks[name](value):
            yield f"{prefix}{name}: invalid value {_shown(value)}"


def _setting_problems(settings: object) -> Iterator[str]:
    if not isinstance(settings, dict):
        yield "settings: not an object"
        return
    for name, value in settings.items():
        knob = BY_NAME.get(f"{SYSCTL_PREFIX}{name}")
        if knob is None:
            yield f"settings.{_shown(name)}: unknown"
        elif not _whole(knob.maximum)(value):
            yield f"settings.{name}: invalid value {_shown(value)}"


def _day_problems(day: object) -> Iterator[str]:
    """Yield which parts of the day's time are longer than the whole."""
    if not isinstance(day, dict):
        return
    for part, whole in (
        ("burst_ns", "watched_ns"),
        ("above_freerun_ns", "burst_ns"),
        ("stalled_ns", "burst_ns"),
    ):
        if type(day.get(part)) is type(day.get(whole)) is int and 0 <= day[whole] < day[part]:
            yield f"day.{part}: more than {whole}"


def _shown(value: object) -> str:
    """Return untrusted data for a message: short, and safe for a terminal."""
    text = value if isinstance(value, str) else repr(value)
    return printable(repr(text[:_SHOWN_CHARACTERS]))


def _whole(most: int, least: int = 0) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _number(least: float, most: float) -> Check:
    return lambda value: type(value) in (int, float) and least <= value <= most  # type: ignore[operator]


def _text(pattern: re.Pattern[str]) -> Check:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _one_of(*values: str) -> Check:
    return lambda value: isinstance(value, str) and value in values


def _is_start(value: object) -> bool:
    if not isinstance(value, str) or not _START.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value[:19])
    except ValueError:
        return False
    return True


def _is_histogram(value: object) -> bool:
    """Return whether it is a list of pairs, whose indexes rise."""
    if not isinstance(value, list) or len(value) > BUCKET_COUNT:
        return False
    before = -1
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            return False
        index, count = pair
        if type(index) is not int or type(count) is not int:
            return False
        if not before < index < BUCKET_COUNT or not 0 < count <= _MOST_COUNT:
            return False
        before = index
    return True


def _anything(_: object) -> bool:
    """Return true: what is inside is checked on its own."""
    return True


_COMMON: Mapping[str, Check] = {
    "kind": _anything,
    "version": _anything,
    "writewise": _text(_VERSION),
    "node": _text(_UUID),
    "host": lambda value: value is None,
    "start": _is_start,
    "seconds": _number(0, _MOST_SECONDS),
    "class": _anything,
    "class_key": _anything,
    "rollout": _anything,
    "settings": _anything,
    "histograms": _anything,
    "peak_at_risk_bytes": _or_null(_whole(_MOST_BYTES)),
    "oom_kills": _or_null(_whole(_MOST_COUNT)),
    "memory_psi_full_us": _or_null(_whole(_MOST_NS)),
    "verify": _or_null(_one_of(*VERIFIED)),
}
_ROLLOUT: Mapping[str, Check] = {
    "id": _text(_ID),
    "stage": _whole(_MOST_STAGES, 1),
    "arm": _one_of(*ARMS),
}
_PARTS_OF_PULL: Mapping[str, Mapping[str, Check]] = {
    "rollout": _ROLLOUT,
    "pulls": {
        "count": _whole(_MOST_COUNT),
        "failed": _whole(_MOST_COUNT),
        "bytes": _whole(_MOST_BYTES),
        "return_ns": _whole(_MOST_NS),
        "durable_ns": _whole(_MOST_NS),
    },
    "histograms": dict.fromkeys(PULL_HISTOGRAMS, _is_histogram),
    "stalls": {cause.name.lower(): _whole(_MOST_NS) for cause in Cause},
    "rates": {
        "burst_bytes": _whole(_MOST_BYTES, 1),
        "dirtyable_bytes": _whole(_MOST_BYTES, 1),
        "source_bytes_per_s": _number(_SLOWEST_BYTES_PER_S, _FASTEST_BYTES_PER_S),
        "device_bytes_per_s": _number(_SLOWEST_BYTES_PER_S, _FASTEST_BYTES_PER_S),
        "seen_bytes": _whole(_MOST_BYTES),
    },
}
_PARTS_OF_DAY: Mapping[str, Mapping[str, Check]] = {
    "rollout": _ROLLOUT,
    "day": {
        **dict.fromkeys(
            ("watched_ns", "burst_ns", "above_freerun_ns", "stalled_ns"), _whole(_MOST_NS)
        ),
        "throttled_ns": _whole(_MOST_NS),
        "pauses": _whole(_MOST_COUNT),
        "written_bytes": _whole(_MOST_BYTES),
        "lost_events": _whole(_MOST_COUNT),
    },
    "histograms": dict.fromkeys(DAY_HISTOGRAMS, _is_histogram),
}
_MAY_BE_NULL = ("rollout", "rates")


class _Form(NamedTuple):
    """The fields of a version's records, and those of their parts."""

    fields: Mapping[str, Check]
    parts: Mapping[str, Mapping[str, Check]]


_FORMS: Mapping[int, _Form] = {
    PULL_VERSION: _Form(
        {
            **_COMMON,
            **dict.fromkeys(("pulls", "stalls", "rates"), _anything),
            "writer_ns": _whole(_MOST_NS),
        },
        _PARTS_OF_PULL,
    ),
    DAY_VERSION: _Form({**_COMMON, "day": _anything}, _PARTS_OF_DAY),
}


def _record(data: Mapping[str, Any]) -> FleetRecord:
    """Return the record of data without errors."""
    rollout = data["rollout"]
    return FleetRecord(
        writewise=data["writewise"],
        node=data["node"],
        start=data["start"],
        seconds=float(data["seconds"]),
        node_class=class_key_from_json(data["class"]),
        settings={f"{SYSCTL_PREFIX}{name}": value for name, value in data["settings"].items()},
        histograms=data["histograms"],
        peak_at_risk_bytes=data["peak_at_risk_bytes"],
        oom_kills=data["oom_kills"],
        memory_psi_full_us=data["memory_psi_full_us"],
        verify=data["verify"],
        rollout=RolloutArm(**rollout) if rollout else None,
        **(_of_day(data) if "day" in data else _of_pull(data)),
    )


def _of_pull(data: Mapping[str, Any]) -> dict[str, Any]:
    rates = data["rates"]
    return {
        "pulls": PullCounts(**data["pulls"]),
        "stalls": {cause: data["stalls"][cause.name.lower()] for cause in Cause},
        "writer_ns": data["writer_ns"],
        "rates": PullRates(**rates) if rates else None,
    }


def _of_day(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"day": DayCounts(**data["day"])}
