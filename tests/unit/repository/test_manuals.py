# SPDX-License-Identifier: Apache-2.0
"""Man pages and completions are those of the parser, and real programs take them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tools.docs import manuals
from tools.docs.commands import all_commands

FILES = manuals.files("1.2.3")
PAGES = [name for name in FILES if name.endswith(".1")]


@pytest.fixture(scope="module")
def share(tmp_path_factory):
    folder = tmp_path_factory.mktemp("share")
    manuals.write(folder, "1.2.3")
    return folder


def printed_by(program, *arguments):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing: run `sudo tools/setup test`")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@pytest.mark.parametrize("name", PAGES)
def test_mandoc_finds_no_fault(name, share):
    assert printed_by("mandoc", "-T", "lint", "-W", "warning", share / name) == ""


def test_every_command_has_a_page_with_its_options():
    for command in all_commands():
        page = FILES[f"man/man1/{'-'.join(('writewise', *command.words))}.1"].replace("\\-", "-")
        for action in command.actions:
            assert all(option in page for option in action.option_strings), command.name
        assert all(f"\\fB{each.words[-1]}\\fR" in page for each in command.subcommands)


def test_the_name_of_a_page_is_what_apropos_finds():
    page = FILES["man/man1/writewise-transfer-tune.1"]
    assert ".SH NAME\nwritewise-transfer-tune \\- search" in page
    assert '"writewise 1.2.3"' in page.splitlines()[0].replace("\\", "")


def test_the_date_is_that_of_the_build(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert '"January 01, 1970"' in manuals.man_page(all_commands()[0], "1")


def candidates_of_bash(share, *words):
    script = """
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        $(complete -p writewise | grep -o '_[a-z_]*')
        printf '%s\\n' "${COMPREPLY[@]}" """
    path = share / manuals.COMPLETIONS["bash"]
    return printed_by("bash", "-c", script, "bash", path, *words).split()


def candidates_of_fish(share, *words):
    script = f"source {share / manuals.COMPLETIONS['fish']}; complete -C '{' '.join(words)}'"
    lines = printed_by("fish", "--no-config", "-c", script).splitlines()
    return [line.partition("\t")[0] for line in lines]


@pytest.mark.parametrize("candidates_of", [candidates_of_bash, candidates_of_fish])
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["writewise", "swe"], "sweep"),
        (["writewise", "sweep", "--budg"], "--budget"),
        (["writewise", "transfer", "tu"], "tune"),
        (["writewise", "pull", "--verify", "f"], "full"),
        (["writewise", "sweep", "--strategy", "bay"], "bayes"),
        (["writewise", "sweep", "--space", "wi"], "wide"),
        (["writewise", "advise", "--format", "al"], "all"),
    ],
    ids=" ".join,
)
def test_a_shell_completes(candidates_of, words, wanted, share):
    assert candidates_of(share, *words) == [wanted]


def test_zsh_loads_its_completions(share):
    path = share / manuals.COMPLETIONS["zsh"]
    printed_by("zsh", "-n", path)
    script = 'autoload -Uz compinit && compinit -D -u && eval "$(<$1)" && print $_comps[writewise]'
    assert printed_by("zsh", "-fc", script, "zsh", path).strip() == "_shtab_writewise"
