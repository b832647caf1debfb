# SPDX-License-Identifier: Apache-2.0
"""The service of a canary in the how-to page: systemd accepts it, and so does `study join`."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from profiler.cli.main import build_parser
from tests.shared_study_page import NAME, PROGRAM, shown_unit

UNIT = shown_unit()


def words_of(name):
    """Return the words of the program that a line of the unit runs."""
    [line] = re.findall(rf"^{name}=(.*)$", UNIT.replace("\\\n", ""), re.MULTILINE)
    program, *words = shlex.split(line)
    assert program == PROGRAM
    return words


def test_its_commands_parse():
    joined = build_parser().parse_args(words_of("ExecStart"))
    assert joined.ledger.startswith("postgresql://writewise_node@")
    assert (joined.source, str(joined.destination)) == ("s3://BUCKET/PREFIX", "/data")
    assert build_parser().parse_args(words_of("ExecStopPost")).interrupted


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_it(tmp_path):
    program = tmp_path / "writewise"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / NAME
    for text, is_right in ((UNIT, True), (UNIT.replace("Type=exec", "Type=executed"), False)):
        unit.write_text(text.replace(PROGRAM, str(program)))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
        )
        assert (NAME in done.stderr) != is_right, done.stderr
