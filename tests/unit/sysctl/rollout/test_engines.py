# SPDX-License-Identifier: Apache-2.0
"""Each engine's files as their readers read them; text from elsewhere stays in comments."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given, settings

from sysctl.render.snippet import InexpressibleError
from sysctl.rollout.arms import CONTROL, TREATED, WAITING, arm_of
from sysctl.rollout.engines import ansible, bottlerocket, cloud_init, ssm, tuned
from sysctl.rollout.engines.catalogue import ENGINES
from sysctl.rollout.plan import make_plan
from tests.unit import snippet_readers as readers
from tests.unit.changes import EVERYTHING, with_descriptive_text
from tests.unit.debian_packages import cloud_init_refuses, tuned_reads
from tests.unit.rollouts import CLASS, NOW, name_node, node_in, plan_for

PLAN = plan_for(10_000)
#: Written from the documentation of schema version 0.3 of Systems Manager's Automation documents.
AUTOMATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["schemaVersion", "description", "parameters", "mainSteps"],
    "properties": {
        "schemaVersion": {"const": "0.3"},
        "description": {"type": "string"},
        "parameters": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"type": {"const": "MapList"}, "description": {"type": "string"}},
            },
        },
        "mainSteps": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "action", "inputs"],
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-zA-Z0-9_]{3,128}$"},
                    "action": {"enum": ["aws:runCommand", "aws:pause"]},
                    "onFailure": {"type": "string", "pattern": "^(Abort|step:[a-zA-Z0-9_]+)$"},
                    "isEnd": {"const": True},
                    "timeoutSeconds": {"type": "string", "pattern": "^[0-9]{1,7}$"},
                    "inputs": {"type": "object"},
                },
            },
        },
    },
}


def files_of(engine, plan=PLAN):
    return {snippet.file_name: snippet.text for snippet in engine.render(plan)}


def document(text):
    """What a reader gets: without the comments and the description."""
    if text.startswith("{"):
        return {**json.loads(text), "description": ""}
    if "[settings.kernel.sysctl]" in text:
        return readers.toml(text)
    if text.startswith("#!/bin/sh"):
        return [line for line in text.split("\n") if line and not line.startswith("#")]
    if "[sysctl]" in text:
        return readers.tuned(text)
    return yaml.load(text, Loader=_Loader)


class _Loader(yaml.SafeLoader):
    """Read `!unsafe` as plain text."""


_Loader.add_constructor("!unsafe", lambda loader, node: node.value)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: each.name)
def test_the_same_plan_gives_the_same_text(engine):
    assert files_of(engine) == files_of(engine)
    assert all(text.isascii() or "…" in text or "×" in text for text in files_of(engine).values())


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: each.name)
@given(change=with_descriptive_text())
@settings(max_examples=25, deadline=None)
def test_hostile_texts_change_no_document(engine, change):
    plan = make_plan(change, 10_000, now=NOW, class_key="any")
    hostile, plain = (files_of(engine, each) for each in (replace(plan, id=PLAN.id), PLAN))
    assert hostile.keys() == plain.keys()
    for name, text in hostile.items():
        assert document(text) == document(plain[name])


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: each.name)
def test_a_plan_for_one_class_says_so_in_every_file_and_changes_no_document(engine):
    plan = plan_for(10_000, class_key=CLASS)
    of_class, of_all = (files_of(engine, each) for each in (replace(plan, id=PLAN.id), PLAN))
    for name, text in of_class.items():
        assert document(text) == document(of_all[name])
        if name != tuned.PROFILE_NAME:  # it is the one of advise
            assert CLASS in text and CLASS not in of_all[name]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: each.name)
@pytest.mark.parametrize("bad", [("kernel.core_pattern", 5), ("vm.dirty_ratio", "5; reboot")])
def test_what_is_no_sysctl_is_written_by_no_engine(engine, bad):
    advice = replace(EVERYTHING.sysctls[0], name=bad[0], value=bad[1])
    change = replace(EVERYTHING, sysctls=(advice,))
    with pytest.raises(InexpressibleError):
        engine.render(replace(PLAN, change=change))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: each.name)
def test_without_a_sysctl_there_is_nothing_to_roll_out(engine):
    change = replace(EVERYTHING, sysctls=())
    with pytest.raises(InexpressibleError):
        engine.render(replace(PLAN, change=change))


def test_the_automation_is_of_the_shape_that_systems_manager_documents():
    for text in files_of(ssm.FORMAT).values():
        found = json.loads(text)
        jsonschema.validate(found, AUTOMATION)
        names = [step["name"] for step in found["mainSteps"]]
        assert len(set(names)) == len(names)
        targets = {
            step["onFailure"].partition(":")[2]
            for step in found["mainSteps"]
            if "step:" in step.get("onFailure", "")
        }
        assert targets <= set(names)
        references = re.findall(r"\{\{.*?\}\}", text)
        assert set(references) == {"{{ Targets }}"}


def test_every_stage_pauses_and_a_failed_one_reverts():
    steps = json.loads(files_of(ssm.FORMAT)[ssm.FILE_NAME])["mainSteps"]
    count = len(PLAN.stages)
    expected = [name for at in range(1, count + 1) for name in (f"stage{at}", f"gate{at}")][:-1]
    assert [step["name"] for step in steps] == [*expected, "revertAll"]
    assert {s["onFailure"] for s in steps if s["name"].startswith("stage")} == {"step:revertAll"}


@pytest.mark.skipif(not shutil.which("cfn-lint"), reason="cfn-lint comes with the extra test")
def test_cfn_lint_finds_nothing_wrong_with_the_automation(tmp_path):
    content = json.loads(files_of(ssm.FORMAT)[ssm.FILE_NAME])
    properties = {"DocumentType": "Automation", "DocumentFormat": "JSON", "Content": content}
    template = {"Resources": {"R": {"Type": "AWS::SSM::Document", "Properties": properties}}}
    path = tmp_path / "template.json"
    path.write_text(json.dumps(template))
    done = subprocess.run(["cfn-lint", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_cloud_config_has_a_script_and_its_call():
    files = files_of(cloud_init.FORMAT)
    assert len(files) == len(PLAN.stages)
    for text in files.values():
        assert text.startswith("#cloud-config\n")
        found = yaml.safe_load(text)
        [file] = found["write_files"]
        assert found["runcmd"] == [["sh", file["path"]]]


def test_cloud_init_accepts_each_stage(cloud_init_modules, tmp_path):
    path = tmp_path / "user-data"
    for text in files_of(cloud_init.FORMAT).values():
        path.write_text(text)
        assert cloud_init_refuses(cloud_init_modules, path) == ""
    path.write_text(text.replace("permissions:", "mode:"))
    assert "'mode' was unexpected" in cloud_init_refuses(cloud_init_modules, path)


def test_bottlerocket_reads_strings_and_the_revert_has_the_old_values():
    files = {name: readers.toml(text) for name, text in files_of(bottlerocket.FORMAT).items()}
    sysctls = {name: each["settings"]["kernel"]["sysctl"] for name, each in files.items()}
    assert sysctls[bottlerocket.FILE_NAME] == {
        "vm.dirty_ratio": "80",
        "vm.dirty_background_ratio": "5",
    }
    undo = {name: str(value) for name, value in EVERYTHING.undo_values.items()}
    assert sysctls[bottlerocket.REVERT_NAME] == undo


def test_bottlerocket_says_which_marker_makes_its_nodes_vote():
    """Without the settings in it, nodes report that nothing is in force, and the gate stops."""
    lines = files_of(bottlerocket.FORMAT)[bottlerocket.FILE_NAME].splitlines()
    (marker,) = [line[2:] for line in lines if line.startswith('# {"id"')]
    assert json.loads(marker) == {
        "id": PLAN.id,
        "stage": 1,
        "arm": TREATED,
        "settings": PLAN.change.sysctl_values,
    }


def test_the_profile_is_the_one_of_advise():
    assert (
        readers.tuned(files_of(tuned.FORMAT)[tuned.PROFILE_NAME])["sysctl"]["vm.dirty_ratio"]
        == "80"
    )


def test_ansible_reads_the_playbooks_as_yaml_with_a_play_each():
    for text in files_of(ansible.FORMAT).values():
        [play] = yaml.load(text, Loader=_Loader)
        modules = {key for task in play["tasks"] for key in task if "." in key}
        assert all(name.startswith("ansible.builtin.") for name in modules)


class Node:
    """A node of its own: folders in place of the absolute paths, and programs that are logged."""

    def __init__(self, folder: Path, node: str | None = None) -> None:
        self.folder = folder
        self.state, self.settings = folder / "state", folder / "sysctl.d"
        (folder / "bin").mkdir(parents=True)
        (folder / "values").mkdir()
        self.settings.mkdir()
        (folder / "tuned").mkdir()
        self.set_values("20", "0", "0", "67108864")
        if node:
            self.state.mkdir()
            name_node(self.state, node)
        self._program("sysctl", _SYSCTL.replace("VALUES", str(folder / "values")))
        self._program("tuned-adm", _TUNED.replace("FOLDER", str(folder)))

    def _program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def set_values(self, *values: str) -> None:
        for name, value in zip(_NAMES, values):
            (self.folder / "values" / name).write_text(f"{value}\n")

    @property
    def values(self) -> list[str]:
        return [(self.folder / "values" / name).read_text().strip() for name in _NAMES]

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        process = self.start(script)
        output, errors = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        places = {
            "/var/lib/writewise": self.state,
            "/etc/sysctl.d": self.settings,
            "/etc/tuned": self.folder / "tuned",
            "/sys/class/dmi": self.folder / "none",
        }
        for path, here in places.items():
            script = script.replace(path, str(here))
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        environment |= variables
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["sh", "-c", script], stdout=pipe, stderr=pipe, text=True, env=environment
        )

    def files(self) -> dict[str, str]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_text() for path in found}


_NAMES = (
    *("vm.dirty_ratio", "vm.dirty_bytes"),
    *("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
)
_SYSCTL = """#!/bin/sh
set -eu
if [ "$1" = -n ]; then cat "VALUES/$2"; exit; fi
grep -v '^#' "$2" | while read -r name _ value; do
  case "$name $value" in *_bytes\\ 0) exit 1 ;; esac
  echo "$value" > "VALUES/$name"
  case "$name" in *_bytes) other="${name%_bytes}_ratio" ;; *) other="${name%_ratio}_bytes" ;; esac
  echo 0 > "VALUES/$other"
