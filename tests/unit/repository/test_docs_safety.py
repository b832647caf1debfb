"""Every promise of docs/safety.md names tests that exist, and every safety test is named there."""

from __future__ import annotations

import re

from profiler.cli import commands
from profiler.recording import privileges
from tests.places import REPOSITORY

TEXT = (REPOSITORY / "docs" / "safety.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)


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
    for paragraph in re.split(r"\n(?=\*\*|### Cred)", promises)[1:]:
        assert "- `tests/" in paragraph, paragraph.splitlines()[0]


def test_every_command_is_told() -> None:
    for command in commands.ALL:
        assert f"`writewise {command.NAME}" in TEXT, command.NAME


def test_the_capabilities_that_are_kept_are_told() -> None:
    kept = privileges.needed_to_profile(changes_user=True, may_remove_output=True)
    names = {number: name for name, number in vars(privileges).items() if name[0].isupper()}
    for number in {*kept, privileges.SYS_PTRACE}:
        assert f"CAP_{names[number]}" in TEXT
