# SPDX-License-Identifier: Apache-2.0
"""Untrusted text (keys, host names, mount points, devices) cannot add anything to a snippet.

Texts that only tell something may change comments alone: what the consumer reads is the same as of
a tame recommendation. What is a setting reads back exactly, or nothing is written.
"""

from __future__ import annotations

import contextlib
import json
import re

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sysctl.change.recommendation import FstabLine
from sysctl.host.fstab import escaped
from sysctl.render import (
    ansible,
    cloud_init,
    fstab,
    launch_template,
    ssm,
    systemd_mount,
    udev,
)
from sysctl.render.comments import comment, one_line
from sysctl.render.formats import EVERY_FILE, FORMATS
from sysctl.render.snippet import InexpressibleError
from tests.unit import snippet_readers as readers
from tests.unit.changes import (
    EVERYTHING,
    mounted,
    nasty,
    paths,
    text_of,
    visible,
    with_descriptive_text,
)
from tests.unit.snippet_readers import READERS

#: What each renderer's first file says to its consumer.
EXPECTED = {form.render: READERS[form.name](form.render(EVERYTHING)[0].text) for form in FORMATS}
quickly = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def rendered(renderer, change):
    """The text, or None where the format refuses the change."""
    try:
        return text_of(renderer, change)
    except InexpressibleError:
        return None


@given(change=with_descriptive_text())
@quickly
def test_untrusted_text_makes_no_systems_manager_reference(change):
    document = text_of(ssm, change)
    assert "{{" not in document
    assert "{{" not in json.loads(document)["description"]


@given(text=nasty)
def test_a_comment_is_one_line_of_visible_characters(text):
    made = comment([text, "end"])
    assert made.count("\n") == 2
    assert all(line.startswith("#") for line in made.splitlines())
    assert one_line(text).isprintable()
    assert not one_line(text).endswith("\\")
    assert yaml.safe_load(made + "a: 1") == {"a": 1}


@given(target=paths, device=st.one_of(paths, nasty))
@quickly
def test_an_fstab_line_reads_back_to_the_mount(target, device):
    text = rendered(fstab, mounted(target=target, device=device))
    expected = [[device, target, "xfs", "nosuid,noatime", "0", "0"]]
    assert text is None or readers.fstab(text) == expected


@given(target=paths, device=st.one_of(paths, nasty))
@quickly
def test_a_drop_in_reads_back_to_the_options(target, device):
    text = rendered(systemd_mount, mounted(target=target, device=device))
    if text is None:
        return
    assert readers.unit(text) == {("Mount", "Options"): "nosuid,noatime"}


@given(target=paths, device=paths)
@example(target="/mntx", device="/mnt\N{NO-BREAK SPACE}x")
@quickly
def test_tasks_edit_the_line_of_the_mount_alone(target, device):
    text = rendered(ansible, mounted(target=target, device=device))
    if text is None:
        return
    change = readers.ansible(text)[-1]["ansible.builtin.replace"]
    line = "{} {} xfs nosuid 0 0\n".format(*map(escaped, (device, target)))
    edited = re.sub(change["regexp"], change["replace"], line * 2, flags=re.MULTILINE)
    assert edited == line.replace("nosuid 0 0", "nosuid,noatime 0 0") * 2
    other = "{} {}x xfs nosuid 0 0\n".format(*map(escaped, (device, target)))
    assert re.sub(change["regexp"], change["replace"], other, flags=re.MULTILINE) == other


@given(target=paths, device=st.one_of(paths, nasty))
@quickly
def test_user_data_has_the_mount_as_it_is_or_not_at_all(target, device):
    change = mounted(target=target, device=device)
    for renderer, read in ((cloud_init, yaml.safe_load), (launch_template, readers.user_data_of)):
        document = read(text_of(renderer, change))
        for row in document.pop("mounts", []):
            assert row[:2] == [device, target]
            # as cloud-init writes them, without any escaping
            assert readers.fstab("\t".join(row)) == [row]
        assert document == {k: v for k, v in EXPECTED[renderer.render].items() if k != "mounts"}


@given(
    words=st.lists(st.one_of(visible, nasty, st.sampled_from(["nofail", "x-a=/b"])), max_size=3),
    source=st.one_of(paths, nasty),
)
@quickly
def test_a_users_fstab_line_reads_back_or_nothing_is_written(words, source):
    change = mounted(fstab=FstabLine(source, "xfs", tuple(words)))
    text = rendered(fstab, change)
    if text is not None:
        [fields] = readers.fstab(text)
        kept = [word for word in words if word != "relatime"]
        assert fields[0] == source and fields[3].split(",") == list(
            dict.fromkeys([*kept, "noatime"])
        )
        assert "suid" not in fields[3].split(",")


@given(words=st.lists(st.one_of(visible, st.sampled_from(["noatime", "x=1"])), max_size=3))
@quickly
def test_mount_options_read_back_to_those_asked_for(words):
    text = rendered(fstab, mounted(words=words))
    if text is not None:
        [fields] = readers.fstab(text)
        assert fields[3].split(",") == list(dict.fromkeys(["nosuid", *words]))


@given(name=nasty, serial=nasty, wwid=nasty)
@quickly
def test_a_disk_with_any_name_adds_nothing_to_a_rule(name, serial, wwid):
    disk = {"name": name, "serial": serial, "wwid": wwid, "device": "/dev/nvme1n1"}
    changed = EVERYTHING.disk.__class__(**{**vars(EVERYTHING.disk), **disk})
    change = EVERYTHING.__class__(**{**vars(EVERYTHING), "disk": changed})
    text = rendered(udev, change)
    for rule, expected in zip(readers.udev(text or ""), EXPECTED[udev.render]):
        assert rule[:3] + rule[4:] == expected[:3] + expected[4:]
        assert rule[3][2] in (name, serial, wwid, "nvme1n1")


@given(change=with_descriptive_text(), target=nasty, device=nasty)
@quickly
def test_any_recommendation_results_only_in_snippets(change, target, device):
    mount = mounted(target=target, device=device).mount
    whole = change.__class__(**{**vars(change), "mount": mount})
    for each in EVERY_FILE:
        with contextlib.suppress(InexpressibleError):
            for snippet in each.render(whole):
                assert snippet.text.encode()
                assert "/" not in snippet.file_name and len(snippet.file_name) < 256
