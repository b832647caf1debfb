# SPDX-License-Identifier: Apache-2.0
"""The snippets: what each sets, its evidence and its undo, and when there is none."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from dataclasses import replace

import pytest
import yaml

from contracts.shared.errors import UsageError
from profiler.report.advised_change import change_of
from sysctl.advice.advise import advise
from sysctl.change.recommendation_file import parse_recommendation
from sysctl.render import (
    ansible,
    aws_config,
    cloud_init,
    fstab,
    launch_template,
    ssm,
    sysctl_d,
    systemd_mount,
    transfer,
    udev,
)
from sysctl.render.formats import DEFAULT, FORMATS, formats_named, render_all
from sysctl.render.installed import InstalledFile
from sysctl.render.snippet import InexpressibleError
from tests.unit import snippet_readers as readers
from tests.unit.changes import EVERYTHING, SYSCTLS, listed, mounted, text_of
from tests.unit.sweeps import GIB, sweep

ONLY_SYSCTLS = replace(EVERYTHING, mount=None, disk=None, transfer={})
#: Nothing of the sysctls changes.
ONLY_MOUNT = replace(EVERYTHING, originals=SYSCTLS, disk=None, transfer={})
ONLY_TRANSFER = replace(EVERYTHING, originals=SYSCTLS, disk=None, mount=None)
ASSIGNMENTS = [(name, str(value)) for name, value in SYSCTLS.items()]


def test_prose_in_comments_is_wrapped_and_words_stay_whole():
    reason = f"writers waited {'long ' * 60}{'x' * 120}"
    sysctls = tuple(replace(advice, reason=reason) for advice in ONLY_SYSCTLS.sysctls)
    [text, _] = [each.text for each in sysctl_d.render(replace(ONLY_SYSCTLS, sysctls=sysctls))]
    too_long = [line for line in text.splitlines() if len(line) > 100]
    assert too_long == [f"# {'x' * 120}"] * len(sysctls)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (
            ONLY_SYSCTLS,
            {
                "sysctl.d",
                "cloud-init",
                "ssm",
                "launch-template",
                "ansible",
                "tuned",
                "bottlerocket",
            },
        ),
        (ONLY_MOUNT, {"fstab", "systemd", "cloud-init", "launch-template", "ansible"}),
        (
            replace(ONLY_MOUNT, mount=None, disk=EVERYTHING.disk),
            {"udev", "cloud-init", "ssm", "launch-template", "ansible"},
        ),
        (ONLY_TRANSFER, {"transfer", "transfer-config", "aws-config"}),
    ],
)
def test_a_format_that_cannot_express_a_change_writes_no_file(change, names):
    assert {each.name for each in FORMATS if each.render(change)} == names
    rendered = render_all(change, FORMATS)
    left_out = {line.partition(":")[0] for line in rendered.left_out}
    assert left_out == {each.name for each in FORMATS} - names


def test_formats_are_chosen_by_name():
    assert [each.name for each in DEFAULT] == [
        *("sysctl.d", "fstab", "transfer", "transfer-config")
    ]
    assert formats_named("all") == formats_named("all,ssm") == FORMATS
    assert [each.name for each in formats_named("ssm,sysctl.d")] == ["sysctl.d", "ssm"]
    with pytest.raises(ValueError, match=r"unknown format 'yaml'; use sysctl\.d, fstab, systemd"):
        formats_named("ssm,yaml")


def test_the_recommendation_is_written_as_apply_reads_it():
    [snippet, *_] = render_all(EVERYTHING, ()).snippets
    assert snippet.file_name == "recommendation.json"
    assert parse_recommendation(snippet.text, "x") == EVERYTHING


def test_the_pull_reads_the_settings_written_for_it(tmp_path):
    from profiler.pull.settings import TransferSettings, parse_settings

    names: dict[str, object] = {}
    [code] = transfer.render_python(EVERYTHING)
    exec(code.text, names)
    [document] = transfer.render_json(EVERYTHING)
    path = tmp_path / document.file_name
    path.write_text(document.text)
    settings = parse_settings(str(path))
    assert settings == TransferSettings(20, 32 * 2**20, 2**20)
    assert vars(names["config"]) == vars(settings.to_transfer_config())


def test_the_aws_commands_set_keys_that_the_cli_has_and_nothing_else():
    [snippet] = aws_config.render(EVERYTHING)
    commands = [line for line in snippet.text.splitlines() if line and not line.startswith("#")]
    assert commands == [
        "aws configure set default.s3.max_concurrent_requests 20",
        "aws configure set default.s3.multipart_threshold 8388608",
        "aws configure set default.s3.multipart_chunksize 33554432",
        "aws configure set default.s3.io_chunksize 1048576",
    ]
    assert "has no key for max_io_queue=100, use_threads=true" in snippet.text


def test_settings_of_the_pull_alone_have_no_note_on_the_host():
    alone = replace(EVERYTHING, originals=EVERYTHING.sysctl_values, mount=None, disk=None)
    [snippet] = transfer.render_json(alone)
    assert "both halves" not in snippet.text


@pytest.mark.parametrize("values", [{"max_concurrency": 0}, {"__import__": 1}, {"use_threads": 2}])
def test_an_invalid_transfer_setting_is_not_written(values):
    with pytest.raises(UsageError, match="apply` would refuse it"):
        render_all(replace(EVERYTHING, transfer=values), FORMATS)
    with pytest.raises(InexpressibleError):
        transfer.render_python(replace(EVERYTHING, transfer=values))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"target": "/my\ndata"}, "mount.target: is not an absolute path"),
        ({"device": "/dev/x\nfoo"}, "mount.device: is not a device in /dev"),
        ({"device": "/tmp/evil.img", "target": "/etc"}, "mount.device: is not a device in /dev"),
        ({"device": "/dev/../tmp/evil.img"}, "mount.device: is not a device in /dev"),
        ({"words": ["noatime", "suid"]}, "mount.value: is not a list of mount options"),
        ({"policy": ("nosuid", "user")}, "mount.policy: is not a list of mount options"),
    ],
)
def test_a_recommendation_that_apply_would_refuse_is_not_rendered(change, problem):
    with pytest.raises(UsageError, match="nothing was written") as caught:
        render_all(mounted(**change), FORMATS)
    assert problem in caught.value.message


@pytest.mark.parametrize("words", [["nosuid", "nodev", "noexec", "noquota", "errors=remount-ro"]])
def test_policy_of_the_volume_stays(words):
    change = listed(",".join(words), policy=tuple(words))
    assert parse_recommendation(render_all(change, ()).snippets[0].text, "x") == change
    assert f" {','.join(words)},noatime 0 2" in text_of(fstab, change)


@pytest.mark.parametrize(
    "word",
    [
        *("suid", "dev", "exec", "user", "users", "owner", "nouser", "group", "bind", "move"),
        *("loop=/dev/loop0", "helper=evil", "uhelper=x", "comment=x", "x-systemd.makefs"),
        *("x-mount.mkdir", "X-mount.mkdir", "verity.hashdevice=/dev/x", "rshared"),
    ],
)
@pytest.mark.parametrize("renderer", [fstab, systemd_mount, cloud_init, launch_template, ansible])
def test_an_option_for_mount_programs_is_not_a_mount_option(renderer, word):
    for change in (mounted(words=["noatime", word]), mounted(policy=("nosuid", word))):
        with pytest.raises(InexpressibleError, match="is not a mount option"):
            renderer.render(change)


@pytest.mark.parametrize("word", ["ro", "context=x", "logdev=/dev/sda", "journal_path=/etc/x"])
def test_options_that_decide_permissions_are_not_recommended(word):
    with pytest.raises(InexpressibleError, match="is not a mount option"):
        fstab.render(mounted(words=[word]))
    assert word in text_of(fstab, listed(word, policy=(word,)))


def test_the_sysctl_file_holds_the_settings_and_the_undo():
    text = text_of(sysctl_d, EVERYTHING)
    assert readers.sysctl_conf(text) == ASSIGNMENTS
    assert "sysctl -w vm.dirty_ratio=20 vm.dirty_background_ratio=10" in text
    assert "s3://bucket/images" in text
    assert "90-writewise-bytes.conf has the thresholds as bytes" in text


def test_the_same_thresholds_are_written_as_bytes_too():
    _, other = sysctl_d.render(EVERYTHING)
    assert other.file_name == "90-writewise-bytes.conf"
    assert readers.sysctl_conf(other.text) == [
        ("vm.dirty_bytes", str(GIB * 16 // 5 // 4096 * 4096 + 4096)),
        ("vm.dirty_background_bytes", str(GIB // 5 // 4096 * 4096 + 4096)),
    ]
    assert "sysctl -w vm.dirty_ratio=20 vm.dirty_background_ratio=10" in other.text
    assert "use one of the two files, not both" in other.text
    assert "writers were throttled above" in other.text, "the reason of the counterpart"


def test_without_a_change_there_is_nothing_to_render():
    assert change_of(advise(sweep(lambda setting, run: 10.0))) is None


UUID = "UUID=6f3e1f0a-7a39-4c9e-9a9c-0d6f1a2b3c4d"
OLD, NEW = (
    f"nosuid,{words}"
    for words in (
        "relatime,nofail,x-systemd.device-timeout=5s",
        "nofail,x-systemd.device-timeout=5s,noatime",
    )
)


def test_the_fstab_line_is_the_users_with_only_other_options():
    text = text_of(fstab, EVERYTHING)
    assert text.splitlines()[-1] == f"{UUID} /data xfs {NEW} 0 2"
    assert f"#   {UUID} /data xfs {OLD} 0 2\n" in text


@pytest.mark.parametrize(
    ("own", "words", "new"),
    [
        ("defaults", ["noatime"], "defaults,noatime"),
        ("defaults,nofail,noauto,_netdev", ["noatime"], "defaults,nofail,noauto,_netdev,noatime"),
        ("noatime,logbsize=32k,nofail", ["noatime", "logbsize=256k"], None),
        ("relatime,lazytime,x-systemd.requires=a@b.service", [], "x-systemd.requires=a@b.service"),
        ("user,exec,errors=remount-ro", ["lazytime"], "user,exec,errors=remount-ro,lazytime"),
        ("relatime", [], "defaults"),
    ],
)
def test_only_recommended_options_change_in_the_users_line(own, words, new):
    [fields] = readers.fstab(text_of(fstab, listed(own, words=words, dump=1)))
    assert fields == [
        *("UUID=1234-ABCD", "/data", "xfs"),
        *(new or "nofail,noatime,logbsize=256k", "1", "2"),
    ]


@pytest.mark.parametrize("renderer", [fstab, systemd_mount])
def test_without_a_line_in_fstab_none_is_made_up(renderer):
    unknown = replace(ONLY_MOUNT, mount=replace(EVERYTHING.mount, fstab=None))
    with pytest.raises(InexpressibleError, match="had no line for '/data'; add nosuid,noatime"):
        renderer.render(unknown)
    with pytest.raises(InexpressibleError, match="had no line for '/data'"):
        ansible.render(unknown)
    assert cloud_init.render(unknown) == ()
    rendered = render_all(unknown, DEFAULT)
    assert [line.partition(":")[0] for line in rendered.inexpressible] == ["fstab"]


def test_without_a_line_in_fstab_the_rest_is_written_and_reported():
    change = replace(EVERYTHING, mount=replace(EVERYTHING.mount, fstab=None))
    for renderer in (cloud_init, launch_template, ansible):
        text = text_of(renderer, change)
        assert "NOT included: the mount options nosuid,noatime for /data" in text
        assert "fstab had no single line for /data" in text
        assert "fstab\n" not in text.replace("#", "") and "mounts:" not in text


@pytest.mark.parametrize(
    "word",
    [
        *("suid", "dev", "helper=evil", "uhelper=x", "loop", "offset=1", "x-systemd.makefs"),
        *(
            "verity.hashdevice=/dev/x",
            "remount",
            "bind",
            "a b",
            "a\nb",
            "a#b",
            'a"b',
            "{{x}}",
            "$x",
        ),
    ],
)
def test_untrusted_text_is_not_written_to_fstab(word):
    change = listed(f"nofail,{word}")
    for renderer in (fstab, systemd_mount, cloud_init, launch_template, ansible):
        with pytest.raises(InexpressibleError, match="is not a mount option"):
            renderer.render(change)
    with pytest.raises(UsageError, match=r"mount\.fstab\.options: is not a list of"):
        render_all(change, FORMATS)


def test_a_mount_point_with_blanks_is_escaped_for_fstab():
    line = text_of(fstab, mounted(target="/my data\nnone /etc")).splitlines()[-1]
    assert line.split(" ")[1] == "/my\\040data\\012none\\040/etc"


def test_the_drop_in_is_for_the_unit_of_its_mount_point_and_changes_the_options_alone():
    [snippet] = systemd_mount.render(mounted(target="/mnt/my data-1/50%"))
    assert snippet.file_name == "90-writewise.mount.conf"
    path = r"/etc/systemd/system/mnt-my\x20data\x2d1-50\x25.mount.d/90-writewise.conf"
    assert f"install -D -m 0644 90-writewise.mount.conf '{path}'" in snippet.text
    assert f"rm '{path}'" in snippet.text
    assert readers.unit(snippet.text) == {("Mount", "Options"): "nosuid,noatime"}


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/", "the root file system is mounted before"),
        ("data", "not a normalized absolute path"),
        ("//data", "not a normalized absolute path"),
        ("/data/../etc", "not a normalized absolute path"),
        ("/data/", "not a normalized absolute path"),
        ("/data\t", "unprintable characters"),
        ("/" + "ä" * 100, "too long for a unit's name"),
    ],
)
def test_a_mount_point_that_a_unit_cannot_have_is_refused(target, why):
    with pytest.raises(InexpressibleError, match=why):
        systemd_mount.render(mounted(target=target))


@pytest.mark.parametrize("device", ["#/dev/sda", "", "tmpfs", "host:/export"])
@pytest.mark.parametrize("renderer", [fstab, systemd_mount, ansible])
def test_a_source_that_is_not_a_device_is_refused(renderer, device):
    with pytest.raises(InexpressibleError, match="is not a "):
        renderer.render(mounted(device=device))


@pytest.mark.parametrize(
    ("name", "value"),
    [("queue/nr_requests", '1", RUN+="/x'), ("queue/scheduler", "no ne"), ("../uevent", "1")],
)
@pytest.mark.parametrize("renderer", [udev, cloud_init, launch_template, ansible, ssm])
def test_an_unknown_knob_is_refused(renderer, name, value):
    knob = replace(EVERYTHING.disk.knobs[0], name=name, value=value)
    change = replace(EVERYTHING, disk=replace(EVERYTHING.disk, knobs=(knob,)))
    with pytest.raises(InexpressibleError):
        renderer.render(change)


def identified(**identity):
    return replace(EVERYTHING, disk=replace(EVERYTHING.disk, **identity))


def test_the_rules_set_the_scheduler_first_for_this_disk_alone():
    text = text_of(udev, EVERYTHING)
    match = [
        ("ACTION", "==", "add|change"),
        ("SUBSYSTEM", "==", "block"),
        ("ENV{DEVTYPE}", "==", "disk"),
        ("ATTRS{wwid}", "==", "nvme.1d0f-766f6c30-01"),
    ]
    assert readers.udev(text) == [
        [*match, ("ATTR{queue/scheduler}", "=", "none")],
        [*match, ("ATTR{queue/nr_requests}", "=", "512")],
        [*match, ("ATTR{bdi/min_bytes}", "=", "268435456")],
    ]
    undo = [line.lstrip("# ") for line in text.splitlines() if "echo " in line]
    assert undo == [
        "echo mq-deadline > /sys/block/nvme1n1/queue/scheduler",
        "echo 256 > /sys/block/nvme1n1/queue/nr_requests",
        "echo 0 > /sys/block/nvme1n1/bdi/min_bytes",
    ]
    assert "a share of the current dirty threshold" in text
    assert "WARNING" not in text


@pytest.mark.parametrize(
    ("identity", "match"),
    [
        ({"wwid": ""}, ("ATTRS{serial}", "vol0123456789abcdef0")),
        ({"wwid": "t10.ATA  disk*", "serial": "a|b"}, ("KERNEL", "nvme1n1")),
        ({"wwid": "", "serial": ""}, ("KERNEL", "nvme1n1")),
        ({"wwid": "", "serial": "", "name": "", "device": "/dev/nvme0n1p2"}, ("KERNEL", "nvme0n1")),
        ({"wwid": "", "serial": "", "name": "", "device": "/dev/xvdf1"}, ("KERNEL", "xvdf")),
        ({"wwid": "", "serial": "", "name": "", "device": "/dev/loop12"}, ("KERNEL", "loop12")),
    ],
)
def test_a_disk_is_matched_by_its_most_reliable_identity(identity, match):
    text = text_of(udev, identified(**identity))
    assert {(key, value) for rule in readers.udev(text) for key, _, value in rule} >= {match}
    assert ("WARNING" in text) == (match[0] == "KERNEL")


@pytest.mark.parametrize("renderer", [udev, cloud_init, ssm, launch_template, ansible])
def test_an_invalid_knob_value_is_in_no_command_of_the_undo(renderer):
    knob = replace(EVERYTHING.disk.knobs[1], present="none > /x; reboot")
    text = text_of(renderer, identified(knobs=(knob,)))
    assert "queue/scheduler was none > /x; reboot" in text
    assert "echo none > /x" not in text
    text = text_of(renderer, identified(name="x;reboot", device="/dev/x;reboot"))
    assert "queue/scheduler was mq-deadline" in text


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_every_snippet_says_how_to_use_it_before_how_to_undo_it(each):
    text = each.render(EVERYTHING)[0].text
    assert 0 < text.index("To use:   ") < text.index("To undo")


def test_the_script_leaves_no_temporary_file_on_a_full_disk(tmp_path):
    file = InstalledFile(f"{tmp_path}/90-writewise.conf", ("a = 1",), ())
    script = ssm.script((file,))
    full = [line.replace("chmod 0644", "false") for line in script]
    assert subprocess.run(["sh", "-c", "\n".join(full)], check=False).returncode != 0
    assert list(tmp_path.iterdir()) == []
    assert subprocess.run(["sh", "-c", "\n".join(script)], check=False).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["90-writewise.conf"]


@pytest.mark.parametrize("device", ["UUID=1-2", "/dev/mapper/data", "/dev/sd*", '/dev/x"'])
def test_a_disk_without_an_identity_is_refused(device):
    with pytest.raises(InexpressibleError, match="a rule cannot match"):
        udev.render(identified(wwid="", serial="", name="", device=device))


def test_user_data_installs_the_files_and_takes_them_in_force_without_a_shell():
    text = text_of(cloud_init, EVERYTHING)
    assert text.startswith("#cloud-config\n")
    document = yaml.safe_load(text)
    sysctls, rules = document["write_files"]
    assert sysctls["path"] == "/etc/sysctl.d/90-writewise.conf"
    assert readers.sysctl_conf(sysctls["content"]) == ASSIGNMENTS
    assert readers.udev(rules["content"]) == readers.udev(text_of(udev, EVERYTHING))
    assert {file["permissions"] for file in (sysctls, rules)} == {"0644"}
    assert document["runcmd"] == [
        ["sysctl", "-p", "/etc/sysctl.d/90-writewise.conf"],
        ["udevadm", "control", "--reload"],
        ["udevadm", "trigger", "--action=change", "--subsystem-match=block"],
    ]
    assert document["mounts"] == [[UUID, "/data", "xfs", NEW, "0", "2"]]
    assert f"Your fstab names the volume {UUID}" in text_of(cloud_init, EVERYTHING)


def test_a_node_starts_without_the_volume_though_the_users_line_does_not_say_so():
    document = yaml.safe_load(text_of(cloud_init, listed("defaults", source="LABEL=data")))
    assert document["mounts"] == [
        ["LABEL=data", "/data", "xfs", "defaults,noatime,nofail", "0", "2"]
    ]


def test_a_mount_point_that_cloud_init_would_not_escape_is_skipped_and_reported():
    text = text_of(cloud_init, mounted(target="/my data"))
    assert "mounts" not in yaml.safe_load(text)
    assert "NOT included: the mount options nosuid,noatime for /my data" in text


def test_user_data_that_ec2_would_not_take_is_refused():
    wordy = tuple(replace(advice, reason="why " * 2500) for advice in EVERYTHING.sysctls)
    with pytest.raises(InexpressibleError, match="more than EC2's limit"):
        cloud_init.render(replace(EVERYTHING, sysctls=wordy))


def test_the_launch_template_has_the_same_user_data_in_an_archive():
    document = readers.user_data_of(text_of(launch_template, EVERYTHING))
    assert document == yaml.safe_load(text_of(cloud_init, EVERYTHING))


def test_the_document_for_systems_manager_is_a_script_of_known_words():
    document = json.loads(text_of(ssm, EVERYTHING))
    [step] = document["mainSteps"]
    assert (document["schemaVersion"], step["action"]) == ("2.2", "aws:runShellScript")
    assert step["inputs"]["runCommand"][0] == "set -eu"
    assert "NOT included: the mount options nosuid,noatime for /data" in document["description"]


def test_tasks_for_ansible():
    *tasks, mount = readers.ansible(text_of(ansible, EVERYTHING))
    found = [task["ansible.posix.sysctl"] for task in tasks if "ansible.posix.sysctl" in task]
    assert [(task["name"], task["value"]) for task in found] == ASSIGNMENTS
    assert {task["sysctl_file"] for task in found} == {"/etc/sysctl.d/90-writewise.conf"}
    [rules] = [task["ansible.builtin.copy"] for task in tasks if "ansible.builtin.copy" in task]
    assert readers.udev(rules["content"]) == readers.udev(text_of(udev, EVERYTHING))
    commands = [task["ansible.builtin.command"]["argv"] for task in tasks[-2:]]
    assert commands == [list(command) for command in udev.RELOAD]
    assert edited(mount, f"{UUID}\t/data  xfs {OLD}\t0 2\n") == f"{UUID}\t/data  xfs {NEW}\t0 2\n"


def edited(task, text):
    """What Ansible's module makes of an fstab (`re.MULTILINE`, as of ansible-core 2.14)."""
    change = task["ansible.builtin.replace"]
    assert change["path"] == "/etc/fstab"
    return re.sub(change["regexp"], change["replace"], text, flags=re.MULTILINE)


