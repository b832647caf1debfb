# SPDX-License-Identifier: Apache-2.0
"""Hosts for Ansible, each a folder of this one with values of its own, and a roll-out that fails.

A host has its own state directory, its own file of settings, and its own `sysctl`, a program that
keeps values in files. So nothing of this host changes, and what each host has is known.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from sysctl.knobs.vm import BY_NAME
from sysctl.rollout.arms import CONTROL, TREATED, WAITING, arm_of
from sysctl.rollout.engines import ansible
from sysctl.rollout.plan import RolloutPlan
from tests.unit.rollouts import name_node, node_names, plan_for

ORIGINALS = {
    "vm.dirty_ratio": "20",
    "vm.dirty_bytes": "0",
    "vm.dirty_background_ratio": "0",
    "vm.dirty_background_bytes": "67108864",
}
#: As the kernel does: writing one member of a pair makes the other 0, and a 0 in bytes is refused.
SYSCTL = """#!/bin/sh
set -eu
values=${0%/*}/values
other_of() {
  case "$1" in
    *_bytes) echo "${1%_bytes}_ratio" ;;
    *) echo "${1%_ratio}_bytes" ;;
  esac
}
if [ "$1" = -n ]; then
  shift
  for name; do cat "$values/$name"; done
  exit
fi
[ "$1" = -p ]
grep -v '^#' "$2" | while read -r name _ value; do
  case "$name $value" in *_bytes\\ 0) echo "sysctl: $name: Invalid argument" >&2; exit 1 ;; esac
  echo "$value" > "$values/$name"
  echo 0 > "$values/$(other_of "$name")"
done
"""


class AnsibleHosts:
    """The hosts below a folder, the inventory, and the playbooks of a plan.

    Without a plan it is one with three stages, and its playbooks are written. `seed` is that of the
    nodes' names, and so of their arms.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        plan: RolloutPlan | None = None,
        originals: Mapping[str, str] = ORIGINALS,
        seed: int = 11,
    ) -> None:
        self.folder, self.originals = folder, originals
        self.plan = plan or plan_for(count, shares=(0.2, 0.45), control=max(0.2, 6 / count))
        # a few hosts find their names on the node, the others in the inventory
        self.nodes = {f"h{at:03}": node for at, node in enumerate(node_names(count, seed))}
        self.named_here = {name for name in self.nodes if int(name[1:]) % 10 == 0}
        for name in self.nodes:
            self._make(name)
        (folder / "inventory.ini").write_text("".join(map(self._line, self.nodes)))
        if plan is None:
            for snippet in ansible.render(self.plan):
                (folder / snippet.file_name).write_text(snippet.text)

    @cached_property
    def treated_values(self) -> dict[str, str]:
        """What a treated host has: of each pair that the plan sets the other member is 0."""
        values = dict(self.originals)
        for name, value in self.plan.change.sysctl_values.items():
            values[name] = str(value)
            values[str(BY_NAME[name].counterpart)] = "0"
        return values

    def _make(self, name: str) -> None:
        host = self.folder / name
        (host / "values").mkdir(parents=True)
        (host / "state").mkdir()
        for key, value in self.originals.items():
            (host / "values" / key).write_text(f"{value}\n")
        (host / "sysctl").write_text(SYSCTL)
        (host / "sysctl").chmod(0o755)
        if int(name[1:]) % 3 == 0:
            self.settings(name).write_text("# of the host\nvm.dirty_ratio = 20\n")
            self.settings(name).chmod(0o600)
        if name in self.named_here:
            name_node(host / "state", self.nodes[name])

    def _line(self, name: str) -> str:
        host = self.folder / name
        words = [name, "ansible_connection=local", "ansible_python_interpreter=/usr/bin/python3"]
        words += [f"writewise_state={host}/state", f"writewise_sysctl={host}/sysctl"]
        words += [f"writewise_sysctl_file={self.settings(name)}", "ansible_become=false"]
        if name not in self.named_here:
            words.append(f"writewise_node={self.nodes[name]}")
        return " ".join(words) + "\n"

    def settings(self, name: str) -> Path:
        return self.folder / name / "90-writewise.conf"

    def values(self, name: str) -> dict[str, str]:
        values = self.folder / name / "values"
        return {key: (values / key).read_text().strip() for key in self.originals}

    def arm(self, name: str, stage: int) -> str:
        share = self.plan.stage(stage).share
        return arm_of(self.nodes[name], self.plan.id, share, self.plan.control)

    def of_arm(self, arm: str, stage: int) -> set[str]:
        return {name for name in self.nodes if self.arm(name, stage) == arm}

    def treated(self) -> set[str]:
        return {name for name in self.nodes if self.values(name) == self.treated_values}

    def marker(self, name: str) -> dict | None:
        """Return what the roll-out wrote for the host's records; None before it did."""
        path = self.folder / name / "state/rollout.json"
        return json.loads(path.read_text()) if path.exists() else None

    def content(self, name: str) -> dict[str, str]:
        """Every file of a host, apart from the fake program."""
        host = self.folder / name
        files = (path for path in host.rglob("*") if path.is_file() and path.name != "sysctl")
        content = {str(path.relative_to(host)): path.read_text() for path in files}
        settings = self.settings(name)
        return {**content, "mode": oct(settings.stat().st_mode) if settings.exists() else ""}

    def play(self, book: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_FORKS": "8",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_STDOUT_CALLBACK": "minimal",
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            ["ansible-playbook", "-i", self.folder / "inventory.ini", self.folder / book, *words],
            capture_output=True,
            text=True,
            env=environment,
            cwd=self.folder,
        )


def fault_in_stage_2(fleet: AnsibleHosts) -> tuple[int, int, int]:
    """Roll out with a fault in stage 2, revert, and check each step.

    Return how many hosts were treated in stage 1, when stage 2 had ended, and after the revert.
    """
    before = {name: fleet.content(name) for name in fleet.nodes}

    done = fleet.play(ansible.FILE_NAME, "-e", "writewise_stage=1")
    assert done.returncode == 0, done.stdout[-3000:]
    assert fleet.treated() == fleet.of_arm(TREATED, 1)
    for name in fleet.of_arm(CONTROL, 1) | fleet.of_arm(TREATED, 1):
        arm = fleet.arm(name, 1)
        settings = fleet.plan.change.sysctl_values
        expected = {"id": fleet.plan.id, "stage": 1, "arm": arm, "settings": settings}
        assert fleet.marker(name) == expected
    untouched = fleet.of_arm(WAITING, 1)
    assert all(fleet.content(name) == before[name] for name in untouched)

    first = len(fleet.treated())
    second = sorted(fleet.of_arm(TREATED, 2) - fleet.of_arm(TREATED, 1))
    broken = second[len(second) // 2]
    (fleet.folder / broken / "sysctl").write_text("#!/bin/sh\nexit 1\n")
    done = fleet.play(ansible.FILE_NAME, "-e", "writewise_stage=2")
    assert done.returncode != 0
    assert fleet.of_arm(TREATED, 1) < fleet.treated()  # some got it, before the fault ended it
    later = [name for name in fleet.nodes if fleet.arm(name, 2) != TREATED]
    assert not fleet.treated() & set(later)
    assert all(fleet.content(name) == before[name] for name in fleet.of_arm(WAITING, 2))

    at_fault = len(fleet.treated())
    (fleet.folder / broken / "sysctl").write_text(SYSCTL)
    done = fleet.play(ansible.REVERT_NAME)
    assert done.returncode == 0, done.stdout[-3000:]
    assert [name for name in fleet.nodes if fleet.content(name) != before[name]] == []
    return first, at_fault, len(fleet.treated())
