"""Reads a contract file in whichever syntax it is written."""

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
_CONTRACT = FileKind("contract", MAX_FILE_BYTES, _HINT)


def load_contract(path: str | None, *, trusted: bool = False) -> Contract:
    """The contract in the file at `path`; None is the shipped contract of the case study.

    With `trusted`, which commands ask for that change the host, the file must be one that nobody
    else could have written. Raises UsageError for what cannot be read as text, InvalidFileError
    (with every error) for text that is no contract.
    """
    if path is None:
        path, trusted = str(DEFAULT), False  # as trusted as this code is
    text = read_text(path, trusted=trusted)
    return SYNTAXES[syntax_of(path, text)].parse(text, path)


def load_contract_of_calls(path: str | None, *, trusted: bool = False) -> Contract:
    """The same, for what measures calls alone. Raises UsageError where a rule asks for more."""
    contract = load_contract(path, trusted=trusted)
    for rule in contract.rules:
        if rule.slot is None:
            message = f"the rule {printable(rule.label)} measures {rule.measurement.value}"
            raise UsageError(message, "only `writewise profile` measures memory and CPU time")
    return contract


def syntax_of(path: str, text: str) -> str:
    """`yaml` or `mistral`: told by the file's suffix, else by the first line that is no comment."""
    suffix = Path(path).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    lines = (line.strip() for line in text.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return "yaml" if _YAML_START.match(first) else "mistral"


def read_text(path: str, *, trusted: bool = False) -> str:
    """The file's text, without a byte order mark. Raises UsageError with what the file is."""
    return _CONTRACT.read_text(path, trusted=trusted)
