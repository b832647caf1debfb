# SPDX-License-Identifier: Apache-2.0
"""The snippets as their real consumers read them, none of which changes anything here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sysctl.render import (
    bottlerocket,
    cloud_init,
    fstab,
    launch_template,
    ssm,
    sysctl_d,
    systemd_mount,
    tuned,
    udev,
)
from sysctl.render.fstab import fstab_text
from sysctl.render.installed import installed_files
from sysctl.render.snippet import InexpressibleError
from tests.unit import snippet_readers as readers
from tests.unit.changes import EVERYTHING, SYSCTLS, listed, mounted, paths, text_of
from tests.unit.debian_packages import cloud_init_refuses, tuned_reads

#: Written from the documentation of cloud-init's modules of these names.
CLOUD_CONFIG = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "write_files": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path", "content"],
                "properties": {
                    "path": {"type": "string", "pattern": "^/etc/[a-z.]+/([a-z.]+/)?90-writewise"},
                    "content": {"type": "string"},
                    "owner": {"type": "string", "pattern": "^[a-z]+:[a-z]+$"},
                    "permissions": {"type": "string", "pattern": "^0[0-7]{3}$"},
                },
            },
        },
        # a text in place of a list would go to a shell
        "runcmd": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        "mounts": {
            "type": "array",
            "items": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 6,
                "maxItems": 6,
            },
        },
    },
}
#: Written from the documentation of schema version 2.2 of Systems Manager's command documents.
COMMAND_DOCUMENT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["schemaVersion", "mainSteps"],
    "properties": {
        "schemaVersion": {"const": "2.2"},
        "description": {"type": "string"},
        "mainSteps": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["action", "name", "inputs"],
                "properties": {
                    "action": {"const": "aws:runShellScript"},
                    "name": {"type": "string", "pattern": "^[A-Za-z0-9]{1,128}$"},
                    "precondition": {"const": {"StringEquals": ["platformType", "Linux"]}},
                    "inputs": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["runCommand"],
                        "properties": {
                            "timeoutSeconds": {"type": "string", "pattern": "^[0-9]{1,5}$"},
                            "runCommand": {"type": "array", "items": {"type": "string"}},
                        },
                    },
                },
            },
        },
    },
}


def run(*argv, **options):
    return subprocess.run([str(word) for word in argv], capture_output=True, text=True, **options)


def test_sysctl_reads_the_settings_from_both_files(tmp_path):
    for snippet in sysctl_d.render(EVERYTHING):
        path = tmp_path / snippet.file_name
        path.write_text(snippet.text)
        done = run("sysctl", "--dry-run", "-p", path)
        assert done.returncode == 0, done.stderr
        read = [tuple(line.split(" = ")) for line in done.stdout.splitlines()]
        assert read == readers.sysctl_conf(snippet.text)


def findmnt(path):
    """What util-linux reads in an fstab, as it is in the file."""
    columns = "SOURCE,TARGET,FSTYPE,OPTIONS,FREQ,PASSNO"
    done = run("findmnt", "--tab-file", path, "--json", "--output", columns)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["filesystems"]


def test_findmnt_finds_nothing_wrong_with_the_line(tmp_path):
    target = tmp_path / "my data\t#1"
    target.mkdir()
    path = tmp_path / "fstab"
    path.write_text(text_of(fstab, mounted(target=str(target), device="/dev/null")))
    done = run("findmnt", "--verify", "--tab-file", path)
    assert done.returncode == 0, done.stdout
    assert "0 parse errors, 0 errors" in done.stderr


@given(target=paths)
@settings(max_examples=30, deadline=None)
def test_findmnt_reads_the_mount_that_was_asked_for(tmp_path_factory, target):
    try:
        text = text_of(fstab, mounted(target=target))
    except InexpressibleError:
        return
    path = tmp_path_factory.mktemp("fstab") / "fstab"
    path.write_text(text)
    [mount] = findmnt(path)
    assert mount["source"] == "/dev/nvme1n1"
    assert mount["target"] == target
    assert mount["options"] == "nosuid,noatime"


@given(
    names=st.lists(
        st.lists(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1), min_size=1),
        min_size=1,
    )
)
@settings(max_examples=30, deadline=None)
def test_units_are_named_as_systemd_names_them(names):
    named = {}
    for parts in names:
        path = "/" + "/".join(parts)
        try:
            named[path] = systemd_mount.unit_name(path)
        except InexpressibleError:
            continue
    if named:
        done = run("systemd-escape", "--path", "--suffix=mount", "--", *named)
        assert done.stdout.split() == list(named.values())


GENERATOR = "/usr/lib/systemd/system-generators/systemd-fstab-generator"


@pytest.mark.parametrize(
    "target", ["/data", "/my data", '/a"b', "/50%h", "/a\\x20b", "/$(id)", "/é", "/.a-b"]
)
def test_systemd_takes_the_drop_in_for_the_unit_that_it_makes_of_fstab(target, tmp_path):
    change = listed("nosuid,relatime,nofail,x-systemd.requires=a@b.service", target=target)
    [snippet] = systemd_mount.render(change)
    (tmp_path / "fstab").write_text(fstab_text(change.mount, ",".join(change.mount.fstab.options)))
    environment = {**os.environ, "SYSTEMD_FSTAB": str(tmp_path / "fstab")}
    subprocess.run([GENERATOR, *[tmp_path] * 3], check=True, env=environment)
    unit = tmp_path / systemd_mount.unit_name(target)
    assert "\nWhat=/dev/disk/by-uuid/1234-ABCD\n" in unit.read_text()
    folder = tmp_path / f"{unit.name}.d"
    folder.mkdir()
    (folder / "90-writewise.conf").write_text(snippet.text)
    done = run("systemd-analyze", "verify", unit)
    assert "90-writewise" not in done.stderr
    options = readers.unit(snippet.text)["Mount", "Options"]
    assert options == "nosuid,nofail,x-systemd.requires=a@b.service,noatime"


def has_udevadm_verify():
    return bool(shutil.which("udevadm")) and not run("udevadm", "verify", "--help").returncode


@pytest.mark.skipif(not has_udevadm_verify(), reason="udevadm verify came with systemd 254")
def test_udev_accepts_the_rules(tmp_path):
    path = tmp_path / udev.FILE_NAME
    path.write_text(text_of(udev, EVERYTHING))
    done = run("udevadm", "verify", path)
    assert done.returncode == 0, done.stderr


def test_user_data_is_of_the_shape_that_cloud_init_documents():
    document = yaml.safe_load(text_of(cloud_init, EVERYTHING))
    jsonschema.validate(document, CLOUD_CONFIG)
    jsonschema.validate(readers.user_data_of(text_of(launch_template, EVERYTHING)), CLOUD_CONFIG)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "runcmd": ["sysctl -p"]}, CLOUD_CONFIG)


def test_the_document_is_of_the_shape_that_systems_manager_documents():
    jsonschema.validate(json.loads(text_of(ssm, EVERYTHING)), COMMAND_DOCUMENT)


def test_cloud_init_accepts_the_user_data(cloud_init_modules, tmp_path):
    path = tmp_path / "user-data"
    of_template = yaml.safe_dump(readers.user_data_of(text_of(launch_template, EVERYTHING)))
    text = text_of(cloud_init, EVERYTHING)
    for each in (text, f"{cloud_init.MAGIC}{of_template}"):
        path.write_text(each)
        assert cloud_init_refuses(cloud_init_modules, path) == ""
    document = yaml.safe_load(text)
    document["write_files"][0]["permissions"] = 0o644
    path.write_text(f"{cloud_init.MAGIC}{yaml.safe_dump(document)}")
    assert "is not of type 'string'" in cloud_init_refuses(cloud_init_modules, path)


def test_tuned_loads_the_profile(tuned_modules, tmp_path):
    (tmp_path / tuned.PROFILE).mkdir()
    (tmp_path / tuned.PROFILE / "tuned.conf").write_text(text_of(tuned, EVERYTHING))
    assert tuned_reads(tuned_modules, tmp_path, tuned.PROFILE) == {
        "sysctl": {name: str(value) for name, value in SYSCTLS.items()}
    }


def test_bottlerocket_gets_its_sysctls_as_strings():
    """Its model of settings takes nothing else for a sysctl's value."""
    settings = readers.toml(text_of(bottlerocket, EVERYTHING))
    values = {name: str(value) for name, value in SYSCTLS.items()}
    assert settings == {"settings": {"kernel": {"sysctl": values}}}


