# SPDX-License-Identifier: Apache-2.0
"""Files that are not contracts get one clear sentence; none of them blocks or fills memory."""

from __future__ import annotations

import os
import socket

import pytest

from contracts.loading import MAX_FILE_BYTES, load_contract, load_contract_of_calls, syntax_of
from contracts.shared.errors import InvalidFileError, UsageError


def refusal(path) -> str:
    with pytest.raises(UsageError) as raised:
        load_contract(str(path))
    assert not isinstance(raised.value, InvalidFileError)
    assert raised.value.hint
    return raised.value.message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b" \n\t\r\n", "is empty"),
        (b"\x7fELF\0\0", "is a binary file, not a contract file"),
        ("2,monitortimeframe,1s".encode("utf-16"), "is a binary file, not a contract file"),
        (b"2,monitortimeframe,1s\n\xff", "is not UTF-8 text: byte 0xff at offset 22"),
    ],
)
def test_a_file_that_is_not_text_is_named(tmp_path, content, reason):
    path = tmp_path / "contract"
    path.write_bytes(content)
    assert refusal(path).startswith(f"{path} {reason}")


def test_a_path_that_is_not_a_file_is_named(tmp_path):
    pipe, unix = tmp_path / "pipe", tmp_path / "socket"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(unix))
        assert refusal(pipe) == f"{pipe} is a pipe, not a contract file"
        assert refusal(unix) == f"{unix} is a socket, not a contract file"
        assert refusal(tmp_path) == f"{tmp_path} is a directory, not a contract file"
        assert refusal("/dev/zero") == "/dev/zero is a device, not a contract file"


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    missing, loop = tmp_path / "missing", tmp_path / "loop"
    loop.symlink_to(loop)
    assert refusal(missing) == f"cannot read the contract {missing}: No such file or directory"
    assert "Too many levels of symbolic links" in refusal(loop)
    assert "File name too long" in refusal("x" * 300)
    assert refusal("\x1b[2J").startswith(r"cannot read the contract \x1b[2J: ")


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 1 << 40)  # sparse: reading it whole would not end
    assert refusal(path) == f"{path} is larger than 1 MiB, the limit for a contract file"


def test_a_file_of_the_largest_size_is_read(tmp_path):
    path = tmp_path / "padded"
    contract = b"2,monitortimeframe,1s\na,/,write,all,count,1\n"
    path.write_bytes(contract + b"\n" * (MAX_FILE_BYTES - len(contract)))
    assert len(load_contract(str(path)).rules) == 1
    with path.open("ab") as file:
        file.write(b"\n")
    assert "larger than 1 MiB" in refusal(path)


@pytest.mark.parametrize(
    ("path", "text", "syntax"),
    [
        ("x.yaml", "2,monitortimeframe,1s", "yaml"),
        ("x.YML", "", "yaml"),
        ("x.mistral", "timeframe: 1s", "mistral"),
        ("x.txt", "# a: comment\n\n2,monitortimeframe,1s", "mistral"),
        ("x", "timeframe: 1s", "yaml"),
        ("x", "---\ntimeframe: 1s", "yaml"),
        ("x", '{"timeframe": "1s"}', "yaml"),
        ("x", "garbage", "mistral"),
    ],
)
def test_the_syntax_is_chosen_by_suffix_then_by_content(path, text, syntax):
    assert syntax_of(path, text) == syntax


def test_a_command_that_measures_only_calls_refuses_rules_of_resources(tmp_path):
    path = tmp_path / "memory.mistral"
    path.write_text("2,monitortimeframe,1s\nmuch,/,none,all,memory,1GB\n")
    assert load_contract(str(path)).rules[0].slot is None
    with pytest.raises(UsageError, match="the rule much measures memory"):
        load_contract_of_calls(str(path))
    assert load_contract_of_calls(None) == load_contract(None)
