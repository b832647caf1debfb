# SPDX-License-Identifier: Apache-2.0
"""The script that a node runs for a stage or for the revert: a POSIX shell, as root.

It computes the arm by itself, so a node that appears later gets its arm wherever it comes from. No
text from elsewhere gets into it: each word is a known name, a number or fixed, and quoted by shlex
all the same. What the node had is saved before anything changes, and the marker is written last.
Only one script runs at a time: a second one could save what the first one set as the node's own.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.rollout.arms import CONTROL, HEX_DIGITS, TREATED, WAITING, control_from, treated_below
from sysctl.rollout.engines.format import settings_file
from sysctl.rollout.engines.node_name import node_name_lines
from sysctl.rollout.marker import (
    MARKER,
    STATE,
    marker_text,
    originals_name,
    previous_name,
    saved_sysctls,
)
from sysctl.rollout.plan import RolloutPlan

#: A lock on the state directory, which ends with the script.
_LOCK = (
    'exec 9< "$state"',
    "if ! flock -w 60 9; then",
    "  echo 'another stage or revert of a roll-out runs on this node; try again later' >&2",
    "  exit 1",
    "fi",
)


@dataclass(frozen=True)
class NodeActions:
    """What makes a node treated, and what reverts it: lines that use `$state` and `$originals`.

    `names` are lines that set what both use; the revert prints a line if it reverted something.
    """

    names: tuple[str, ...]
    treat: tuple[str, ...]
    revert: tuple[str, ...]


def sysctl_actions(plan: RolloutPlan) -> NodeActions:
    """Return the actions on the sysctl.d file. Raises InexpressibleError."""
    file = settings_file(plan)
    path, folder = shlex.quote(file.path), shlex.quote(file.path.rpartition("/")[0])
    save = [line for names in saved_sysctls(plan) for line in _saved(names)]
    return NodeActions(
        names=(f"file={path}", "sysctl=sysctl"),
        treat=(
            'if [ ! -e "$originals" ]; then',
            "  {",
            *(f"    {line}" for line in save),
            '  } > "$originals.new"',
            '  if [ -e "$file" ]; then cp -p "$file" "$previous"; sync "$previous"; fi',
            '  sync "$originals.new"',  # else a power cut can leave it empty under its name
            '  mv "$originals.new" "$originals"',
            "fi",
            f"mkdir -p {folder}",
            f"printf '%s\\n' {shlex.join(file.lines)} > \"$file.new\"",
            'chmod 0644 "$file.new"',
            'mv "$file.new" "$file"',
            '"$sysctl" -p "$file"',
        ),
        revert=(
            'if [ -e "$originals" ]; then',
            '  if [ -e "$previous" ]; then cp -p "$previous" "$file"; else rm -f "$file"; fi',
            '  "$sysctl" -p "$originals"',
            '  rm -f "$originals"',
            "  echo reverted",
            "fi",
            'rm -f "$previous" "$originals.new" "$file.new"',
        ),
    )


def _saved(names: tuple[str, ...]) -> list[str]:
    """Return the lines that print the sysctls in force, in the format of sysctl.conf(5).

    Each value is assigned first: only then `set -e` ends the script if it cannot be read.
    """
    if len(names) == 1:
        return [f"value=$(sysctl -n {names[0]})", f'echo "{names[0]} = $value"']
    ratio, size = names
    return [
        f"ratio=$(sysctl -n {ratio})",
        f"size=$(sysctl -n {size})",
        f'if [ "$size" != 0 ]; then echo "{size} = $size"',
        f'else echo "{ratio} = $ratio"; fi',
    ]


def stage_script(plan: RolloutPlan, number: int, actions: NodeActions) -> list[str]:
    """Return the script of stage `number`, line by line."""
    below = treated_below(plan.stage(number).share)
    return [
        *_preamble(plan, *actions.names),
        'mkdir -p -m 0700 "$state"',
        *_LOCK,
        *node_name_lines(),
        f"position=$(printf '%s' \"{plan.id}/$node\" | sha256sum | cut -c1-{HEX_DIGITS})",
        "position=$((0x$position))",
        f'if [ "$position" -ge {control_from(plan.control)} ]; then arm={CONTROL}',
        f'elif [ "$position" -lt {below} ]; then arm={TREATED}',
        f"else arm={WAITING}; fi",
        f'if [ "$arm" = {TREATED} ]; then',
        *(f"  {line}" for line in actions.treat),
        "fi",
        *_marked(plan, number),
    ]


def revert_script(plan: RolloutPlan, actions: NodeActions, names: Sequence[str] = ()) -> list[str]:
    """Return the script that gives a node back what it had, whatever its arm.

    `names` are set after those of the actions, and may be others.
    """
    return [
        *_preamble(plan, *actions.names, *names),
        'if [ -d "$state" ]; then',
        *(f"  {line}" for line in _LOCK),
        "fi",
        *actions.revert,
        f'if grep -q {shlex.quote(plan.id)} "$state/{MARKER}" 2>/dev/null; then',
        f'  rm -f "$state/{MARKER}"',
        "fi",
        f'rm -f "$state/.{MARKER}.new"',
    ]


def _preamble(plan: RolloutPlan, *names: str) -> list[str]:
    return [
        "set -eu",
        "umask 022",
        f"state={STATE}",
        *names,
        f'originals="$state/{originals_name(plan)}"',
        f'previous="$state/{previous_name(plan)}"',
    ]


def _marked(plan: RolloutPlan, number: int) -> list[str]:
    """Return the lines that write the marker of a treated or a control node."""
    lines = [f'if [ "$arm" != {WAITING} ]; then', '  case "$arm" in']
    for arm in (TREATED, CONTROL):
        text = shlex.quote(marker_text(plan, number, arm).strip())
        lines.append(f"    {arm}) printf '%s\\n' {text} ;;")
    return [
        *lines,
        f'  esac > "$state/.{MARKER}.new"',
        f'  mv "$state/.{MARKER}.new" "$state/{MARKER}"',
        "fi",
    ]
