# SPDX-License-Identifier: Apache-2.0
"""The playbooks run by Ansible; 200 hosts are in `tests.bench.bench_rollout_hosts`."""

from __future__ import annotations

import json
import shutil

import pytest

from sysctl.rollout.arms import TREATED
from sysctl.rollout.engines import ansible
from tests.unit.ansible_hosts import AnsibleHosts, fault_in_stage_2

HOSTS = 16

pytestmark = pytest.mark.skipif(
    not shutil.which("ansible-playbook"), reason="install ansible-core (tools/setup test)"
)


@pytest.fixture
def fleet(tmp_path):
    return AnsibleHosts(tmp_path, HOSTS)


def test_a_fault_in_stage_2_leaves_no_host_changed_after_the_revert(fleet):
    first, at_fault, after = fault_in_stage_2(fleet)
    assert 0 < first < at_fault
    assert after == 0


def test_a_treated_host_has_the_values_of_the_plan_alone(fleet):
    assert fleet.treated_values == {
        "vm.dirty_ratio": "80",
        "vm.dirty_bytes": "0",
        "vm.dirty_background_ratio": "5",
        "vm.dirty_background_bytes": "0",
    }


def test_the_playbooks_are_read_by_ansible(fleet):
    for book in (ansible.FILE_NAME, ansible.REVERT_NAME):
        done = fleet.play(book, "--syntax-check")
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_check_changes_nothing_and_a_stage_that_is_not_in_the_plan_is_refused(fleet):
    treated = sorted(fleet.of_arm(TREATED, 1))
    new = next(name for name in treated if name not in fleet.named_here)
    shutil.rmtree(fleet.folder / new / "state")  # it has never had Writewise, and has a file
    fleet.settings(new).write_text("# of the host\n")
    before = {name: fleet.content(name) for name in fleet.nodes}
    some = ",".join({*treated[:3], new, *sorted(fleet.named_here)[:1]})
    done = fleet.play(
        ansible.FILE_NAME, "--check", "--diff", "-e", "writewise_stage=1", "--limit", some
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "vm.dirty_ratio = 80" in done.stdout
    for stage in ("", "0", "9", "1; reboot"):
        done = fleet.play(
            ansible.FILE_NAME, "-e", json.dumps({"writewise_stage": stage}), "-l", some
        )
        assert done.returncode != 0
        assert "with a stage of the plan" in done.stdout
    assert {name: fleet.content(name) for name in fleet.nodes} == before


def test_a_second_run_changes_nothing_and_repairs_what_drifted(fleet):
    one = sorted(fleet.of_arm(TREATED, 1))[0]
    words = ("-e", "writewise_stage=1", "-l", one)
    fleet.play(ansible.FILE_NAME, *words)
    after = fleet.content(one)
    done = fleet.play(ansible.FILE_NAME, *words)
    assert done.returncode == 0
    assert "CHANGED" not in done.stdout
    assert fleet.content(one) == after
    (fleet.folder / one / "values/vm.dirty_ratio").write_text("10\n")
    fleet.play(ansible.FILE_NAME, *words)
    assert fleet.content(one) == after
