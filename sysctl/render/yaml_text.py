"""YAML as the renderers write it: in order, ASCII, several lines as a block, commands in one line.

PyYAML quotes whatever would read back as something else; cloud-init and Ansible read with it too.
"""

from __future__ import annotations

from typing import Any

import yaml


class Command(tuple[str, ...]):
    """A program and its arguments, written in one line."""

    __slots__ = ()


class Unsafe(str):
    """Text that Ansible must not take for a template."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """SafeDumper that indents the items of a list, as Ansible and cloud-init show it."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" * ("\n" in text))


def _command(dumper: yaml.SafeDumper, command: Command) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", command, flow_style=True)


def _unsafe(dumper: yaml.SafeDumper, text: Unsafe) -> yaml.ScalarNode:
    return dumper.represent_scalar("!unsafe", text, style='"')


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Command, _command)
_Dumper.add_representer(Unsafe, _unsafe)


def dump(document: Any) -> str:
    """The document as text that reads back as it is."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=1000)
