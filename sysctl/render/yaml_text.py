# SPDX-License-Identifier: Apache-2.0
"""YAML for the renderers: ordered, ASCII, multi-line text as blocks, commands on one line.

PyYAML quotes text that it would parse as another type; cloud-init and Ansible use PyYAML too.
"""

from __future__ import annotations

from typing import Any

import yaml


class Command(tuple[str, ...]):
    """A program and its arguments, written on one line."""

    __slots__ = ()


class Unsafe(str):
    """Text that Ansible must not treat as a template."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """SafeDumper that indents the items of a list, as the manuals of Ansible and cloud-init do."""

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
    """Return the document as text that parses to the same document."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=1000)
