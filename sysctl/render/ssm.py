# SPDX-License-Identifier: Apache-2.0
"""A recommendation as an AWS Systems Manager document (schema version 2.2, `aws:runShellScript`).

The only format with a shell script. No text from others gets into the script: each word is a known
name, a number or fixed, and quoted by shlex all the same. The evidence is in the description.
Systems Manager would replace a pair of braces with a parameter's value, so pairs are separated.
"""

from __future__ import annotations

import json
import re
import shlex

from sysctl.change.recommendation import RecommendedChange
from sysctl.render.comments import one_line
from sysctl.render.installed import InstalledFile, header, installed_files, mount_left_out
from sysctl.render.snippet import STEM, TITLE, Format, Snippet

FILE_NAME = f"{STEM}.ssm.json"
_SCHEMA = "2.2"
USE = (
    "To use:   aws ssm create-document --name writewise --document-type Command",
    f"          --content file://{FILE_NAME}, then aws ssm send-command",
    "          --document-name writewise --targets Key=tag:NAME,Values=VALUE",
)
BEGINS = f'{{\n  "schemaVersion": "{_SCHEMA}",\n  "description": "{TITLE}'


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the document; nothing if only mount options change. Raises InexpressibleError."""
    files = installed_files(change)
    if not files:
        return ()
    title = f"{TITLE}write-back settings for pulls from S3."
    lines = [*header(title, change, USE), *mount_left_out(change)]
    step = {
        "action": "aws:runShellScript",
        "name": "applyWritewiseSettings",
        "precondition": {"StringEquals": ["platformType", "Linux"]},
        "inputs": {"timeoutSeconds": "60", "runCommand": script(files)},
    }
    document = {
        "schemaVersion": _SCHEMA,
        "description": "\n".join(_without_references(one_line(line)) for line in lines),
        "mainSteps": [step],
    }
    return (Snippet(FILE_NAME, json.dumps(document, indent=2) + "\n"),)


def script(files: tuple[InstalledFile, ...]) -> list[str]:
    """Return lines for a POSIX shell: write each file next to its path, rename it, load it."""
    return ["set -eu", *(line for file in files for line in _install(file))]


def _install(file: InstalledFile) -> list[str]:
    folder, _, name = file.path.rpartition("/")
    return [
        f"mkdir -p {shlex.quote(folder)}",
        f"new=$(mktemp {shlex.quote(f'{folder}/.{name}.XXXXXX')})",
        "trap 'rm -f \"$new\"' EXIT",
        f"printf '%s\\n' {shlex.join(file.lines)} > \"$new\"",
        'chmod 0644 "$new"',
        f'mv -f "$new" {shlex.quote(file.path)}',
        "trap - EXIT",
        *(shlex.join(command) for command in file.commands),
    ]


def _without_references(text: str) -> str:
    return re.sub(r"\{(?=\{)", "{ ", text)


FORMAT = Format("ssm", render, (FILE_NAME,), BEGINS)
