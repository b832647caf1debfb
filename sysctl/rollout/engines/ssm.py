# SPDX-License-Identifier: Apache-2.0
"""A plan as AWS Systems Manager Automation documents (schema version 0.3): stages, and the revert.

Each stage runs the node script on all targets, and the script decides by the node's name: a target
that comes later has its arm, and a stage that is run again changes nothing. Automation itself never
reverts, so a step of a stage that fails goes to the step that does. Between stages it pauses until
somebody, such as a pipeline that has asked `writewise rollout gate`, sends the signal to resume.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from sysctl.render.comments import one_line
from sysctl.render.snippet import InexpressibleError, Snippet
from sysctl.rollout.engines.format import STEM, EngineFormat, head
from sysctl.rollout.engines.node_script import revert_script, stage_script, sysctl_actions
from sysctl.rollout.plan import RolloutPlan

FILE_NAME, REVERT_NAME = f"{STEM}.ssm-automation.json", f"{STEM}-revert.ssm-automation.json"
_SCHEMA = "0.3"
_REVERT_STEP = "revertAll"
#: aws:pause waits at most 30 days; the default are 7.
_PAUSE_S = "2592000"
USE = (
    f"To use:   aws ssm create-document --name writewise-rollout --content file://{FILE_NAME}",
    "          --document-type Automation, then aws ssm start-automation-execution",
    "          with the parameter Targets. At each pause ask `writewise rollout gate`:",
    "          go on: aws ssm send-automation-signal --signal-type Resume; stop: aws ssm",
    f"          stop-automation-execution; revert: stop it, and start {REVERT_NAME}.",
    "New nodes: an association of AWS-RunShellScript with the script of the present stage.",
)
_USE_REVERT = (
    f"To use:   aws ssm create-document --name writewise-revert --content file://{REVERT_NAME}",
    "          --document-type Automation, then aws ssm start-automation-execution",
)


def render(plan: RolloutPlan) -> tuple[Snippet, ...]:
    """Return the two documents. Raises InexpressibleError."""
    actions = sysctl_actions(plan)
    revert = _run(_REVERT_STEP, revert_script(plan, actions), {"isEnd": True}, errors="100%")
    last = len(plan.stages)
    steps: list[dict[str, Any]] = []
    for number in range(1, last + 1):
        script = stage_script(plan, number, actions)
        more: dict[str, Any] = {"onFailure": f"step:{_REVERT_STEP}"}
        if number == last:
            more["isEnd"] = True
        steps.append(_run(f"stage{number}", script, more, errors="0"))
        if number < last:
            steps.append(_pause(number))
    about = "the stages of a roll-out, for Systems Manager Automation."
    back = "the revert of a roll-out, for Systems Manager Automation."
    return (
        Snippet(FILE_NAME, _document(head(plan, about, USE), [*steps, revert])),
        Snippet(REVERT_NAME, _document(head(plan, back, _USE_REVERT), [revert])),
    )


def _run(name: str, script: list[str], more: dict[str, Any], *, errors: str) -> dict[str, Any]:
    """Return the step that runs a script on all targets, up to so many errors."""
    if any("{{" in line for line in script):  # Systems Manager would replace it
        raise InexpressibleError("a line of the script has two braces")
    return {
        "name": name,
        "action": "aws:runCommand",
        **more,
        "inputs": {
            "DocumentName": "AWS-RunShellScript",
            "Targets": "{{ Targets }}",
            "MaxConcurrency": "10%",
            "MaxErrors": errors,
            "Parameters": {"commands": script},
        },
    }


def _pause(number: int) -> dict[str, Any]:
    return {
        "name": f"gate{number}",
        "action": "aws:pause",
        "timeoutSeconds": _PAUSE_S,
        "onFailure": "Abort",
        "inputs": {},
    }


def _document(lines: Sequence[str], steps: list[dict[str, Any]]) -> str:
    description = "\n".join(_without_references(one_line(line)) for line in lines)
    targets = {
        "type": "MapList",
        "description": 'the nodes, such as [{"Key": "tag:NAME", "Values": ["VALUE"]}]',
    }
    document = {
        "schemaVersion": _SCHEMA,
        "description": description,
        "parameters": {"Targets": targets},
        "mainSteps": steps,
    }
    return json.dumps(document, indent=2) + "\n"


def _without_references(text: str) -> str:
    return re.sub(r"\{(?=\{)", "{ ", text)


FORMAT = EngineFormat("ssm", render)
