# SPDX-License-Identifier: Apache-2.0
"""Every format of a recommendation, by its name in `--format`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from contracts.shared.errors import UsageError, WritewiseError
from contracts.shared.text import quoted
from sysctl.change.recommendation import FILE_NAME, FORMAT, RecommendedChange
from sysctl.change.recommendation_file import parse_recommendation
from sysctl.render import (
    ansible,
    aws_config,
    bottlerocket,
    cloud_init,
    fstab,
    launch_template,
    ssm,
    sysctl_d,
    systemd_mount,
    transfer,
    tuned,
    udev,
)
from sysctl.render.snippet import Format, InexpressibleError, Snippet

FORMATS: tuple[Format, ...] = (
    sysctl_d.FORMAT,
    fstab.FORMAT,
    systemd_mount.FORMAT,
    udev.FORMAT,
    cloud_init.FORMAT,
    ssm.FORMAT,
    launch_template.FORMAT,
    ansible.FORMAT,
    tuned.FORMAT,
    bottlerocket.FORMAT,
    transfer.FORMAT,
    transfer.PYTHON_FORMAT,
    aws_config.FORMAT,
)
NAMES = tuple(each.name for each in FORMATS)
#: The formats that every host can use, and those of the pull.
DEFAULT = tuple(each for each in FORMATS if each.is_default)
ALL = "all"


def formats_named(text: str) -> tuple[Format, ...]:
    """`sysctl.d,udev` or `all` → the formats in their order. Raises ValueError."""
    words = text.split(",")
    if not all(words):
        raise ValueError(f"invalid list {quoted(text)}; a name is empty")
    names = NAMES if ALL in words else words
    for name in words:
        if name not in (*NAMES, ALL):
            known = ", ".join(NAMES)
            raise ValueError(f"unknown format {quoted(name)}; use {known} or {ALL}")
    return tuple(each for each in FORMATS if each.name in names)


@dataclass(frozen=True)
class Rendered:
    """The files to write; `left_out` gives a reason for each format without a file.

    `inexpressible` are those of the reasons that concern a change the format should express.
    """

    snippets: tuple[Snippet, ...]
    left_out: tuple[str, ...]
    inexpressible: tuple[str, ...] = ()


def render_all(change: RecommendedChange, formats: Iterable[Format]) -> Rendered:
    """Return the change in each of the formats, and as `recommendation.json`.

    Raises UsageError for a change that `apply` would refuse; then nothing may be written.
    """
    snippets = [*_required(change)]
    left_out: list[str] = []
    inexpressible: list[str] = []
    for each in formats:
        try:
            made = each.render(change)
        except InexpressibleError as error:
            inexpressible.append(f"{each.name}: {error.message}")
        else:
            snippets += made
            left_out += [] if made else [f"{each.name}: contains no change it can express"]
    return Rendered(tuple(snippets), (*inexpressible, *left_out), tuple(inexpressible))


def _required(change: RecommendedChange) -> tuple[Snippet, ...]:
    try:
        return RECOMMENDATION.render(change)
    except InexpressibleError as error:
        message = f"nothing was written: `writewise apply` would refuse it: {error.message}"
        hint = "check the results file: `writewise sweep` does not write such values"
        raise UsageError(message, hint) from None


def _recommendation_file(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the file that `apply` reads. Raises InexpressibleError if it would refuse it."""
    text = json.dumps(change.to_json(), indent=1) + "\n"
    try:
        parse_recommendation(text, FILE_NAME)
    except WritewiseError as error:
        raise InexpressibleError(" ".join(error.message.split())) from None
    return (Snippet(FILE_NAME, text),)


#: The file that `apply` and `verify` read; it is always written.
RECOMMENDATION = Format(
    FILE_NAME, _recommendation_file, (FILE_NAME,), f'{{\n "format": "{FORMAT}",\n'
)
EVERY_FILE = (RECOMMENDATION, *FORMATS)