@pytest.fixture
def stand_ins(tmp_path):
    """A folder of programs that keep what they were called with; `mktemp` names a file here."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("mkdir", "mktemp", "chmod", "mv", "rm", "sysctl", "udevadm"):
        program = programs / name
        program.write_text(
            "#!/bin/sh\n"
            f'for word in {name} "$@"; do printf "%s\\0" "$word" >>"$CALLS"; done\n'
            'printf "\\n\\0" >>"$CALLS"\n'
            + 'printf "%s" "$FOLDER/new${1##*/}"\n' * (name == "mktemp")
            + '[ "$0 $1" != "$FAILING" ]\n'
        )
        program.chmod(0o755)
    return programs


def run_script(change, stand_ins, failing=""):
    """Run the document's script with nothing but the stand-ins: exit code, their calls, files."""
    folder = stand_ins.parent
    environment = {
        "PATH": str(stand_ins),
        "CALLS": str(folder / "calls"),
        "FOLDER": str(folder),
        "FAILING": f"{stand_ins}/{failing}",
    }
    [step] = json.loads(text_of(ssm, change))["mainSteps"]
    script = "\n".join(step["inputs"]["runCommand"])
    done = run("/bin/sh", "-c", script, env=environment, cwd=folder)
    words = (folder / "calls").read_text().split("\0")
    calls = " ".join(words).split(" \n")
    written = {path.name: path.read_text() for path in folder.glob("new*")}
    return done, [call.strip() for call in calls if call.strip()], written


def test_a_shell_runs_only_what_the_document_means(stand_ins):
    done, calls, written = run_script(EVERYTHING, stand_ins)
    assert (done.returncode, done.stderr) == (0, "")
    expected = []
    for file in installed_files(EVERYTHING):
        folder, name = os.path.split(file.path)
        new = f"{stand_ins.parent}/new.{name}.XXXXXX"
        assert written[os.path.basename(new)] == file.text
        expected += [
            f"mkdir -p {folder}",
            f"mktemp {folder}/.{name}.XXXXXX",
            f"chmod 0644 {new}",
            f"mv -f {new} {file.path}",
            *(" ".join(command) for command in file.commands),
        ]
    assert calls == expected
    assert readers.sysctl_conf(written["new.90-writewise.conf.XXXXXX"]) == [
        (name, str(value)) for name, value in SYSCTLS.items()
    ]


def test_a_step_that_fails_ends_the_script(stand_ins):
    change = replace(EVERYTHING, disk=None)
    done, calls, _ = run_script(change, stand_ins, failing="chmod 0644")
    assert done.returncode == 1
    assert [call.split()[0] for call in calls] == ["mkdir", "mktemp", "chmod", "rm"]
