# SPDX-License-Identifier: Apache-2.0
"""Pytest is ended at random moments of the root tests, and the host is as before.

SIGINT, SIGTERM and SIGKILL go to pytest alone or to its whole process group. Each session runs some
tests in a random order; two of three sessions run only those that change most of the host. Six
sessions are killed; WRITEWISE_SUITE_KILLS=100 kills 100.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.places import REPOSITORY
from tests.root.hosts import SLOWNESS
from tests.root.sessions import child

KILLS = int(os.environ.get("WRITEWISE_SUITE_KILLS", "6"))
SEED = int(os.environ.get("WRITEWISE_KILL_SEED", "5"))
NUMBERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
#: A session runs so many tests, and is killed so many seconds after the first began.
TESTS, LONGEST_S = 12, 6 * SLOWNESS
#: Modules whose tests change most of the host.
CHANGING = ("apply", "failing_hosts", "failing_volumes", "host", "host_devices", "lab", "sweep")
#: These start sessions themselves.
_NOT_THESE = ("tests/root/test_suite_kills.py", "tests/root/test_guard.py")


@pytest.fixture(scope="module")
def tests() -> list[str]:
    """Return the names of all root tests."""
    words = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/root"]
    done = subprocess.run(
        [sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    names = [line for line in done.stdout.splitlines() if "::" in line]
    return [name for name in names if not name.startswith(_NOT_THESE)]


def test_the_suite_killed_at_random_moments_leaves_nothing(
    tests: list[str], tmp_path: Path
) -> None:
    chance, held = random.Random(SEED), Counter[str]()
    changing = [name for name in tests if name.startswith(tuple(map(_file, CHANGING)))]
    ways = itertools.cycle(itertools.product((False, True), NUMBERS))
    for kill in range(KILLS):
        is_group, number = next(ways)
        chosen = chance.sample(chance.choice((tests, changing, changing)), TESTS)
        after_s = chance.uniform(0, LONGEST_S)
        made = killed_session(tmp_path / f"{kill}.log", chosen, number, after_s, is_group)
        held.update({each.partition(":")[0] for each in made})
    print(f"{KILLS} kills of seed {SEED}; what there was to take back: {dict(held)}")
    assert held, "at no kill there was anything to take back"


def killed_session(
    log: Path, tests: list[str], number: signal.Signals, after_s: float, is_group: bool
) -> list[str]:
    """Kill a session that runs these tests; return in words what it had changed by then."""
    with child(log, *tests) as session:
        session.wait_until_it_runs_tests()
        try:
            session.process.wait(after_s)
        except subprocess.TimeoutExpired:
            made = session.made()
            (os.killpg if is_group else os.kill)(session.process.pid, number)
        else:
            made = []  # it ended before
        left = session.left()
    whom = "its process group" if is_group else "pytest alone"
    last = [line for line in session.said().splitlines() if line.startswith("tests/root/")][-1:]
    print(f"{number.name} of {whom} after {after_s:.2f} s: {len(made)} changes, in {last}")
    assert left == [], session.said()[-2000:]
    return made


def _file(module: str) -> str:
    return f"tests/root/test_{module}.py"
