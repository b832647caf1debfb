# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at any instant of a real sweep, and of the rollback after it: nothing is left behind.

The sweep changes sysctls, mount options (by remount and by fresh mount) and a knob of the disk on a
lab of its own. Some kills fall at random instants of the whole run, the others into the phase that
was hit least so far. After each kill the next start, `rollback` or a sweep, restores the host.
The test goes on until every phase was hit, about a minute. WRITEWISE_KILLS=200 makes 200 kills. On
emulated CPUs one kill in each phase is enough.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from profiler.lab import lab
from sysctl.host import devices
from sysctl.host.mount_table import mount_at
from sysctl.knobs.vm import DIRTY_PAIR
from tests.root.hosts import SLOWNESS, is_emulated
from tests.root.kills import Phase, Watcher, kill_at, kill_in
from tests.root.labs import (
    MIB,
    SMALL,
    SYSTEM,
    command,
    endpoint_arguments,
    guarded,
    host_state,
    wait_until,
    writewise,
)

KILLS = int(os.environ.get("WRITEWISE_KILLS", "1" if is_emulated() else "15"))
#: A phase that was not hit by then never will be.
LONGEST_S = (150 + 10 * KILLS) * SLOWNESS
SEED = int(os.environ.get("WRITEWISE_KILL_SEED", "5"))
QUICK = replace(SMALL, object_count=4, object_bytes=MIB)
SETTINGS = (
    *("--dirty-ratio", "61", "--nr-requests", "64"),
    *("--mount-options", "noatime", "--mount-options", "logbsize=256k"),
)
#: The phases that must be hit; END means that the kill came too late.
PHASES = [phase for phase in Phase if phase is not Phase.END]
_LONGEST_ROLLBACK_S = 0.5 * SLOWNESS


@dataclass(frozen=True)
class Place:
    """A lab, the state directory that it shares with the sweeps, and their results file."""

    lab: lab.Lab
    state: Path
    folder: Path

    @property
    def output(self) -> Path:
        return self.folder / "results.json"

    def sweep(self, *options: object) -> list[str]:
        """Return the words of a sweep with these options; one worker starts sooner than two."""
        source = (self.lab.source, self.lab.destination, *endpoint_arguments(self.lab))
        return command("sweep", *source, "--workers", 1, "--output", self.output, *options)

    def all_there_is(self) -> dict[str, Any]:
        """Return all that a sweep changes, and the files that it makes."""
        mount = mount_at(SYSTEM.mounts(), self.lab.destination)
        disk = devices.disk_of(SYSTEM, mount) if mount else None
        return {
            **host_state(),
            "knobs": disk and devices.kept_values(SYSTEM, disk),
            "files": sorted(path.name for path in Path(self.lab.destination).iterdir()),
            "state": sorted(p.name for p in self.state.iterdir() if p.suffix != ".lock"),
        }


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    with guarded(tmp_path) as state, lab.running(QUICK) as made:
        yield Place(made, state, tmp_path)


def test_sigkill_at_any_instant_leaves_nothing_after_the_next_start(place):
    chance, killed = random.Random(SEED), 0
    hit: Counter[Phase] = Counter()
    before, whole_s = place.all_there_is(), length_of_a_sweep(place)
    deadline_s = time.monotonic() + LONGEST_S
    while killed < KILLS or never(hit):
        assert time.monotonic() < deadline_s, f"{killed} kills, none in {never(hit)}"
        phase = killed_sweep(place, chance, hit, whole_s)
        if chance.random() < 0.2:
            kill_a_rollback(chance)
        start_again(place, chance, before["sysctls"])
        hint = f"kill {killed} of seed {SEED}, in phase {phase}"
        wait_until(lambda: place.all_there_is() == before, 20)
        assert place.all_there_is() == before, hint
        hit[phase] += 1
        killed += phase is not None
    print(f"{killed} kills:", ", ".join(f"{p.name} {hit[p]}" for p in Phase))


def never(hit: Counter) -> list[Phase]:
    """Return the phases that no kill has hit."""
    return [phase for phase in PHASES if not hit[phase]]


def length_of_a_sweep(place: Place) -> float:
    """Time a sweep that is not killed, in seconds: it tries everything, and no trial fails."""
    begun_s = time.monotonic()
    done = subprocess.run(
        place.sweep(*SETTINGS), capture_output=True, text=True, timeout=120 * SLOWNESS
    )
    assert done.returncode == 0, done.stderr
    # a trial that another program disturbed is repeated
    failed = [line for line in done.stderr.splitlines() if "invalid: " in line]
    assert [line for line in failed if "other programs" not in line] == [], done.stderr
    assert "left out" not in done.stderr, done.stderr
    return time.monotonic() - begun_s


def killed_sweep(place: Place, chance: random.Random, hit: Counter, whole_s: float) -> Phase | None:
    """Kill a sweep at a random instant of the whole, or in the phase that was hit least."""
    place.output.unlink(missing_ok=True)
    words, null = place.sweep(*SETTINGS), subprocess.DEVNULL
    process = subprocess.Popen(words, stdout=null, stderr=null)
    watcher = Watcher(place.state, place.output)
    if chance.random() < 0.3:
        return kill_at(process, chance.uniform(0, whole_s), watcher)
    rarest = min(PHASES, key=lambda phase: (hit[phase], chance.random()))
    return kill_in(process, {rarest}, chance.choice((0, chance.uniform(0, 0.05))), watcher)


def kill_a_rollback(chance: random.Random) -> None:
    """The recovery can be killed as well."""
    with subprocess.Popen(command("rollback"), stdout=subprocess.DEVNULL) as process:
        try:
            process.wait(chance.uniform(0, _LONGEST_ROLLBACK_S))
        except subprocess.TimeoutExpired:
            process.kill()


def start_again(place: Place, chance: random.Random, present: dict[str, int]) -> None:
    """Do what a user does next: a rollback, or a sweep of `present`, which has nothing to try."""
    if chance.random() < 0.8:
        done = writewise("rollback")
        assert done.returncode == 0, done.stderr
        return
    place.output.unlink(missing_ok=True)
    name = next(name for name in DIRTY_PAIR if name in present)
    flag = "--" + name.partition(".")[2].replace("_", "-")
    words = place.sweep(flag, present[name])
    done = subprocess.run(words, capture_output=True, text=True, timeout=60 * SLOWNESS)
    assert done.returncode == 2, done.stderr
    assert "there is nothing to try: these are the current settings" in done.stderr
