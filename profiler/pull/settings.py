# SPDX-License-Identifier: Apache-2.0
"""The transfer settings of a pull: boto3's own, under boto3's names.

Users pass them as `NAME=VALUE,…` or as a JSON file that `writewise transfer tune` wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
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
    """The settings of boto3's TransferConfig that are tuned; sizes in bytes, boto3's defaults.

    `max_concurrency` is the number of threads that fetch parts of an object, `max_io_queue` the
    number of chunks that may wait in memory for the writing thread. Objects of at least
    `multipart_threshold` are fetched in parts. Without `use_threads` one thread fetches all parts
    in turn.
    """

    max_concurrency: int = 10
    multipart_chunksize: int = 8 * MIB
    io_chunksize: int = 256 * 1024
    max_io_queue: int = 100
    multipart_threshold: int = 8 * MIB
    use_threads: bool = True

    def to_transfer_config(self) -> TransferConfig:
        """Return boto3's object, always for the classic client.

        boto3 may choose the CRT client on some instance types. That client ignores `endpoint_url`
        (boto/boto3#4839) and most of these settings, and only one process of a host gets it, so
        measurements would depend on the host and on other processes.
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
        """Number of objects that a worker fetches at a time.

        Twice the number of threads: the connection of a small object mostly waits, and none should
        idle until the next object is handed out.
        """
        return min(2 * self.max_concurrency, _MAX_OBJECTS_AT_ONCE) if self.use_threads else 1

    def __str__(self) -> str:
        """Return what `parse_settings` reads; the last two only if they differ from boto3's."""
        shown = {name: value for name, value in asdict(self).items() if self._is_shown(name)}
        return transfer_text(shown)

    def _is_shown(self, name: str) -> bool:
        is_rare = name in ("multipart_threshold", "use_threads")
        return not is_rare or getattr(self, name) != getattr(TransferSettings, name)


_SWITCH = {"true": True, "false": False}
_FILE = FileKind(
    "transfer settings",
    2**20,
    "create one with `writewise transfer tune`, or pass the settings as NAME=VALUE,…",
)


def parse_settings(text: str) -> TransferSettings:
    """Parse `max_concurrency=20,io_chunksize=1MiB`, or the name of a `.json` file.

    Settings that are not named keep their defaults. A size without a unit is in bytes, as in boto3.
    Raises UsageError with every mistake.
    """
    return settings_for(text, None)[0]


def settings_for(text: str, client: str | None) -> tuple[TransferSettings, str | None]:
    """Return settings as `parse_settings`, and their client: `client`, else the file's, else None.

    Raises UsageError, also if the two name different clients.
    """
    if text.endswith(".json") or _is_path(text):
        return _read_file(text, client)
    pairs = [item.strip().partition("=") for item in text.split(",") if item]
    return _settings(((name, value) for name, _, value in pairs), "--transfer"), client


def _is_path(text: str) -> bool:
    return "=" not in text and ("/" in text or (bool(text) and Path(text).is_dir()))


def _read_file(path: str, client: str | None) -> tuple[TransferSettings, str | None]:
    try:
        document = json.loads(_FILE.read_text(path), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        message = f"{printable(path)} is not valid JSON: {error}"
        raise UsageError(message, _FILE.hint) from None
    given = document.get("settings") if isinstance(document, dict) else None
    if not isinstance(given, dict):
        raise UsageError(f"{printable(path)} has no object `settings`", _FILE.hint)
    client = _one_client(document.get("client"), client, path)
    pairs = ((name, json.dumps(value).strip('"')) for name, value in given.items())
    return _settings(pairs, printable(path)), client


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object. Raises ValueError for a name given twice, of which json takes one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{quoted(twice)} is given twice")
    return found


def _one_client(found_for: object, client: str | None, path: str) -> str | None:
    """Return the one client that is named. Raises UsageError for two.

    A setting that is fast with one client may be slow with another, or be ignored.
    """
    if found_for is None or found_for == client:
        return client
    if client is None:
        return str(found_for)
    name = quoted(str(found_for))
    raise UsageError(
        f"{printable(path)} has settings for the client {name}, not for {client}",
        f"use --client {name}, or pass the settings as NAME=VALUE,…",
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
        raise ValueError(f"unknown transfer setting {quoted(name)}{', ' + hint if hint else ''}")
    if not text:
        raise ValueError(f"=VALUE is missing after {name}")
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
        raise ValueError(f"{name}: invalid value {quoted(text)}, use true or false")
    return _SWITCH[text]


def _usage() -> str:
    return f"settings are {', '.join(TRANSFER_BY_NAME)}; the defaults are {TransferSettings()}"
