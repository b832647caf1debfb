# SPDX-License-Identifier: Apache-2.0
"""Man pages (argparse-manpage) and shell completions (shtab), made from the parser.

setup.py writes them when a wheel or a package is built; they are not kept in the repository.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

from contracts.shared import exit_codes
from profiler.cli.space_arguments import SPACES
from sysctl.render.formats import NAMES as FORMATS
from tools.docs.commands import Command, all_commands, synopsis

_MANUAL = "Writewise manual"
#: An argument's placeholder for a file → how shells complete it.
_FILES = {
    **dict.fromkeys(("FILE", "RESULTS.json", "RECOMMENDATION"), shtab.FILE),
    **dict.fromkeys(("DIR", "DEST"), shtab.DIRECTORY),
}
#: Options that take a list → the words of which shells complete the first.
_LISTS = {"--space": SPACES, "--format": ("all", *FORMATS)}
#: Shell → where its completions are below share/, in each distribution.
COMPLETIONS = {
    "bash": "bash-completion/completions/writewise",
    "zsh": "zsh/site-functions/_writewise",
    "fish": "fish/vendor_completions.d/writewise.fish",
}


def write(share: Path, version: str) -> list[Path]:
    """Write every file below a `share` directory; return their paths."""
    written = []
    for name, text in files(version).items():
        path = share / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def files(version: str) -> dict[str, str]:
    """Return path below share/ → text."""
    pages = {f"man/man1/{_page_name(each)}.1": man_page(each, version) for each in all_commands()}
    return {**pages, **{path: completion(shell) for shell, path in COMPLETIONS.items()}}


def man_page(command: Command, version: str) -> str:
    """Return one command's page; it lists its subcommands, which have their own pages."""
    page = Manpage(_listing_parser(command) if command.subcommands else command.parser)
    page.prog = _page_name(command)
    page.description = command.help or "profile pulls from S3 and recommend write-back settings"
    page.date = time.strftime("%B %d, %Y", time.gmtime(_time_s()))
    page.source, page.manual = f"writewise {version}", _MANUAL
    name, _, rest = synopsis(command).partition(" ")
    page.synopsis = [name, _escaped(rest)]
    return _without_accidents(str(page), page.prog)


def completion(shell: str) -> str:
    """Return the completions of one shell."""
    commands = all_commands()
    for command in commands:
        command.parser.description = command.help  # fish shows it in one line
        for action in command.actions:
            placeholder = str(action.metavar)
            if set(_LISTS).intersection(action.option_strings):
                action.choices = _LISTS[action.option_strings[-1]]
            if placeholder in _FILES:
                action.complete = _FILES[placeholder]  # type: ignore[attr-defined]
    return str(shtab.complete(commands[0].parser, shell=shell))


def _page_name(command: Command) -> str:
    return "-".join(("writewise", *command.words))


def _listing_parser(command: Command) -> argparse.ArgumentParser:
    """Return a parser of its options and a list of its subcommands, without their options."""
    description = command.parser.description
    parser = argparse.ArgumentParser(
        prog=command.name,
        description=description,
        formatter_class=command.parser.formatter_class,
        add_help=False,
    )
    for action in (*command.actions, *command.parser.general_actions):
        parser._add_action(action)
    sections = {
        "commands": "\n".join(_listed(command)),
        "exit status": "" if command.words else "\n".join(_exit_status()),
        "see also": ",\n".join(_see_also(command)),
    }
    parser._manpage = [  # type: ignore[attr-defined]
        {"heading": heading, "content": content} for heading, content in sections.items() if content
    ]
    return parser


def _listed(command: Command) -> Iterator[str]:
    for each in command.subcommands:
        yield f".TP\n\\fB{_escaped(each.words[-1])}\\fR\n{_escaped(each.help)}"


def _exit_status() -> Iterator[str]:
    for each in exit_codes.TABLE:
        yield f".TP\n\\fB{_escaped(each.code)}\\fR\n{_escaped(each.meaning)}"


def _see_also(command: Command) -> list[str]:
    return [f".BR {_escaped(_page_name(each))} (1)" for each in command.subcommands]


def _escaped(text: str) -> str:
    """Return roff text whose lines do not begin with a macro."""
    return text.replace("\\", "\\e").replace("-", "\\-")


def _without_accidents(page: str, name: str) -> str:
    """Ensure that no text line is a macro, and that NAME has no escapes, for apropos(1)."""
    page = re.sub(r"^(?=\.[^A-Z]|')", r"\\&", page, flags=re.MULTILINE)
    return page.replace(f".SH NAME\n{_escaped(name)} \\- ", f".SH NAME\n{name} \\- ", 1)


def _time_s() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
