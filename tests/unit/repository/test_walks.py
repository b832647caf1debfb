# SPDX-License-Identifier: Apache-2.0
"""The walks of docs/development/architecture.md name modules that exist and import each other."""

from __future__ import annotations

import ast
import re

import pytest

from tests.places import REPOSITORY

_TEXT = (REPOSITORY / "docs/development/architecture.md").read_text()
_WALKS = _TEXT.partition("## Four walks")[2].partition("\n## ")[0]
_MODULE = re.compile(r"`((?:contracts|sysctl|profiler)/\S+\.py)`")
_FOUND = list(_MODULE.finditer(_WALKS))
#: What stands between a module and the next one.
_LINKS = [
    (before[1], after[1], _WALKS[before.end() : after.start()])
    for before, after in zip(_FOUND, _FOUND[1:])
]


def imported(path: str) -> set[str]:
    """Return the files of all modules that a module imports, or imports from."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((REPOSITORY / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {f"{name.replace('.', '/')}.py" for name in found}


def test_there_are_four_walks_of_modules_that_exist() -> None:
    assert _WALKS.count("\n**") == 4
    named = _MODULE.findall(_WALKS)
    assert len(named) > 30
    assert [name for name in named if not (REPOSITORY / name).is_file()] == []


@pytest.mark.parametrize(
    ("module", "other"), [link[:2] for link in _LINKS if "→" in link[2]], ids=str
)
def test_neighbours_in_a_walk_import_each_other(module: str, other: str) -> None:
    assert other in imported(module) or module in imported(other)
