"""Every format in which a recommendation is written, by the name that `--format` takes."""

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
#: What every host has, and what goes with every pull.
DEFAULT = tuple(each for each in FORMATS if each.is_default)
ALL = "all"


def formats_named(text: str) -> tuple[Format, ...]:
    """`sysctl.d,udev` or `all` → the formats, in their order. Raises ValueError with the names."""
    names = NAMES if text == ALL else text.split(",")
    for name in names:
        if name not in NAMES:
            known = ", ".join(NAMES)
            raise ValueError(f"{quoted(name)} is no format; use {known}, or {ALL} for all of them")
    return tuple(each for each in FORMATS if each.name in names)


@dataclass(frozen=True)
class Rendered:
    """The files to write; `left_out` says of each format that gave none why, in a sentence.

    `inexpressible` are those of them of which the recommendation has something to write.
    """

    snippets: tuple[Snippet, ...]
    left_out: tuple[str, ...]
    inexpressible: tuple[str, ...] = ()


def render_all(change: RecommendedChange, formats: Iterable[Format]) -> Rendered:
    """The change in each of the formats, and as `recommendation.json`.

    Raises UsageError for a change that `apply` would refuse: then none of it is to be written.
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
            left_out += [] if made else [f"{each.name}: nothing changes that it could say"]
    return Rendered(tuple(snippets), (*inexpressible, *left_out), tuple(inexpressible))


def _required(change: RecommendedChange) -> tuple[Snippet, ...]:
    try:
        return RECOMMENDATION.render(change)
    except InexpressibleError as error:
        message = f"nothing was written, since `writewise apply` would refuse it: {error.message}"
        raise UsageError(message, "look into the results: no sweep writes that") from None


def _recommendation_file(change: RecommendedChange) -> tuple[Snippet, ...]:
    """What `apply` takes, if it would take it. Raises InexpressibleError."""
    text = json.dumps(change.to_json(), indent=1) + "\n"
    try:
        parse_recommendation(text, FILE_NAME)
    except WritewiseError as error:
        raise InexpressibleError(" ".join(error.message.split())) from None
    return (Snippet(FILE_NAME, text),)


#: What `apply` and `verify` take; it is written beside whatever else is.
RECOMMENDATION = Format(
    FILE_NAME, _recommendation_file, (FILE_NAME,), f'{{\n "format": "{FORMAT}",\n'
)
EVERY_FILE = (RECOMMENDATION, *FORMATS)
