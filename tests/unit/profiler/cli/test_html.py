# SPDX-License-Identifier: Apache-2.0
"""`--html`: each command writes the page of its own document, as a new file."""

from __future__ import annotations

import json

import pytest

from profiler.cli.main import main
from tests.unit.profiler.cli.test_json_documents import SOURCE, WORDS, made_up

COMMANDS = (
    "pull",
    "sweep",
    "advise",
    "transfer tune",
    "plan",
    "plan --cheapest",
    "bench-clients",
    "compare",
)
__all__ = ["made_up"]


def embedded(text: str) -> dict[str, object]:
    data = text.split('<script type="application/json" id="document">')[1]
    found: dict[str, object] = json.loads(data.split("</script>")[0])
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_writes_the_page_of_its_document(command, made_up, capsys) -> None:
    main([*WORDS[command].split(), "--json", "--html", "report.html"])
    printed = json.loads(capsys.readouterr().out)
    text = (made_up / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    found = embedded(text)
    files = {"results", "written", "removed"}
    same = {key: value for key, value in printed.items() if key not in {*files, "measured"}}
    assert same == {key: value for key, value in found.items() if key != "measured"}
    assert found["schema"] == f"writewise-{command.replace(' --', '-').replace(' ', '-')}"


def test_the_terminal_gets_the_report_too(made_up, capsys) -> None:
    assert main(["advise", "results.json", "--output-dir", "files", "--html", "report.html"]) == 0
    assert "Recommended" in capsys.readouterr().out
    assert (made_up / "report.html").stat().st_mode & 0o777 == 0o644


def test_a_file_that_exists_is_left_alone(made_up, capsys) -> None:
    (made_up / "report.html").write_text("mine")
    assert main(["advise", "results.json", "--html", "report.html"]) == 2
    assert "cannot write report.html: File exists" in capsys.readouterr().err
    assert (made_up / "report.html").read_text() == "mine"


@pytest.mark.parametrize("command", ["sweep", "transfer tune"])
def test_a_dry_run_has_nothing_to_show(command, made_up, capsys) -> None:
    words = [*command.split(), SOURCE, ".", "--dry-run", "--html", "report.html"]
    assert main(words) == 2
    assert "--dry-run measures nothing that --html could show" in capsys.readouterr().err
    assert not (made_up / "report.html").exists()
