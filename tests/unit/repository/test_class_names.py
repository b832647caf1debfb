# SPDX-License-Identifier: Apache-2.0
"""No two public classes have one name: a reader who meets it knows which one it is."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.places import REPOSITORY

PACKAGES = ("contracts", "sysctl", "profiler")


def test_a_class_name_stands_for_one_thing() -> None:
    modules = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:  # not those within functions
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(str(path.relative_to(REPOSITORY)))
    assert len(modules) > 300
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}
