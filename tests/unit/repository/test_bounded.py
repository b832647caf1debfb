# SPDX-License-Identifier: Apache-2.0
"""Hostile files that take time or memory are refused within seconds and within the limits.

Each is read in a process whose CPU time and memory the kernel limits.
"""

from __future__ import annotations

import io
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import psutil
import pytest

from contracts.shared.errors import UsageError
from profiler.cli.main import main
from profiler.report.conclusions import verdict_text
from sysctl.advice.advise import advise
from sysctl.evidence.results import MAX_TRIALS, RECHECK, load
from sysctl.knobs.setting import Setting
from tests.unit.studies import Study, ratio

KIB, MIB, GIB = 2**10, 2**20, 2**30
CPU_LIMIT_S = 30
#: It took 1 s at most, and half a minute when each setting was looked for in all trials.
ADVICE_LIMIT_S = 5
MEMORY_LIMIT_BYTES = 2048 * MIB
SIZE = 512 * KIB
HEAD = "2,monitortimeframe,1000s\n"
RULE = "- label: a\n  path: /\n  calls: write\n  measure: count\n  threshold: 1\n"

CONTRACTS = {
    "commas": HEAD + "," * SIZE,
    "lines": HEAD + "a,b,c\n" * (SIZE // 6),
    "digits": f"{HEAD}l,/,write,{'9' * SIZE},count,1\n",
    "climbing": f"{HEAD}l,/{'../' * (SIZE // 3)},write,all,count,1\n",
    "types": f"{HEAD}l,/,{'write+' * (SIZE // 6)},all,count,1\n",
    "backslashes": HEAD + "\\" * SIZE,
    "lists in lists": "- " * (SIZE // 2),
    "brackets": "[" * SIZE,
    "questions": "? " * (SIZE // 2),
    "keys": "".join(f"k{number}: 1\n" for number in range(SIZE // 10)),
    "anchors": "".join(f"- &a{number} x\n" for number in range(SIZE // 12)),
    "aliases": "a: &a x\nb: [" + "*a," * (SIZE // 3) + "]",
    "laughs": "a0: &a0 x\n"
    + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 1000)),
    "documents": "---\n" * (SIZE // 4),
    "words": "a " * (SIZE // 2),
    "folded": "a: >\n" + " \n" * (SIZE // 2),
    "escapes": '"' + "\\x41" * (SIZE // 4) + '"',
    "rules": "timeframe: 1000s\nrules:\n" + RULE * (SIZE // len(RULE)),
    "indented": "".join(" " * depth + "a:\n" for depth in range(1000)),
}
RESULTS = {
    "lists": "[" + "[]," * (32 * MIB // 3 - 2) + "[]]",
    "brackets": "[" * (32 * MIB),
    "a number": '{"format": ' + "9" * (8 * MIB) + "}",
    "numbers": "[" + "1000," * (32 * MIB // 5 - 2) + "1]",
}


def limited() -> None:
    """Limit this process to so much CPU time, and to so much memory beyond what it has."""
    memory_bytes = psutil.Process().memory_info().vms + MEMORY_LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def run_limited(arguments: Sequence[str], said: IO[str]) -> int:
    """Run the command in a fork of this process: to start Python anew takes longer than the rest.

    Return its exit code, negative for a signal; `said` gets its stderr.
    """
    pid = os.fork()
    if not pid:
        code = 1
        try:
            sys.stdout, sys.stderr = io.StringIO(), said
            limited()
            code = main(arguments)
            said.flush()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refusal(*arguments: object) -> str:
    """Run the command under the limits; what it said, checked to be a sentence and a remedy."""
    with tempfile.TemporaryFile("w+") as said:
        code = run_limited([*map(str, arguments)], said)
        said.seek(0)
        text = said.read()
    assert code == 2, (code, text[-2000:])
    assert text.startswith("writewise: ")
    assert "Traceback" not in text
    assert len(text) < 20 * KIB
    return text


@pytest.mark.parametrize("text", CONTRACTS.values(), ids=CONTRACTS)
@pytest.mark.parametrize("suffix", ["yaml", "mistral"])
def test_a_contract_is_read_in_bounded_time_and_memory(tmp_path, text: str, suffix: str) -> None:
    path = tmp_path / f"contract.{suffix}"
    path.write_text(text)
    refusal("contract", "check", path)


@pytest.mark.parametrize("text", RESULTS.values(), ids=RESULTS)
def test_results_are_read_in_bounded_time_and_memory(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    refusal("advise", path)


@pytest.mark.parametrize("mount_options", [None, "noatime"])
@pytest.mark.parametrize("is_rechecked", [True, False])
def test_advice_of_thousands_of_settings_takes_bounded_time(
    mount_options: str | None, is_rechecked: bool
) -> None:
    study = Study()
    for at in range(3000):
        options = mount_options if at % 2 else None
        pairs = (("vm.dirty_bytes", GIB + at // 2 * 4096), ("vm.dirty_background_bytes", MIB))
        study.candidate(Setting(pairs, options, (("queue/nr_requests", str(64 + at)),)), 5.0)
    if is_rechecked:
        study.recheck(study.results.trials[2].setting, [5.0, 5.1, 5.05])
    started_s = time.process_time()
    assert advise(study.results).trade_off.points
    assert time.process_time() - started_s < ADVICE_LIMIT_S


@pytest.mark.parametrize("mount_options", [None, "noatime"])
def test_advice_of_hundreds_of_settings_in_pairs_takes_bounded_time(
    mount_options: str | None,
) -> None:
    """All of them in one block of extras, and each in blocks with the present settings."""
    study, settings = Study(), [ratio(60)]
    settings += [
        Setting(ratio(60).sysctls, None, (("queue/nr_requests", str(64 + at)),))
        for at in range(500)
    ]
    for setting in settings:
        study.add(RECHECK, setting, 4.5, -1)
    for setting in settings:
        study.recheck(replace(setting, mount_options=mount_options), [5.0, 5.1])
    started_s = time.process_time()
    assert verdict_text(advise(study.results))
    assert time.process_time() - started_s < ADVICE_LIMIT_S


def test_results_of_more_trials_than_a_sweep_has_are_refused(tmp_path: Path) -> None:
    study = Study()
    study.results.trials *= MAX_TRIALS // 2
    study.results.save(tmp_path / "results.json")
    assert len(load(tmp_path / "results.json").trials) == MAX_TRIALS
    study.candidate(ratio(80), 5.0).results.save(tmp_path / "results.json")
    with pytest.raises(UsageError, match="10001 trials, more than 10000"):
        load(tmp_path / "results.json")


@pytest.mark.parametrize("command", [["contract", "check"], ["advise"], ["verify"], ["apply"]])
def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 2**40)
    assert "is larger than " in refusal(*command, path)
