# SPDX-License-Identifier: Apache-2.0
"""The exit codes, the same in every command; the docs' table is generated from `TABLE`."""

from __future__ import annotations

from typing import NamedTuple

SUCCESS = 0
FAILURE = 1
USAGE = 2
REQUIREMENT = 3
UNDETERMINED = 4
STOOD_DOWN = 5
GATE_WAIT, GATE_STOP, GATE_REVERT = 10, 11, 12
OWN_FAILURE = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
#: Plus the signal's number, as shells have it.
SIGNALLED = 128
INTERRUPTED = 130


class ExitCode(NamedTuple):
    """A code, or a range of codes, and when a command ends with it."""

    code: str
    meaning: str


TABLE = (
    ExitCode("0", "the command did what was asked; with `-- COMMAND`: what COMMAND returned"),
    ExitCode(
        "1",
        "the command failed, or its answer is no: `verify`: a setting is not in force; `apply`: "
        "not confirmed; `compare`: not comparable; `pull`: an object is missing or damaged; "
        "`bench-clients`: a client failed; `lab status`: the lab is down",
    ),
    ExitCode("2", "an argument, an option or an input file is wrong; nothing was done"),
    ExitCode("3", "the host lacks a requirement, which `writewise doctor` explains"),
    ExitCode("4", "`verify`: whether the settings are in force cannot be determined"),
    ExitCode("5", "`govern`: another program changed a threshold, so it stood down"),
    ExitCode("10", "`rollout gate`: wait; 0 is go on"),
    ExitCode("11", "`rollout gate`: stop, because a person has to decide"),
    ExitCode("12", "`rollout gate`: revert"),
    ExitCode("125", "`profile`, `run -- COMMAND`: Writewise itself failed, whatever the reason"),
    ExitCode("126", "`-- COMMAND`: COMMAND is not executable"),
    ExitCode("127", "`-- COMMAND`: COMMAND was not found"),
    ExitCode("128 + N", "signal N ended Writewise or, with `-- COMMAND`, COMMAND; 130 is Ctrl-C"),
)
