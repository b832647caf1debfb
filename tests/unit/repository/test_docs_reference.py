# SPDX-License-Identifier: Apache-2.0
"""The generated pages of docs/reference are current, and their data is that of the source."""

from __future__ import annotations

import re

import boto3
import pytest

from profiler.cli import commands
from profiler.pull.permissions import PERMISSIONS
from tests.places import REPOSITORY
from tools.docs import environment, iam
from tools.docs.commands import all_commands
from tools.docs.pages import REFERENCE, pages

SOURCES = {
    path: path.read_text()
    for package in ("contracts", "sysctl", "profiler")
    for path in (REPOSITORY / package).rglob("*.py")
}
PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name):
    assert (REFERENCE / name).read_text() == PAGES[name], "run `make docs`"


def test_every_command_and_option_is_there():
    text = PAGES["commands.md"]
    names = {command.NAME for command in commands.ALL}
    assert {each.words[0] for each in all_commands() if each.words} == {*names, "help"}
    for command in all_commands()[1:]:
        section = text.split(f" {command.name}\n", 1)[1].partition("\n#")[0]
        for action in command.actions:
            assert all(option in section for option in action.option_strings), command.name


def test_every_variable_that_is_read_is_named():
    read = re.compile(r"environ(?:ment)?(?:\.get\(|\[)\s*\"([A-Z_]+)\"|\"(WRITEWISE_[A-Z_]+)\"")
    found = {one or other for text in SOURCES.values() for one, other in read.findall(text)}
    named = {name for each in (*environment.OWN, *environment.OF_OTHERS) for name in each.names}
    assert {"WRITEWISE_TRACEBACK", "WRITEWISE_JOB_ID", "TERM"} <= found
    assert found - named - set(environment.INTERNAL) == set()


def test_every_operation_of_s3_has_its_permission():
    client = boto3.client("s3", region_name="eu-west-1")
    names = client.meta.method_to_api_mapping
    call = re.compile(r"\.(\w+)\(|get_paginator\(\"(\w+)\"\)")
    pull = [text for path, text in SOURCES.items() if "pull" in path.parts]
    used = {one or other for text in pull for one, other in call.findall(text)} & set(names)
    assert used - {"copy", "close"} == {"get_object", "head_object", "list_objects_v2"}
    allowed = {operation for each in PERMISSIONS for operation in each.operations}
    assert {names[each] for each in used} <= allowed


def test_the_commands_that_reach_s3_are_named():
    assert "`writewise pull`, `writewise sweep`" in iam.page()
    assert "`writewise advise`" not in iam.page()


@pytest.mark.parametrize(
    "option",
    [
        "`--record s3://BUCKET/PREFIX` of `pull` and `watch`",
        "`study join --results s3://BUCKET/PREFIX`",
    ],
)
def test_what_writes_to_a_bucket_has_its_own_part(option):
    assert f"{option} needs `s3:PutObject`" in iam.page()
