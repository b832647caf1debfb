"""The transfer settings of a pull: boto3's own knobs, under boto3's own names.

They are given as `NAME=VALUE,…`, or as a JSON file such as `writewise transfer tune` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from contracts.shared.errors import UsageError
from contracts.shared.files import FileKind
from contracts.shared.text import printable, quoted, suggestion
from contracts.shared.units import parse_count, parse_size_bytes
from sysctl.knobs.transfer import TRANSFER_BY_NAME, transfer_text

if TYPE_CHECKING:
    from boto3.s3.transfer import TransferConfig

MIB = 2**20
_MAX_OBJECTS_AT_ONCE = 64  # a thread each


@dataclass(frozen=True)
class TransferSettings:
    """boto3's TransferConfig as far as it is tuned here; sizes in bytes, defaults boto3's.

    `max_concurrency` is the number of threads that fetch parts of an object, `max_io_queue` how
    many read chunks may wait in memory for the thread that writes. Objects of at least
    `multipart_threshold` are fetched in parts; without `use_threads` one thread does all, one
    part after the other.
    """

    max_concurrency: int = 10
    multipart_chunksize: int = 8 * MIB
    io_chunksize: int = 256 * 1024
    max_io_queue: int = 100
    multipart_threshold: int = 8 * MIB
    use_threads: bool = True

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
            multipart_threshold=self.multipart_threshold,
            use_threads=self.use_threads,
            preferred_transfer_client="classic",
        )

    @property
    def objects_at_once(self) -> int:
        """How many objects a worker has under way: more than it has threads that fetch parts.

        A connection of a small object waits more than it reads, and none is to idle while the
        next object is handed out.
        """
        return min(2 * self.max_concurrency, _MAX_OBJECTS_AT_ONCE) if self.use_threads else 1

    def __str__(self) -> str:
        """What `parse_settings` reads back; the last two only where they are not boto3's."""
        shown = {name: value for name, value in asdict(self).items() if self._is_shown(name)}
        return transfer_text(shown)

    def _is_shown(self, name: str) -> bool:
        is_rare = name in ("multipart_threshold", "use_threads")
        return not is_rare or getattr(self, name) != getattr(TransferSettings, name)


_SWITCH = {"true": True, "false": False}
_FILE = FileKind(
    "transfer file",
    2**20,
    "`writewise transfer tune` writes one; or give the settings as NAME=VALUE,…",
)


def parse_settings(text: str) -> TransferSettings:
    """`max_concurrency=20,io_chunksize=1MiB`, or the name of a `.json` file → settings.

    What is not named keeps its default. Sizes take a unit; a bare number is bytes, as in boto3.
    Raises UsageError with every mistake.
    """
    return settings_for(text, None)[0]


def settings_for(text: str, client: str | None) -> tuple[TransferSettings, str | None]:
    """Settings as `parse_settings`, and the client that pulls with them: `client`, else the file's.

    None where neither names one. Raises UsageError, also where they name two.
    """
    if text.endswith(".json"):
        return _read_file(text, client)
    pairs = [item.strip().partition("=") for item in text.split(",") if item]
    return _settings(((name, value) for name, _, value in pairs), "--transfer"), client


def _read_file(path: str, client: str | None) -> tuple[TransferSettings, str | None]:
    try:
        document = json.loads(_FILE.read_text(path), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{printable(path)} is no JSON document: {error}", _FILE.hint) from None
    given = document.get("settings") if isinstance(document, dict) else None
    if not isinstance(given, dict):
        raise UsageError(f"{printable(path)} has no object `settings`", _FILE.hint)
    client = _one_client(document.get("client"), client, path)
    pairs = ((name, json.dumps(value).strip('"')) for name, value in given.items())
    return _settings(pairs, printable(path)), client


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; Python alone would take the last of two values. Raises ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{quoted(twice)} is given twice")
    return found


def _one_client(found_for: object, client: str | None, path: str) -> str | None:
    """What is fast with one client may be slow with another, which may not even heed it."""
    if found_for is None or found_for == client:
        return client
    if client is None:
        return str(found_for)
    name = quoted(str(found_for))
    raise UsageError(
        f"{printable(path)} has settings that were found for the client {name}, not for {client}",
        f"pull with the client {name}, or give the settings as NAME=VALUE,…",
    )


def _settings(pairs: Iterable[tuple[str, str]], source: str) -> TransferSettings:
    values: dict[str, int] = {}
    problems: list[str] = []
    for name, value in pairs:
        try:
            values[name] = _parse_value(name, value, values)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise UsageError(f"{source}: {'; '.join(problems)}", _usage())
    return replace(TransferSettings(), **values)  # type: ignore[arg-type]


def _parse_value(name: str, text: str, seen: Iterable[str]) -> int:
    knob = TRANSFER_BY_NAME.get(name)
    if knob is None:
        hint = suggestion(name, list(TRANSFER_BY_NAME))
        raise ValueError(f"{quoted(name)} is no transfer setting{', ' + hint if hint else ''}")
    if name in seen:
        raise ValueError(f"{name} is given twice")
    if knob.is_switch:
        return _parse_switch(name, text)
    try:
        is_size_with_unit = knob.is_size and not text.isdigit()
        value = parse_size_bytes(text) if is_size_with_unit else parse_count(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not knob.takes(value):
        raise ValueError(f"{name}: use {knob.text(knob.minimum)} to {knob.text(knob.maximum)}")
    return value


def _parse_switch(name: str, text: str) -> bool:
    if text not in _SWITCH:
        raise ValueError(f"{name}: {quoted(text)} is neither true nor false")
    return _SWITCH[text]


def _usage() -> str:
    return f"settings are {', '.join(TRANSFER_BY_NAME)}; the defaults are {TransferSettings()}"
