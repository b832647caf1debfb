# SPDX-License-Identifier: Apache-2.0
"""A plan as two Ansible playbooks: one that brings hosts to a stage, and one that reverts them.

Only modules of ansible-core are used. A host's arm is computed from the name that its records have,
so the order of the inventory does not matter and a new host has its arm. Templates are ours alone:
text from elsewhere is in comments, and the settings' file has checked lines without braces.
"""

from __future__ import annotations

from typing import Any

from sysctl.render.comments import comment
from sysctl.render.snippet import Snippet
from sysctl.render.yaml_text import Command, Unsafe, dump
from sysctl.rollout.arms import (
    CONTROL,
    HEX_DIGITS,
    NODE,
    TREATED,
    WAITING,
    control_from,
    treated_below,
)
from sysctl.rollout.engines.format import STEM, EngineFormat, head, settings_file
from sysctl.rollout.engines.node_name import node_name_lines
from sysctl.rollout.engines.node_script import revert_script, sysctl_actions
from sysctl.rollout.marker import (
    MARKER,
    STATE,
    originals_name,
    previous_name,
    saved_sysctls,
)
from sysctl.rollout.plan import RolloutPlan

FILE_NAME, REVERT_NAME = f"{STEM}.ansible.yaml", f"{STEM}-revert.ansible.yaml"
#: Hosts at a time; Ansible ends the play after a batch with a failed host.
_SERIAL = ("1%", "10%", "25%")
_LOAD = "Writewise - load the settings"
USE = (
    f"To use:   ansible-playbook -i INVENTORY {FILE_NAME} -e writewise_stage=1",
    "          then ask `writewise rollout gate`, and go on with the next stage.",
    f"To undo:  ansible-playbook -i INVENTORY {REVERT_NAME}",
    "Optional variables of a host: writewise_node (its name in the records), writewise_state,",
    "          writewise_sysctl_file, writewise_sysctl (the command).",
)
_USE_REVERT = (
    f"To use:   ansible-playbook -i INVENTORY {REVERT_NAME}",
    "Each host gets the values and the file that it had. Hosts without them are left alone.",
)
Task = dict[str, Any]


def render(plan: RolloutPlan) -> tuple[Snippet, ...]:
    """Return the two playbooks. Raises InexpressibleError."""
    forward = head(plan, "a playbook that brings hosts to a stage of a roll-out.", USE)
    back = head(plan, "a playbook that reverts a roll-out on all hosts.", _USE_REVERT)
    return (
        Snippet(FILE_NAME, comment(forward) + "\n" + dump([_forward(plan)])),
        Snippet(REVERT_NAME, comment(back) + "\n" + dump([_revert(plan)])),
    )


def _play(plan: RolloutPlan, name: str) -> Task:
    state = f"writewise_state | default('{STATE}')"
    file = f"writewise_sysctl_file | default('{settings_file(plan).path}')"
    return {
        "name": f"Writewise - {name} {plan.id}",
        "hosts": "{{ writewise_hosts | default('all') }}",
        "become": True,
        "gather_facts": False,
        "vars": {
            "rollout_state": f"{{{{ {state} }}}}",
            "rollout_sysctl": "{{ writewise_sysctl | default('sysctl') }}",
            "rollout_file": f"{{{{ {file} }}}}",
            "rollout_originals": f"{{{{ rollout_state }}}}/{originals_name(plan)}",
            "rollout_previous": f"{{{{ rollout_state }}}}/{previous_name(plan)}",
        },
    }


def _forward(plan: RolloutPlan) -> Task:
    play = _play(plan, "roll-out")
    play["serial"] = list(_SERIAL)
    play["max_fail_percentage"] = 0
    play["vars"] |= {
        "rollout_below": {
            str(number): treated_below(stage.share) for number, stage in enumerate(plan.stages, 1)
        },
        "rollout_settings": plan.change.sysctl_values,
        "rollout_stage": "{{ writewise_stage | default('') | string }}",
        "rollout_node": (
            "{{ writewise_node | default((rollout_id | default({})).stdout | default(''), true) }}"
        ),
        "rollout_position": (
            f"{{{{ (('{plan.id}/' ~ rollout_node) | hash('sha256'))[:{HEX_DIGITS}]"
            " | int(base=16) }}"
        ),
        "rollout_arm": (
            f"{{{{ '{CONTROL}' if rollout_position | int >= {control_from(plan.control)}"
            f" else '{TREATED}' if rollout_position | int < rollout_below[rollout_stage] | int"
            f" else '{WAITING}' }}}}"
        ),
    }
    play["tasks"] = [*_node_tasks(plan), *_treated_tasks(plan)]
    load: Task = {"argv": Command(["{{ rollout_sysctl }}", "-p", "{{ rollout_file }}"])}
    play["handlers"] = [{"name": _LOAD, "ansible.builtin.command": load, "changed_when": True}]
    return play


