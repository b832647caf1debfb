# SPDX-License-Identifier: Apache-2.0
"""Results become sentences in one direction, and no empty text stands for "there is none"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.places import REPOSITORY

#: Modules that read the results, and those that show them during a sweep.
ENTRANCES = {"sysctl/advice/advise.py", "profiler/report/sweep_view.py"}


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted(Path(REPOSITORY, folder).rglob("*.py")):
            yield str(path.relative_to(REPOSITORY)), ast.parse(path.read_text())


def imported(tree: ast.Module) -> set[str]:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {f"{node.module}.{alias.name}" for node in found for alias in node.names}


def test_modules_below_an_advice_do_not_read_the_results_again() -> None:
    asks = {
        name
        for name, tree in modules("sysctl/advice", "profiler/report")
        if "sysctl.evidence.results.Results" in imported(tree)
    }
    assert asks == ENTRANCES


def test_an_advice_is_data_until_it_is_reported() -> None:
    """Only wording needs units."""
    for name, tree in modules("sysctl/advice"):
        assert not [each for each in imported(tree) if each.startswith("contracts.shared.units")], (
            name
        )


def test_no_docstring_says_that_an_empty_text_means_none() -> None:
    says = re.compile(r"\bempty (when|where|if)\b", re.IGNORECASE)
    for name, tree in modules("contracts", "sysctl", "profiler"):
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                assert not says.search(ast.get_docstring(node) or ""), (name, node)
