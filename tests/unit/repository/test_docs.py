# SPDX-License-Identifier: Apache-2.0
"""The docs are true: commands parse, links lead somewhere, each page can be reached."""

from __future__ import annotations

import re
import shlex

import pytest

from profiler.cli import commands
from profiler.cli.main import build_parser
from tests.places import REPOSITORY

DOCS = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown_commands():
    for path in DOCS:
        for block in BLOCK.findall(path.read_text()):
            for line in block.splitlines():
                command = line.removeprefix("$ ").removeprefix("sudo ").removeprefix(".venv/bin/")
                if command.startswith("writewise "):
                    yield path, command.removeprefix("writewise ")


def commands_of_the_docs():
    """Every command that is shown, without `writewise` and `sudo`."""
    return [command for _, command in shown_commands()]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, id=f"{path.parent.name}/{path.name}: {command}")
        for path, command in shown_commands()
    ],
)
def test_every_command_shown_parses(command):
    build_parser().parse_args(shlex.split(command, comments=True))


def test_no_output_is_a_placeholder():
    for path in DOCS:
        for block in BLOCK.findall(path.read_text()):
            assert block.strip() not in ("", "OUTPUT", "TODO"), path.name


def test_make_targets_shown_exist():
    makefile = (REPOSITORY / "Makefile").read_text()
    text = "\n".join(path.read_text() for path in DOCS)
    shown = set(re.findall(r"^(?:sudo )?make ([a-z]+)\b|`(?:sudo )?make ([a-z]+)`", text, re.M))
    targets = {one or other for one, other in shown}
    assert {"demo", "test", "setup", "check"} <= targets
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_the_architecture_has_every_folder():
    text = (REPOSITORY / "docs/development/architecture.md").read_text()
    for package in ("contracts", "sysctl", "profiler"):
        for init in sorted((REPOSITORY / package).glob("*/__init__.py")):
            assert f"| {package}/{init.parent.name}/ |" in text


def test_links_and_paths_lead_somewhere():
    for path in DOCS:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
        for target in re.findall(
            r"`((?:sysctl|profiler|contracts|tests)/[\w/.]+)`", path.read_text()
        ):
            assert (REPOSITORY / target).exists(), f"{path.name}: {target}"


def anchors(path):
    """As a renderer makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_lead_to_headings():
    for path in DOCS:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text()):
            there = path.parent / target if target else path
            assert anchor in anchors(there), f"{path.name}: {target}#{anchor}"


def pages_linked_from(path):
    targets = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", path.read_text())
    return {(path.parent / target).resolve() for target in targets}


def test_every_page_is_at_most_two_clicks_from_the_readme():
    one_click = pages_linked_from(DOCS[0])
    two_clicks = one_click.union(*map(pages_linked_from, one_click))
    assert [str(page) for page in DOCS[1:] if page.resolve() not in two_clicks] == []


def test_every_command_is_in_the_docs():
    text = "\n".join(path.read_text() for path in DOCS)
    shown = set(re.findall(r"(?:writewise|make) ([a-z-]+)", text))
    missing = [command.NAME for command in commands.ALL if command.NAME not in shown]
    assert missing == []
