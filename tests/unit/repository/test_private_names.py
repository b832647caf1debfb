# SPDX-License-Identifier: Apache-2.0
"""No test uses a private name of another file: what a test needs is public, with a docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import REPOSITORY

FILES = sorted((REPOSITORY / "tests").rglob("*.py"))
#: Of this form, and in the standard library's manual.
DOCUMENTED = {"os._exit"}
_PRIVATE = r"_[A-Za-z]\w*"
#: In a text, which may be a program or the path of what is patched.
_IN_TEXT = re.compile(rf"(\w+)\.({_PRIVATE})(?=$|\W)")
_BY_TEXT = ("getattr", "hasattr", "setattr", "delattr")

FOREIGN = [
    "from profiler.study.study import _resumed",
    "study._resumed(path)",
    "neighbour._process.pid",
    "monkeypatch.setattr(process, '_name', make)",
    "monkeypatch.setattr('profiler.lab.s3_objects._compute', make)",
    "script = 'import x; print(x._process.pid)'",
    "class Mine(Base):\n def _route(self): pass",
    "class Mine(Base):\n def _route(self): super()._route()",
]
OWN = [
    "from profiler.study.study import resumed",
    "def _mine(): pass\n_mine()",
    "class Mine(Base):\n def __init__(self): self._x = self._make()\n def _make(self): pass",
    "one, _ = two",
    "os._exit(0)",
    "script = 'import os; os._exit(0)'",
    "name.endswith('_ratio')",
]


def own_names(tree: ast.AST) -> set[str]:
    """Return the names that a file defines."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {node.attr} if is_self(node.value) else set()
    return found


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def used_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Return names that are imported, looked up or mentioned in a text, with their owners."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            yield ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _IN_TEXT.findall(node.value)
        elif isinstance(node, ast.Call) and name_of(node.func) in _BY_TEXT:
            yield from (("", ast.literal_eval(n)) for n in node.args[1:2] if is_text(n))


def name_of(function: ast.expr) -> str:
    """Return the last part of a called name."""
    return getattr(function, "attr", "") or getattr(function, "id", "")


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def methods_of_others(tree: ast.AST) -> Iterator[str]:
    """Methods of subclasses that the file itself does not call: the class above does."""
    called = {name for holder, name in used_names(tree) if holder != "super()"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.bases:
            methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            yield from (name for name in methods if name not in called)


def private_names_of_others(source: str) -> set[str]:
    tree = ast.parse(source)
    own = own_names(tree)
    used = {
        name
        for holder, name in used_names(tree)
        if name not in own and f"{holder}.{name}" not in DOCUMENTED
    }
    return {name for name in {*used, *methods_of_others(tree)} if re.fullmatch(_PRIVATE, name)}


@pytest.mark.parametrize("source", FOREIGN)
def test_a_private_name_of_another_file_is_found(source: str) -> None:
    assert private_names_of_others(source)


@pytest.mark.parametrize("source", OWN)
def test_a_files_own_private_names_are_allowed(source: str) -> None:
    assert private_names_of_others(source) == set()


def test_no_test_uses_a_private_name_of_another_file() -> None:
    found = {
        str(path.relative_to(REPOSITORY)): names
        for path in FILES
        if path != Path(__file__) and (names := private_names_of_others(path.read_text()))
    }
    assert found == {}
