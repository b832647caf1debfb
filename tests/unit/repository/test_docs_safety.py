# SPDX-License-Identifier: Apache-2.0
"""Every promise of docs/explanation/safety.md has tests, in docs/development/safety-tests.md."""

from __future__ import annotations

import re

from profiler.cli import commands
from profiler.recording import privileges
from tests.places import REPOSITORY

TEXT = (REPOSITORY / "docs/explanation/safety.md").read_text()
TESTS = (REPOSITORY / "docs/development/safety-tests.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TESTS)


def test_the_tests_named_exist() -> None:
    assert NAMED
    for file, name in NAMED:
        source = (REPOSITORY / file).read_text()
        assert not name or re.search(rf"^def {name}\(", source, re.M), f"{file}::{name}"


def test_every_file_of_safety_tests_is_named() -> None:
    files = {
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "tests").glob("*/test_safety*.py")
    }
    assert files <= {file for file, _ in NAMED}


def test_every_promise_has_a_test() -> None:
    promises = TEXT.split("## What it promises")[1].split("## What it does not promise")[0]
    leads = re.findall(r"^\*\*(.+?)[.,]?\*\*", promises, re.M)
    sections = dict(re.findall(r"^## (.+)\n\n((?:.+\n)*)", TESTS, re.M))
    assert len(leads) > 10
    assert [lead for lead in leads if "- `tests/" not in sections.get(lead, "")] == []


def test_every_command_is_named() -> None:
    for command in commands.ALL:
        assert f"`writewise {command.NAME}" in TEXT, command.NAME


def test_the_kept_capabilities_are_named() -> None:
    kept = privileges.needed_to_profile(changes_user=True, may_remove_output=True)
    names = {number: name for name, number in vars(privileges).items() if name[0].isupper()}
    for number in {*kept, privileges.SYS_PTRACE}:
        assert f"CAP_{names[number]}" in TEXT
