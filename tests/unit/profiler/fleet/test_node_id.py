# SPDX-License-Identifier: Apache-2.0
"""The random name of a node: kept, not copied with an image, and never the name of a host."""

from __future__ import annotations

import os
import subprocess
import uuid

import pytest

from contracts.shared.errors import WritewiseError
from profiler.fleet.node_id import kept_node_id, node_id
from sysctl.host.system import System
from sysctl.rollout.engines.node_name import node_name_lines
from sysctl.rollout.marker import NODE_FILE, NODE_MACHINE_FILE


@pytest.fixture
def state(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(folder))
    return folder


def machine(tmp_path, number):
    path = tmp_path / f"host-{number}/sys/class/dmi/id/product_uuid"
    path.parent.mkdir(parents=True)
    path.write_text(f"{number}\n")
    return System(tmp_path / f"host-{number}")


def test_a_node_keeps_its_name(tmp_path, state):
    system = machine(tmp_path, "ec2-1")
    first = node_id(system)
    assert str(uuid.UUID(first)) == first == node_id(system)
    assert "ec2-1" not in "".join(path.read_text() for path in state.iterdir())


def test_a_node_from_an_image_of_another_gets_its_own(tmp_path, state):
    first, clone = machine(tmp_path, "ec2-1"), machine(tmp_path, "ec2-2")
    name = node_id(first)
    other = node_id(clone)
    assert other != name
    assert node_id(clone) == other


def test_a_look_at_the_name_makes_none(tmp_path, state):
    first, clone = machine(tmp_path, "ec2-1"), machine(tmp_path, "ec2-2")
    assert kept_node_id(first) is None
    assert list(state.iterdir()) == []
    name = node_id(first)
    assert kept_node_id(first) == name
    assert kept_node_id(clone) is None, "a clone gets another name"
    assert node_id(first) == name


def made_by_an_engine(state):
    """Run the shell of a roll-out's engine on this host; return the node's name."""
    text = "\n".join(["set -eu", 'state="$1"', *node_name_lines(), 'echo "$node"'])
    words = ["sh", "-c", text, "sh", str(state)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_the_name_that_a_roll_out_made_is_used(state):
    made = made_by_an_engine(state)
    kept = {path.name: path.read_text() for path in state.iterdir()}
    assert set(kept) == {NODE_FILE, NODE_MACHINE_FILE}
    assert node_id(System()) == made
    assert {path.name: path.read_text() for path in state.iterdir()} == kept


def test_a_roll_out_uses_the_name_of_the_records(state):
    made = node_id(System())
    kept = {path.name: path.read_text() for path in state.iterdir()}
    assert made_by_an_engine(state) == made
    assert {path.name: path.read_text() for path in state.iterdir()} == kept


def test_a_name_without_a_machine_is_tied_to_this_one(tmp_path, state):
    made = str(uuid.uuid4())
    (state / NODE_FILE).write_text(f"{made}\n")
    system = machine(tmp_path, "ec2-1")
    assert node_id(system) == made == node_id(system)
    assert (state / NODE_MACHINE_FILE).exists()


def test_a_host_without_a_number_keeps_its_name_too(tmp_path, state):
    system = System(tmp_path / "nothing")
    assert node_id(system) == node_id(system)


@pytest.mark.parametrize(
    "text",
    ["web-17.example.com", "../../etc", "x" * 5000, "11111111-2222-4333-8444-AAAAAAAAAAAA"],
    ids=("host", "path", "long", "upper case"),
)
def test_a_name_that_is_no_uuid_is_refused(tmp_path, state, text):
    (state / NODE_FILE).write_text(text)
    with pytest.raises(WritewiseError) as error:
        node_id(System(tmp_path))
    assert "delete it" in error.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away: run it as root")
def test_a_name_of_somebody_else_is_not_trusted(tmp_path, state):
    (state / NODE_FILE).write_text(f"{uuid.uuid4()}\n")
    os.chown(state / NODE_FILE, 12345, 12345)
    with pytest.raises(WritewiseError):
        node_id(System(tmp_path))
