# SPDX-License-Identifier: Apache-2.0
"""Reading of contract files in either syntax."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contracts import mistral, yaml_file
from contracts.model import Contract
from contracts.shared.errors import UsageError
from contracts.shared.files import FileKind
from contracts.shared.text import printable


@dataclass(frozen=True)
class Syntax:
    """A syntax of contracts; `render` raises ValueError for a contract that it cannot express."""

    parse: Callable[[str, str], Contract]
    render: Callable[[Contract], str]


#: Four times the size of a contract with 64 rules and the longest paths.
MAX_FILE_BYTES = 1 << 20
LIBRARY = Path(__file__).with_name("library")
#: The case study's contract: mean write latency, number of writes and bytes written, on any path.
DEFAULT = LIBRARY / "case-study.yaml"
#: The contract of a first look at a host: writes and fsyncs, on any path.
FIRST_LOOK = LIBRARY / "first-look.yaml"
#: The syntaxes by their names on the command line.
SYNTAXES = {
    "mistral": Syntax(mistral.parse, mistral.render),
    "yaml": Syntax(yaml_file.parse, yaml_file.render),
}

_SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".mistral": "mistral"}
_YAML_START = re.compile(r"[-%{\[\"'&!]|[A-Za-z_]+\s*:")
_HINT = "name a contract file, in YAML or Mistral's syntax"
_OR_OMIT = "name a contract file, or omit --contract to use the one that comes with Writewise"
_REQUIRED = FileKind("contract", MAX_FILE_BYTES, _HINT)
_OPTIONAL = FileKind("contract", MAX_FILE_BYTES, _OR_OMIT)


def load_contract(path: str | None, *, trusted: bool = False) -> Contract:
    """Return the contract in the file at `path`; None is the contract of the case study.

    With `trusted` (for commands that change the host) nobody else may be able to write the file.
    Raises UsageError if the file cannot be read as text, InvalidFileError (with every error) if the
    text is not a contract.
    """
    if path is None:
        path, trusted = str(DEFAULT), False  # as trusted as this code is
    text = _OPTIONAL.read_text(path, trusted=trusted)
    return SYNTAXES[syntax_of(path, text)].parse(text, path)


def load_contract_of_calls(path: str | None, *, trusted: bool = False) -> Contract:
    """Return the same; raise UsageError if a rule measures memory or CPU time."""
    contract = load_contract(path, trusted=trusted)
    for rule in contract.rules:
        if rule.slot is None:
            message = f"the rule {printable(rule.label)} measures {rule.measurement.value}"
            raise UsageError(message, "only `writewise profile` measures memory and CPU time")
    return contract


def syntax_of(path: str, text: str) -> str:
    """Return `yaml` or `mistral`, by the suffix or else by the first line that is not a comment."""
    suffix = Path(path).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    lines = (line.strip() for line in text.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return "yaml" if _YAML_START.match(first) else "mistral"


def read_text(path: str) -> str:
    """Return the text of a file that had to be named, without a byte order mark.

    Raises UsageError.
    """
    return _REQUIRED.read_text(path)
