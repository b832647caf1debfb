"""Reads a contract file, whatever it turns out to be.

The file is looked at before it is opened (a FIFO would block, a watchdog device would be armed)
and never read beyond `MAX_FILE_BYTES`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contracts import mistral, yaml_file
from contracts.errors import UsageError
from contracts.model import Contract
from contracts.text import printable


@dataclass(frozen=True)
class Syntax:
    """A way to write contracts; `render` raises ValueError for what it cannot write."""

    parse: Callable[[str, str], Contract]
    render: Callable[[Contract], str]


#: A contract with 64 rules and the longest paths takes a quarter of this.
MAX_FILE_BYTES = 1 << 20
LIBRARY = Path(__file__).with_name("library")
#: The case study's contract: mean write latency, number of writes and bytes written, anywhere.
DEFAULT = LIBRARY / "case-study.yaml"
#: The syntaxes, by the names that the command line gives them.
SYNTAXES = {
    "mistral": Syntax(mistral.parse, mistral.render),
    "yaml": Syntax(yaml_file.parse, yaml_file.render),
}

_SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".mistral": "mistral"}
_YAML_START = re.compile(r"[-%{\[\"'&!]|[A-Za-z_]+\s*:")
_HINT = "name a contract file, or none for the contract that is shipped"
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def load_contract(path: str | None) -> Contract:
    """The contract in the file at `path`; None is the shipped contract of the case study.

    Raises UsageError for what cannot be read as text, InvalidFileError (with every error) for
    text that is no contract.
    """
    if path is None:
        path = str(DEFAULT)
    text = read_text(path)
    return SYNTAXES[syntax_of(path, text)].parse(text, path)


def syntax_of(path: str, text: str) -> str:
    """`yaml` or `mistral`: told by the file's suffix, else by the first line that is no comment."""
    suffix = Path(path).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    lines = (line.strip() for line in text.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return "yaml" if _YAML_START.match(first) else "mistral"


def read_text(path: str) -> str:
    """The file's text, without a byte order mark. Raises UsageError with what the file is."""
    content = _read_bytes(path)
    name = printable(path)
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{name} is larger than 1 MiB, so it is no contract", _HINT)
    if not content.strip():
        raise UsageError(f"{name} is empty", _HINT)
    if b"\0" in content:
        raise UsageError(f"{name} is binary, not a contract's text", _HINT)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"byte {content[error.start]:#04x} at offset {error.start}"
        raise UsageError(f"{name} is not UTF-8 text: {problem}", _HINT) from None


def _read_bytes(path: str) -> bytes:
    """At most one byte more than a contract may have. Raises UsageError."""
    name = printable(path)
    try:
        _require_regular(Path(path).stat(), name)
        # the path may be another file by now: O_NONBLOCK keeps even a FIFO from blocking
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            _require_regular(os.fstat(descriptor), name)
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"cannot read the contract {name}: {reason}", _HINT) from None


def _require_regular(status: os.stat_result, name: str) -> None:
    for is_kind, kind in _KINDS:
        if is_kind(status.st_mode):
            raise UsageError(f"{name} is {kind}, not a contract file", _HINT)