def _node_tasks(plan: RolloutPlan) -> list[Task]:
    """Return the tasks that find the host's arm; a host that waits has no more.

    Ansible starts a process for each task of a host, even for one that is skipped.
    """
    unknown = "writewise_node is not defined"
    return [
        {
            "name": "Writewise - the host's name in the records",
            "ansible.builtin.command": {"argv": _name_command()},
            "register": "rollout_id",
            "changed_when": False,
            "check_mode": False,
            "when": unknown,
        },
        {
            "name": "Writewise - the stage and the name are valid",
            "ansible.builtin.assert": {
                "that": [
                    "rollout_stage in rollout_below",
                    f"rollout_node is match('{NODE.pattern}$')",
                ],
                "fail_msg": "use -e writewise_stage=N with a stage of the plan, and plain names",
                "quiet": True,
            },
        },
        _end(f"rollout_arm == '{WAITING}'"),
        {
            "name": "Writewise - state directory",
            "ansible.builtin.file": {
                "path": "{{ rollout_state }}",
                "state": "directory",
                "mode": "0700",
            },
        },
        {**_marker(plan), "when": f"rollout_arm == '{CONTROL}'"},
        _end(f"rollout_arm == '{CONTROL}'"),
    ]


def _end(when: str) -> Task:
    return {
        "name": "Writewise - the end for this host",
        "ansible.builtin.meta": "end_host",
        "when": when,
    }


def _marker(plan: RolloutPlan) -> Task:
    """Return the task that tells the host's records which arm it has."""
    marker = (
        f"{{{{ {{'id': '{plan.id}', 'stage': rollout_stage | int, 'arm': rollout_arm,"
        " 'settings': rollout_settings}"
        " | to_json }}\n"
    )
    copied = {"dest": f"{{{{ rollout_state }}}}/{MARKER}", "content": marker, "mode": "0644"}
    return {"name": "Writewise - the arm, for the records", "ansible.builtin.copy": copied}


def _name_command() -> list[str]:
    """Return the command that prints the host's name; in a check it gives it none to keep."""
    lines = [
        *("set -eu", "umask 022", "state=$1 check=$2"),
        'if [ "$check" != True ]; then mkdir -p -m 0700 "$state"; fi',
        *node_name_lines(),
        'echo "$node"',
    ]
    script = Unsafe("".join(f"{line}\n" for line in lines))
    return ["sh", "-c", script, "sh", "{{ rollout_state }}", "{{ ansible_check_mode }}"]


def _treated_tasks(plan: RolloutPlan) -> list[Task]:
    """Return the tasks of a treated host: what it has is saved, once, before it changes."""
    names = [name for group in saved_sysctls(plan) for name in group]
    shown: Task = {"argv": Command(["{{ rollout_sysctl }}", "-n", *names])}
    is_first = "not rollout_saved.stat.exists"
    return [
        {
            "name": "Writewise - the values in force",
            "ansible.builtin.command": shown,
            "register": "rollout_values",
            "changed_when": f"rollout_values.stdout_lines != {_wanted(plan, names)}",
            "check_mode": False,
            "notify": _LOAD,
        },
        _stat("look for saved values", "{{ rollout_originals }}", "rollout_saved"),
        {**_stat("look for a file", "{{ rollout_file }}", "rollout_found"), "when": is_first},
        {
            "name": "Writewise - keep the file",
            "ansible.builtin.copy": {
                "src": "{{ rollout_file }}",
                "dest": "{{ rollout_previous }}",
                "remote_src": True,
                "mode": "preserve",
            },
            # a check has not made the directory
            "when": f"{is_first} and rollout_found.stat.exists and not ansible_check_mode",
        },
        {
            "name": "Writewise - save the values",
            "ansible.builtin.copy": {
                "dest": "{{ rollout_originals }}",
                "content": _originals(plan),
                "mode": "0644",
            },
            "when": is_first,
        },
        {
            "name": "Writewise - settings",
            "ansible.builtin.copy": {
                "dest": "{{ rollout_file }}",
                "content": settings_file(plan).text,
                "mode": "0644",
            },
            "notify": _LOAD,
        },
        {"name": "Writewise - load them now", "ansible.builtin.meta": "flush_handlers"},
        _marker(plan),
    ]


def _wanted(plan: RolloutPlan, names: list[str]) -> list[str]:
    """Return the values after loading; the kernel sets the other member of a pair to 0."""
    return [str(plan.change.sysctl_values.get(name, 0)) for name in names]


def _originals(plan: RolloutPlan) -> str:
    """Return the template of the saved values: of a pair the member that is in force."""
    lines, at = [], 0
    for names in saved_sysctls(plan):
        values = [f"rollout_values.stdout_lines[{at + index}]" for index in range(len(names))]
        shown = [f"'{name} = ' ~ {value}" for name, value in zip(names, values)]
        chosen = shown[0] if len(names) == 1 else f"{shown[1]} if {values[1]} | int else {shown[0]}"
        lines.append(f"{{{{ {chosen} }}}}\n")
        at += len(names)
    return "".join(lines)


def _revert(plan: RolloutPlan) -> Task:
    """Return the play that reverts: one command a host, because it is urgent."""
    play = _play(plan, "revert")
    given = ("state=$1", "sysctl=$2", "file=$3")
    lines = revert_script(plan, sysctl_actions(plan), given)
    script = Unsafe("".join(f"{line}\n" for line in lines))
    variables = (f"{{{{ rollout_{name} }}}}" for name in ("state", "sysctl", "file"))
    play["tasks"] = [
        {
            "name": "Writewise - restore the values and the file",
            "ansible.builtin.command": {"argv": ["sh", "-c", script, "sh", *variables]},
            "register": "rollout_reverted",
            "changed_when": "'reverted' in rollout_reverted.stdout_lines | default([])",
        }
    ]
    return play


def _stat(name: str, path: str, register: str) -> Task:
    return {
        "name": f"Writewise - {name}",
        "ansible.builtin.stat": {"path": path},
        "register": register,
    }


FORMAT = EngineFormat("ansible", render)
