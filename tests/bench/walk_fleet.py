# SPDX-License-Identifier: Apache-2.0
"""What a fleet owner does, on one machine, with the real commands wherever there is one.

A PostgreSQL of its own. A class whose nodes are of two kinds: eight canaries share a study of it
and are killed at random; `study advise` has to refuse the class, and to name the nodes of each
kind. A study of each kind, whose canaries are killed, too. The merge of many records and the report
on them. A roll-out of what the first kind gained, by Ansible to hosts that are folders: the first
stage goes on, the second one harms, and everything is reverted.

    python -m tests.bench.walk_fleet FOLDER [--records N] [--hosts N] [--seconds S] [--seed N]

The canaries are processes with the real worker, ledger, store and journal; what they measure is
made up (`tests.postgresql.node`), and each trial takes S seconds. Nothing of this host changes. It
needs PostgreSQL's programs, ansible-core and the extras `study` and `fleet`. The exit code is 1
if something does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from profiler.fleet.record import IN_FORCE, NOT_APPLIED, FleetRecord, RolloutArm
from profiler.fleet.writing import name_of
from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger
from sysctl.fleet.class_advice import Objections
from sysctl.fleet.kinds import NodeKind
from sysctl.rollout.arms import CONTROL, TREATED, WAITING, arm_of
from sysctl.rollout.engines import ansible
from sysctl.rollout.plan import RolloutPlan
from sysctl.rollout.plan_file import parse_plan
from tests.bench.bench_fleet import fill
from tests.bench.figures import this_host
from tests.bench.walking import Walk
from tests.postgresql.forked_fleet import ForkedFleet
from tests.postgresql.node import KINDS, SLOWER, WAITS
from tests.postgresql.server import Server, running
from tests.unit.ansible_hosts import AnsibleHosts
from tests.unit.fleet_records import CLASS, GIB, MIB, MadeClass, in_rollout, made_record
from tests.unit.rollouts import node_names

RECORDS, HOSTS, TRIAL_S, SEED = 100_000, 40, 0.5, 22
WORKERS = 8
WAITING_STUDY = "images-waits"
#: A node that lost three blocks takes no more, so each is killed twice.
KILLS_OF_EACH = 2
CLASS_KEY = str(CLASS)
#: What `study advise` has to find on the nodes of each simulated kind.
FOUND_AS = {WAITS: NodeKind.GAINS.value, SLOWER: NodeKind.NO_GAIN.value}
assert FOUND_AS.keys() == KINDS.keys()
#: The kernel's own values, which the study compares with.
NOW = {
    "vm.dirty_ratio": "20",
    "vm.dirty_bytes": "0",
    "vm.dirty_background_ratio": "10",
    "vm.dirty_background_bytes": "0",
}
#: The pulls of the first kind: 8 GiB onto a volume of 125 MiB/s.
PULLED = MadeClass(CLASS, 8 * GIB, 16 * GIB, 600e6, 125 * MIB)
#: In the second stage a pull takes so many times as long as before the roll-out.
HARM = 2.0
GO_ON, REVERT = 0, 12


@dataclass(frozen=True)
class Kills:
    """How many SIGKILLs there were, and how many of them met a host under changed settings."""

    count: int
    of_changed: int

    def __add__(self, other: Kills) -> Kills:
        return Kills(self.count + other.count, self.of_changed + other.of_changed)


def kill_at_random(fleet: ForkedFleet, draw: random.Random, seconds: float) -> Kills:
    """Kill nodes while they work, and start each again, until every one has had its kills."""
    left = Counter(dict.fromkeys(fleet.forked, KILLS_OF_EACH))
    count = of_changed = 0
    while True:
        time.sleep(seconds * draw.uniform(0.5, 2))
        able = [node for node in left if left[node] and fleet.is_running(node)]
        if not able:
            return Kills(count, of_changed)
        node = draw.choice(able)
        fleet.kill(node)
        count, of_changed = count + 1, of_changed + fleet.is_changed(node)
        left[node] -= 1
        fleet.start(node)


class Studies:
    """Studies of one class on a ledger; their canaries are simulated, and killed."""

    def __init__(self, walk: Walk, server: Server, seconds: float, draw: random.Random) -> None:
        self.walk, self.server, self.seconds, self.draw = walk, server, seconds, draw
        self.kills = Kills(0, 0)

    def study(self, name: str, kinds: Mapping[str, str], *of_kind: str) -> dict[str, Any]:
        """Make a study, let the canaries do it, and return the advice."""
        words = (self.server.url(), "--study", name)
        self.walk.command("study", "create", *words, "--class", CLASS_KEY, *of_kind)
        self._work(name, kinds)
        self.walk.command("study", "status", *words)
        files = ("--max-at-risk", "6GiB", "--output-dir", name)
        self.walk.command("study", "advise", *words, *files, lines=40)
        advice = self.walk.document("study", "advise", *words)
        self.walk.check(f"{name}: the study is complete", True, advice["complete"])
        return advice

    def _work(self, name: str, kinds: Mapping[str, str]) -> None:
        ledger = Ledger(parse_address(self.server.url()), name)
        spec = ledger.spec()
        ledger.close()
        folder = self.walk.folder / "canaries" / name
        fleet = ForkedFleet(self.server, spec, folder, self.seconds, kinds, is_made=True)
        began_s = time.monotonic()
        try:
            for node in kinds:
                fleet.start(node)
            kills = kill_at_random(fleet, self.draw, self.seconds)
            fleet.wait()
            claims, told, wrong = fleet.ledger.records(), fleet.told(), fleet.problems()
        finally:
            fleet.end()
        self.walk.say(
            f"{len(kinds)} canaries joined. {kills.count} SIGKILLs, {kills.of_changed} of them "
            f"under changed settings. {len(claims)} claims, {len(told)} results, "
            f"{time.monotonic() - began_s:.0f} s."
        )
        self.walk.check_none(f"{name}: hosts left changed, results lost or doubled", wrong)
        self.kills += kills


def canaries(*kinds: str) -> dict[str, str]:
    """Return the names of canaries, and their kinds in turn."""
    return {f"canary-{at + 1}": kinds[at % len(kinds)] for at in range(WORKERS)}


def named_as_they_are(advice: Mapping[str, Any], kinds: Mapping[str, str]) -> bool:
    """Return whether each setting that is mixed names the nodes of each kind."""
    true = {node: FOUND_AS[kind] for node, kind in kinds.items()}
    mixed = [each for each in advice["settings"] if each["objection"] == Objections.MIXED.value]
    found = [{node: one["kind"] for node, one in each["by_node"].items()} for each in mixed]
    return bool(found) and all(each == true for each in found)


def study_the_class(studies: Studies) -> Path:
    """Study the mixed class, then each kind; return what is recommended to the first kind."""
    walk, kinds = studies.walk, canaries(WAITS, SLOWER)
    mixed = studies.study("images", kinds)
    walk.check("images: recommended for the mixed class", None, mixed["recommended"])
    walk.check("images: it says to split the class", True, "split it" in mixed["headline"])
    walk.check("images: the nodes of each kind are named", True, named_as_they_are(mixed, kinds))
    walk.check_none("images: files written", files_in(walk.folder / "images"))
    waits = studies.study(WAITING_STUDY, canaries(WAITS), "--kind", WAITS)
    walk.check("images-waits: a setting is recommended", True, bool(waits["recommended"]))
    written = set(files_in(walk.folder / WAITING_STUDY))
    wanted = {"recommendation.json", "90-writewise.conf"}
    walk.check("images-waits: its files are written", True, wanted <= written)
    slower = studies.study("images-slower", canaries(SLOWER), "--kind", SLOWER)
    walk.check("images-slower: recommended", None, slower["recommended"])
    said = slower["headline"].startswith("Change nothing on the class")
    walk.check("images-slower: it says to change nothing", True, said)
    walk.check_none("images-slower: files written", files_in(walk.folder / "images-slower"))
    kills = studies.kills
    walk.check(f"of {kills.count} kills some met changed settings", True, kills.of_changed > 0)
    return walk.folder / WAITING_STUDY / "recommendation.json"


def files_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder that may be missing."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def report_on_records(walk: Walk, count: int) -> None:
    """Merge that many records, of which 1 % are broken, and print the report."""
    source = walk.folder / "records"
    source.mkdir()
    broken = fill(source, count)
    ingested = walk.command("fleet", "ingest", "records", "tables", lines=6)
    reported = walk.command("fleet", "report", "tables", lines=16)
    lines = (walk.folder / "tables" / "broken.jsonl").read_text().splitlines()
    named = {json.loads(line)["file"] for line in lines}
    times = f"merged in {ingested.time_s:.1f} s, reported on in {reported.time_s:.1f} s"
    walk.say(f"{count} records: {times}")
    report = walk.document("fleet", "report", "tables")
    merged = sum(each["pulls"] for each in report["classes"])
    walk.check("records: broken ones, each named", len(broken), len(named & broken))
    walk.check("records: others that are named as broken", 0, len(named - broken))
    walk.check("records: merged", count - len(broken), merged)
    walk.check("records: it names classes to study first", True, bool(report["to_study"]))


class RollOut:
    """A roll-out of a recommendation to hosts that are folders, and what their nodes report."""

    def __init__(self, walk: Walk, recommendation: Path, count: int, draw: random.Random) -> None:
        self.walk, self._draw = walk, draw
        wanted = ("--nodes", count, "--stages", "25%,50%")
        file = recommendation.relative_to(walk.folder)
        walk.command("rollout", "plan", file, *wanted)
        rendered = ("--format", "ansible", "--output-dir", "hosts")
        walk.command("rollout", "render", "rollout.json", *rendered)
        self.plan = parse_plan((walk.folder / "rollout.json").read_text(), "rollout.json")
        seed = seed_of_arms(self.plan, count)
        self.hosts = AnsibleHosts(walk.folder / "hosts", count, self.plan, NOW, seed)

    def go(self) -> None:
        """Do both stages and the revert."""
        hosts, check = self.hosts, self.walk.check
        before = self.contents()
        self.play(ansible.FILE_NAME, "-e", "writewise_stage=1")
        check("stage 1: treated hosts are those of the plan", True, self.is_as_planned(1))
        self.report(1)
        self.gate(1, GO_ON)
        self.play(ansible.FILE_NAME, "-e", "writewise_stage=2")
        check("stage 2: treated hosts are those of the plan", True, self.is_as_planned(2))
        later = hosts.of_arm(WAITING, 2)
        self.report(2, HARM)
        self.gate(2, REVERT)
        touched = [name for name in later if hosts.content(name) != before[name]]
        self.walk.check_none(f"hosts of later stages ({len(later)}) that were touched", touched)
        self.play(ansible.REVERT_NAME)
        after = self.contents()
        changed = [name for name in before if after[name] != before[name]]
        self.walk.check_none("hosts left changed after the revert", changed)

    def contents(self) -> dict[str, dict[str, str]]:
        """Return every file of every host."""
        return {name: self.hosts.content(name) for name in self.hosts.nodes}

    def is_as_planned(self, stage: int) -> bool:
        """Return whether the hosts of the stage are treated, and no others."""
        return self.hosts.treated() == self.hosts.of_arm(TREATED, stage)

    def play(self, book: str, *words: str) -> None:
        """Run a playbook. Raises SystemExit if it fails."""
        inventory = ("-i", "hosts/inventory.ini", f"hosts/{book}")
        self.walk.show(["ansible-playbook", *inventory, *words])
        began_s = time.monotonic()
        done = self.hosts.play(book, *words)
        if done.returncode:
            raise SystemExit(done.stdout[-3000:] + done.stderr)
        took = f"[{time.monotonic() - began_s:.1f} s]"
        treated, count = len(self.hosts.treated()), len(self.hosts.nodes)
        self.walk.say(f"{treated} of {count} hosts are treated", took)

    def report(self, stage: int, harm: float | None = None) -> None:
        """Write a record of each node's pull under the settings that its host has now.

        With `harm` a pull of a treated node takes so many times as long as before the roll-out.
        """
        for name in self.hosts.nodes:
            record = self._record(name, harm)
            path = self.walk.folder / "reports" / name_of(record)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(record.packed())
        self.walk.say(f"each of {len(self.hosts.nodes)} nodes has pulled in stage {stage}")

    def _record(self, name: str, harm: float | None) -> FleetRecord:
        marker, values = self.hosts.marker(name), self.hosts.values(name)
        arm = RolloutArm(marker["id"], marker["stage"], marker["arm"]) if marker else None
        is_treated = marker is not None and marker["arm"] == TREATED
        is_harmed = is_treated and harm is not None
        in_force = {key: int(value) for key, value in values.items() if value != "0"}
        before = {key: int(value) for key, value in NOW.items() if value != "0"}
        made = made_record(PULLED, self._draw, 0, 20, before if is_harmed else in_force)
        return_s = made.pulls.return_ns / 1e9 * (harm if is_harmed else 1.0)
        is_set = values == self.hosts.treated_values
        verify = (IN_FORCE if is_set else NOT_APPLIED) if is_treated else None
        return in_rollout(made, self.hosts.nodes[name], arm, return_s, verify)

    def gate(self, stage: int, wanted: int) -> None:
        """Ask the gate, which has to answer with the exit code."""
        words = ("rollout", "gate", "rollout.json", "reports", "--stage", stage)
        done = self.walk.command(*words, lines=16, may_fail=True)
        self.walk.check(f"stage {stage}: exit code of the gate", wanted, done.code)


def seed_of_arms(plan: RolloutPlan, count: int) -> int:
    """Return a seed of names with which no arm is smaller than planned: few hosts may fall badly.

    In a fleet of thousands chance hardly matters; in one of 40 the gate would wait for more.
    """
    for seed in range(10_000):
        names = list(node_names(count, seed))
        arms = [Counter(arms_of(plan, names, each)) for each in (1, 2)]
        of_stages = all(
            found[TREATED] >= plan.stage(at).share * count for at, found in enumerate(arms, 1)
        )
        if of_stages and arms[0][CONTROL] >= plan.control * count and arms[1][WAITING]:
            return seed
    raise SystemExit(f"{count} hosts are too few for the stages")


def arms_of(plan: RolloutPlan, names: Sequence[str], stage: int) -> list[str]:
    """Return the arm of each node in a stage."""
    share = plan.stage(stage).share
    return [arm_of(name, plan.id, share, plan.control) for name in names]


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.walk_fleet")
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--seconds", type=float, default=TRIAL_S, help="of a trial")
    parser.add_argument("--seed", type=int, default=SEED)
    return parser.parse_args()


def main() -> int:
    """Walk, and print the table of what holds."""
    arguments = parsed()
    if not shutil.which("ansible-playbook"):
        raise SystemExit("ansible-playbook is missing: tools/setup test")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder, draw = arguments.folder.absolute(), random.Random(arguments.seed)
    if folder.exists():
        raise SystemExit(f"{folder} exists: name another folder")
    folder.mkdir(parents=True)
    began_s, load = time.monotonic(), os.getloadavg()[0]
    with running() as server:
        walk = Walk(folder, {server.url(): "$LEDGER"})
        walk.say("PostgreSQL runs; its address is $LEDGER")
        found = study_the_class(Studies(walk, server, arguments.seconds, draw))
    report_on_records(walk, arguments.records)
    RollOut(walk, found, arguments.hosts, draw).go()
    took_s = time.monotonic() - began_s
    walk.say(
        f"{arguments.records} records, {arguments.hosts} hosts: {took_s:.0f} s. {this_host()}; "
        f"load before and after: {load:.1f}, {os.getloadavg()[0]:.1f}"
    )
    return walk.end()


if __name__ == "__main__":
    sys.exit(main())