def test_the_undo_for_ansible_restores_the_line_and_unmounts_nothing():
    do, undo = (readers.ansible(snippet.text) for snippet in ansible.render(EVERYTHING))
    assert not any("mount" in module for task in (*do, *undo) for module in task if "." in module)
    others = (
        f"# {UUID} /data xfs {OLD} 0 2\n/dev/sda1 / ext4 {OLD} 0 1\nLABEL=x /data2 xfs {OLD} 0 0\n"
        f"LABEL=y /data xfs {OLD},ro 0 0\nLABEL=y /data xfs ro,{OLD} 0 0\n"
    )
    before = f"{others}LABEL=of-this-node /data xfs {OLD}\n"
    after = edited(do[-1], before)
    assert after == f"{others}LABEL=of-this-node /data xfs {NEW}\n"
    assert edited(undo[-1], after) == before
    files = [task["ansible.builtin.file"] for task in undo if "ansible.builtin.file" in task]
    assert [(file["path"], file["state"]) for file in files] == [
        ("/etc/sysctl.d/90-writewise.conf", "absent"),
        ("/etc/udev/rules.d/90-writewise.rules", "absent"),
    ]
    commands = [
        task["ansible.builtin.command"]["argv"]
        for task in undo
        if "ansible.builtin.command" in task
    ]
    assert commands[0] == [
        *("sysctl", "-w", "vm.dirty_ratio=20", "vm.dirty_background_ratio=10"),
    ]
    [rules] = [task["ansible.builtin.copy"] for task in undo if "ansible.builtin.copy" in task]
    values = [rule[-1][2] for rule in readers.udev(rules["content"])]
    assert values == ["mq-deadline", "256", "0"]
    assert all("when" in task for task in undo if "ansible.builtin.command" in task)


def test_the_help_names_every_format():
    from profiler.cli import advise as command

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    text = " ".join(parser.format_help().split()).replace("- ", "-")
    assert [each.name for each in FORMATS if each.name not in text] == []
