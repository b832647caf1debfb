# SPDX-License-Identifier: Apache-2.0
"""Readers of the snippets, exactly as strict as their consumers."""

from __future__ import annotations

import ast
import configparser
import email
import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import yaml

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.9 and 3.10, where pytest depends on tomli
    import tomli as tomllib

_FSTAB_ESCAPE = re.compile(r"\\(040|011|012|134)")
_UDEV_TOKEN = re.compile(r'([A-Z]+(?:\{[^{}"]+\})?)(==|=)"([^"\\]*)"')


class _AnsibleLoader(yaml.SafeLoader):
    """Read `!unsafe` as Ansible does: text that is not a template."""


class Literal(str):
    """A text that was marked `!unsafe`."""

    __slots__ = ()


_AnsibleLoader.add_constructor("!unsafe", lambda loader, node: Literal(node.value))


def sysctl_conf(text):
    """Read sysctl.conf(5): each assignment in order; `#` and `;` begin a comment."""
    lines = [line.strip() for line in text.split("\n")]
    settings = [line for line in lines if line and line[0] not in "#;"]
    return [tuple(part.strip() for part in line.split("=", 1)) for line in settings]


def tuned(text):
    """Read tuned.conf(5) with the settings of TuneD's own parser: section → options."""
    parser = configparser.ConfigParser(
        delimiters=("=",), inline_comment_prefixes=("#",), interpolation=None
    )
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def toml(text):
    """Read TOML 1.0."""
    return tomllib.loads(text)


def fstab(text):
    """Read fstab as glibc's getmntent(3) does: the fields of each line, four escapes decoded."""
    lines = [line.lstrip(" \t") for line in text.split("\n")]
    return [
        [_FSTAB_ESCAPE.sub(lambda m: chr(int(m[1], 8)), f) for f in re.split("[ \t]+", line)]
        for line in lines
        if line and not line.startswith("#")
    ]


def unit(text):
    """Read systemd.syntax(7): (section, key) → value, with `%%` resolved."""
    values, section = {}, ""
    for line in text.split("\n"):
        stripped = line.strip(" \t\r")
        if not stripped or stripped[0] in "#;":
            continue
        assert not stripped.endswith("\\"), "goes on in the next line"
        if stripped.startswith("["):
            section = stripped[1:-1]
            continue
        key, _, value = stripped.partition("=")
        assert "%" not in value.replace("%%", ""), "a specifier"
        assert (section, key) not in values
        values[section, key] = value.strip().replace("%%", "%")
    return values


def udev(text):
    """Read udev(7): the tokens of each rule; no value has an escape, a pattern or a `$`."""
    rules = []
    for line in text.split("\n"):
        if line.lstrip().startswith("#") or not line:
            continue
        tokens = line.split(", ")
        matches = [_UDEV_TOKEN.fullmatch(token) for token in tokens]
        assert all(matches), line
        rules.append([match.groups() for match in matches])
        for key, _, value in rules[-1]:
            assert not set("*?[]$%") & set(value), line
            assert "|" not in value or (key, value) == ("ACTION", "add|change")
    return rules


def ansible(text):
    """Read the tasks; a text that is not `Literal` must not contain a Jinja template."""
    tasks = yaml.load(text, Loader=_AnsibleLoader)
    for leaf in _leaves(tasks):
        assert isinstance(leaf, (Literal, bool)) or not re.search(r"\{[{%#]", leaf)
    return tasks


def _leaves(node):
    if isinstance(node, (dict, list)):
        for child in [*node, *node.values()] if isinstance(node, dict) else node:
            yield from _leaves(child)
    else:
        yield node


def user_data_of(template):
    """Return the only part of a launch template's MIME archive, as cloud-init reads it."""
    [resource] = yaml.safe_load(template)["Resources"].values()
    archive = resource["Properties"]["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    assert "{{" not in archive
    message: Any = email.message_from_string(archive)
    [part] = message.get_payload()
    assert (message.get_content_type(), part.get_content_type()) == (
        "multipart/mixed",
        "text/cloud-config",
    )
    assert not message.defects and not part.defects
    assert part.get_payload().startswith("#cloud-config\n")
    return yaml.safe_load(part.get_payload())


def about_removed(document):
    """The transfer settings and their client as `pull --transfer` reads them."""
    return {name: value for name, value in json.loads(document).items() if name != "about"}


def python(text):
    """A module's statements, without its comments."""
    return ast.dump(ast.parse(text))


def shell(text):
    """The words of each command of a script; a comment begins a line."""
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    return [shlex.split(line) for line in lines]


#: One for each format, by its name in `--format`.
READERS: dict[str, Callable[[str], Any]] = {
    "sysctl.d": sysctl_conf,
    "fstab": fstab,
    "systemd": unit,
    "udev": udev,
    "cloud-init": yaml.safe_load,
    "ssm": lambda text: json.loads(text)["mainSteps"],
    "launch-template": user_data_of,
    "ansible": ansible,
    "tuned": tuned,
    "bottlerocket": toml,
    "transfer": about_removed,
    "transfer-config": python,
    "aws-config": shell,
}