done
"""
_TUNED = """#!/bin/sh
set -eu
if [ "$1" = active ]; then echo "Current active profile: $(cat FOLDER/active)"; exit; fi
shift
echo "$*" > FOLDER/active
"""


def stage_script_of(engine, number=1):
    files = files_of(engine.FORMAT)
    if engine is cloud_init:
        return yaml.safe_load(files[cloud_init.file_name(number)])["write_files"][0]["content"]
    if engine is tuned:
        return files[tuned.stage_name(number)]
    steps = json.loads(files[ssm.FILE_NAME])["mainSteps"]
    step = next(each for each in steps if each["name"] == f"stage{number}")
    return "\n".join(step["inputs"]["Parameters"]["commands"])


def revert_script_of(engine):
    files = files_of(engine.FORMAT)
    if engine is tuned:
        return files[tuned.REVERT_NAME]
    [step] = json.loads(files[ssm.REVERT_NAME])["mainSteps"]
    return "\n".join(step["inputs"]["Parameters"]["commands"])


@pytest.mark.parametrize("arm", [TREATED, CONTROL, WAITING])
@pytest.mark.parametrize("engine", [ssm, cloud_init])
def test_a_node_computes_its_arm_and_gets_back_what_it_had(engine, arm, tmp_path):
    node = Node(tmp_path, node_in(arm, PLAN, 3))
    (node.settings / "90-writewise.conf").write_text("# of the node\n")
    before = node.files()
    done = node.run(stage_script_of(engine, 3))
    assert done.returncode == 0, done.stderr
    if arm == WAITING:
        assert node.files() == before
        return
    marker = json.loads((node.state / "rollout.json").read_text())
    assert (marker["id"], marker["stage"], marker["arm"]) == (PLAN.id, 3, arm)
    expected = ["80", "0", "5", "0"] if arm == TREATED else ["20", "0", "0", "67108864"]
    assert node.values == expected
    assert node.run(stage_script_of(engine, 3)).returncode == 0  # again
    assert node.run(stage_script_of(engine, 4)).returncode == 0
    assert node.run(revert_script_of(ssm)).returncode == 0
    assert node.files() == before
    assert node.run(revert_script_of(ssm)).returncode == 0
    assert node.files() == before


def test_a_new_node_gets_a_name_and_the_arm_of_it(tmp_path):
    arms = set()
    for at in range(12):
        node = Node(tmp_path / str(at))
        assert node.run(stage_script_of(cloud_init, 4)).returncode == 0
        name = (node.state / "node-id").read_text().strip()
        arm = arm_of(name, PLAN.id, PLAN.stage(4).share, PLAN.control)
        assert (node.values[0] == "80") == (arm == TREATED)
        arms.add(arm)
    assert TREATED in arms


def test_a_node_from_an_image_of_another_gets_a_name_of_its_own(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    (node.state / "node-id.machine").write_text("0" * 64 + "\n")
    node.run(stage_script_of(ssm))
    assert (node.state / "node-id").read_text().strip() != node_in(TREATED, PLAN)


def test_a_failed_load_reports_it_and_the_revert_restores(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    before = node.files()
    broken = _SYSCTL.replace("VALUES", str(tmp_path / "values")).replace(
        "set -eu", 'set -eu\n[ "$1" = -n ] || exit 1'
    )
    (tmp_path / "bin/sysctl").write_text(broken)
    assert node.run(stage_script_of(ssm)).returncode != 0
    assert not (node.state / "rollout.json").exists()
    (tmp_path / "bin/sysctl").write_text(before["bin/sysctl"])
    assert node.run(revert_script_of(ssm)).returncode == 0
    assert node.files() == before


def test_a_value_that_cannot_be_read_is_not_saved_as_nothing(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    (tmp_path / "values/vm.dirty_bytes").unlink()
    assert node.run(stage_script_of(ssm)).returncode != 0
    assert node.files().keys() & {"state/rollout.json", "sysctl.d/90-writewise.conf"} == set()
    assert (tmp_path / "values/vm.dirty_ratio").read_text() == "20\n"


def test_a_second_stage_at_the_same_time_does_not_save_what_the_first_one_set(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    before = node.files()
    slow = 'if [ "${SLOW-}" ]; then touch FOLDER/reading; sleep 1; fi\n'
    sysctl = tmp_path / "bin/sysctl"
    sysctl.write_text(f"#!/bin/sh\n{slow}{before['bin/sysctl']}".replace("FOLDER", str(tmp_path)))
    first = node.start(stage_script_of(ssm), SLOW="yes")
    while not (tmp_path / "reading").exists():
        assert first.poll() is None
        time.sleep(0.01)
    assert node.run(stage_script_of(ssm, 2)).returncode == 0
    assert first.communicate()[1] == "" and first.returncode == 0
    assert node.values == ["80", "0", "5", "0"]
    assert node.run(revert_script_of(ssm)).returncode == 0
    assert node.values == ["20", "0", "0", "67108864"]


def test_a_stage_waits_for_another_no_longer_than_a_minute(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    before = node.files()
    node._program("flock", '#!/bin/sh\n[ "$*" = "-w 60 9" ] && exit 1\n')
    for script in (stage_script_of(ssm), revert_script_of(ssm)):
        done = node.run(script)
        assert done.returncode == 1
        assert "another stage or revert of a roll-out runs on this node" in done.stderr
    assert {**node.files(), "bin/flock": ""} == {**before, "bin/flock": ""}


def test_what_the_node_had_is_on_the_disk_before_it_has_its_name(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    (node.settings / "90-writewise.conf").write_text("# of the node\n")
    synced = tmp_path / "synced"
    node._program("sync", f'#!/bin/sh\nset -eu\n{{ ls {node.state}; cat "$1"; }} >> {synced}\n')
    assert node.run(stage_script_of(ssm)).returncode == 0
    lines = synced.read_text().splitlines()
    assert {"# of the node", "vm.dirty_ratio = 20"} <= set(lines)
    assert f"rollout-{PLAN.id}-originals.conf" not in lines
    assert (node.state / f"rollout-{PLAN.id}-originals.conf").read_text().splitlines() == [
        "vm.dirty_ratio = 20",
        "vm.dirty_background_bytes = 67108864",
    ]


def test_a_stage_that_was_killed_while_it_wrote_leaves_nothing_after_the_revert(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    before = node.files()
    assert node.run(stage_script_of(ssm)).returncode == 0
    (node.settings / "90-writewise.conf.new").write_text("half")
    (node.state / ".rollout.json.new").write_text("half")
    assert node.run(revert_script_of(ssm)).returncode == 0
    assert node.files() == before


def test_the_file_of_the_node_gets_its_mode_back(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    own = node.settings / "90-writewise.conf"
    own.write_text("# of the node\n")
    own.chmod(0o600)
    assert node.run(stage_script_of(ssm)).returncode == 0
    assert own.stat().st_mode & 0o777 == 0o644
    assert node.run(revert_script_of(ssm)).returncode == 0
    assert own.stat().st_mode & 0o777 == 0o600


def with_ratios(node):
    """Give a node values that TuneD can restore: no bytes."""
    node.set_values("20", "0", "10", "0")
    return node


def test_tuned_keeps_an_earlier_profile_of_its_name(tmp_path):
    node = with_ratios(Node(tmp_path, node_in(TREATED, PLAN)))
    (tmp_path / "active").write_text("balanced writewise\n")
    (tmp_path / "tuned/writewise").mkdir()
    (tmp_path / "tuned/writewise/tuned.conf").write_text("[sysctl]\nvm.dirty_ratio=30\n")
    before = node.files()
    assert node.run(stage_script_of(tuned)).returncode == 0
    assert "vm.dirty_ratio = 80" in (tmp_path / "tuned/writewise/tuned.conf").read_text()
    assert node.run(revert_script_of(tuned)).returncode == 0
    assert node.files() == before


def test_tuned_leaves_a_node_alone_on_which_it_does_not_run(tmp_path):
    node = with_ratios(Node(tmp_path, node_in(TREATED, PLAN)))
    program = f"#!/bin/sh\necho 'Preset profile: balanced'\ntouch {tmp_path}/used\n"
    node._program("tuned-adm", program)
    before = node.files()
    done = node.run(stage_script_of(tuned))
    assert done.returncode != 0 and "does not run" in done.stderr
    assert node.files().keys() - before.keys() == {"used"}


def test_tuned_leaves_a_node_alone_whose_bytes_it_cannot_restore(tmp_path):
    node = Node(tmp_path, node_in(TREATED, PLAN))
    (tmp_path / "active").write_text("balanced\n")
    before = node.files()
    done = node.run(stage_script_of(tuned))
    assert done.returncode != 0 and "vm.dirty_background_bytes is in force" in done.stderr
    assert node.files() == before


def test_tuned_adds_its_profile_and_leaves_it(tmp_path):
    node = with_ratios(Node(tmp_path, node_in(TREATED, PLAN)))
    (tmp_path / "active").write_text("balanced hpc\n")
    before = node.files()
    for _ in range(2):
        done = node.run(stage_script_of(tuned))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "active").read_text() == "balanced hpc writewise\n"
    profile = readers.tuned((tmp_path / "tuned/writewise/tuned.conf").read_text())
    assert profile["sysctl"] == {"vm.dirty_ratio": "80", "vm.dirty_background_ratio": "5"}
    assert node.run(revert_script_of(tuned)).returncode == 0
    assert node.files() == before


def test_tuned_reads_the_profile_that_the_script_writes(tuned_modules, tmp_path):
    node = with_ratios(Node(tmp_path, node_in(TREATED, PLAN)))
    (tmp_path / "active").write_text("balanced\n")
    assert node.run(stage_script_of(tuned)).returncode == 0
    expected = {"vm.dirty_ratio": "80", "vm.dirty_background_ratio": "5"}
    assert tuned_reads(tuned_modules, tmp_path / "tuned", "writewise") == {"sysctl": expected}


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
@pytest.mark.parametrize("engine", [ssm, tuned])
def test_shellcheck_finds_nothing_wrong(engine, tmp_path):
    for text in (stage_script_of(engine), revert_script_of(engine)):
        path = tmp_path / "script.sh"
        path.write_text(text)
        # 2046: several profiles are words on purpose; 2174: the parent exists
        excluded = "SC2046,SC2174,SC2034"
        done = subprocess.run(
            ["shellcheck", "-s", "sh", "-e", excluded, path], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
