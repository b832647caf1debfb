# SPDX-License-Identifier: Apache-2.0
"""A plan for nodes with TuneD: the profile, a script for each stage, and one for the revert.

TuneD itself keeps what the node had, and restores it when the profile is left. The script saves
which profiles were active, and a profile of the same name. A SIGKILL of TuneD leaves the settings,
so the revert asks it to leave the profile while it runs.
"""

from __future__ import annotations

import shlex

from sysctl.knobs.vm import BY_NAME
from sysctl.render import tuned
from sysctl.render.comments import comment
from sysctl.render.snippet import InexpressibleError, Snippet
from sysctl.rollout.engines.format import STEM, EngineFormat, head
from sysctl.rollout.engines.node_script import NodeActions, revert_script, stage_script
from sysctl.rollout.plan import RolloutPlan

PROFILE_NAME, REVERT_NAME = f"{STEM}.tuned.conf", f"{STEM}-revert.tuned.sh"
_FIRST = "#!/bin/sh\n"


def stage_name(number: int) -> str:
    """Return the name of the script of a stage."""
    return f"{STEM}-stage-{number}.tuned.sh"


def render(plan: RolloutPlan) -> tuple[Snippet, ...]:
    """Return the profile and the scripts. Raises InexpressibleError."""
    made = tuned.render(plan.change)
    if not made:
        raise InexpressibleError("the recommendation changes no sysctl, so there is no profile")
    actions = _actions(plan, made[0].text)
    stages = (
        _script(plan, stage_name(number), f"stage {number}", stage_script(plan, number, actions))
        for number in range(1, len(plan.stages) + 1)
    )
    revert = _script(plan, REVERT_NAME, "the revert", revert_script(plan, actions))
    return (Snippet(PROFILE_NAME, made[0].text), *stages, revert)


def _actions(plan: RolloutPlan, profile: str) -> NodeActions:
    """Return the actions: the profile without its comments is part of the script."""
    lines = [line for line in profile.split("\n") if line and not line.startswith("#")]
    older, newer = tuned.FOLDERS
    folder = [
        f"folder={older}/{tuned.PROFILE}",
        f"if [ -d {newer} ]; then folder={newer}/{tuned.PROFILE}; fi",
        'conf="$folder/tuned.conf"',
    ]
    return NodeActions(
        names=tuple(folder),
        treat=(
            'if [ ! -e "$originals" ]; then',
            *(f"  {line}" for line in _checks(plan)),
            "  printf '%s\\n' \"$active\" |",
            "    sed -n 's/^Current active profile: *//p' > \"$originals.new\"",
            '  if [ -e "$conf" ]; then cp -p "$conf" "$previous"; fi',
            '  mv "$originals.new" "$originals"',
            "fi",
            'mkdir -p "$folder"',
            f"printf '%s\\n' {shlex.join(lines)} > \"$conf.new\"",
            'mv "$conf.new" "$conf"',
            # unquoted: TuneD takes each of several profiles as a word
            f'tuned-adm profile $(cat "$originals") {tuned.PROFILE}',
        ),
        revert=(
            'if [ -e "$originals" ]; then',
            '  if [ -e "$previous" ]; then cp -p "$previous" "$conf"; fi',
            '  if [ -s "$originals" ]; then tuned-adm profile $(cat "$originals")',
            "  else tuned-adm off; fi",
            '  if [ ! -e "$previous" ]; then rm -rf "$folder"; fi',
            '  rm -f "$originals"',
            "  echo reverted",
            "fi",
            'rm -f "$previous" "$originals.new" "$conf.new"',
        ),
    )


def _checks(plan: RolloutPlan) -> list[str]:
    """Return lines that end the script on a node to which TuneD cannot give back what it had.

    TuneD writes back the value that the sysctl had, which is 0 if its counterpart was in force
    (`sysctl.render.tuned`). Without its daemon `tuned-adm` starts one, and the profile that was
    preset is lost.
    """
    others = [BY_NAME[name].counterpart for name in plan.change.sysctl_values]
    return [
        *(line for other in others if other for line in _require_zero(other)),
        "active=$(tuned-adm active || true)",  # it fails if no profile is active
        'case "$active" in "Current active profile: "*|"No current active profile"*) ;;',
        '  *) echo "TuneD does not run: $active" >&2; exit 1 ;;',
        "esac",
    ]


def _require_zero(name: str) -> list[str]:
    why = f"{name} is in force, and TuneD cannot restore it: use another format"
    return [
        f"other=$(sysctl -n {name})",
        f'if [ "$other" != 0 ]; then echo "{why}" >&2; exit 1; fi',
    ]


def _script(plan: RolloutPlan, name: str, what: str, lines: list[str]) -> Snippet:
    use = (f"To use:   run {name} as root on every node; it finds out what concerns the node.",)
    about = head(plan, f"{what} of a roll-out, for nodes with TuneD.", use)
    body = "".join(f"{line}\n" for line in lines)
    return Snippet(name, f"{_FIRST}{comment(about)}\n{body}")


FORMAT = EngineFormat("tuned", render)
