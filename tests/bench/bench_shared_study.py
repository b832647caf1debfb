# SPDX-License-Identifier: Apache-2.0
"""A shared study: how much of a node's time it uses, whether claims are distinct, and failures.

    python -m tests.bench.bench_shared_study [coverage] [kinds] [claims] [efficiency] [failures]

Without a name it runs all, in about ten minutes; it needs PostgreSQL's programs. Workers are forked
processes with the real worker, ledger, store and journal; their hosts are directories.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

from sysctl.evidence.comparison import is_gain
from sysctl.fleet.claims import ClaimState
from sysctl.fleet.estimate import NodeEffect, estimate
from sysctl.fleet.kinds import NodeKind, is_mixed, verdicts_of
from sysctl.fleet.spec import StudySpec
from tests.postgresql.fleet import Cable, Fleet, until
from tests.postgresql.forked_fleet import ForkedFleet
from tests.postgresql.node import GRACE_S, PRESENT
from tests.postgresql.server import Server, running

CLASS = "m5.large_unknown_xfs_6.1_cgroup2_unlimited_direct_0123456789abcdef"
WORKERS = 8
KILLS, CRASHES, PARTITIONS, SLOW_RESTARTS = 200, 20, 5, 10
CLASSES = 2000


def study(name: str, count: int, **changes: Any) -> StudySpec:
    """Return a study of that many candidates."""
    ratios = tuple(range(21, 21 + math.ceil(count / 20)))
    values = {"vm.dirty_ratio": ratios, "vm.dirty_background_ratio": tuple(range(1, 21))}
    if count == 96:
        values = {
            "vm.dirty_ratio": tuple(range(21, 45)),
            "vm.dirty_background_ratio": (3, 5, 7, 9),
        }
    spec = StudySpec(name, CLASS, values, PRESENT, **changes)
    assert len(spec.candidates) == count
    return spec


@contextlib.contextmanager
def forked(server: Server, spec: StudySpec, seconds: float, mode: str):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        fleet = ForkedFleet(server, spec, Path(folder) / "fleet", seconds)
        fleet.mode = mode
        try:
            yield fleet
        finally:
            fleet.end()


def elapsed_s(server: Server, name: str) -> float:
    """Return the time from the first claim to the last result."""
    text = server.sql(
        "SELECT extract(epoch FROM max(datetime_complete) - min(datetime_start)) FROM trials "
        f"JOIN studies USING (study_id) WHERE study_name = '{name}'"
    )
    return float(text)


def searched(server: Server, count: int, seconds: float) -> float:
    """Run a search of single trials; return its time, and check that claims are distinct."""
    name = f"search-{count}"
    with forked(server, study(name, count), seconds, "single") as fleet:
        for at in range(WORKERS):
            fleet.start(f"n{at}")
        fleet.wait()
        settings = [record.claim.settings[0] for record in fleet.ledger.records()]
        print(f"  {len(settings)} claims, {len(settings) - len(set(settings))} duplicates")
        print(f"  does not hold: {fleet.problems() or 'nothing'}")
    return elapsed_s(server, name)


def claims(server: Server) -> None:
    """1,000 claims that take no time."""
    began_s, cpu_s = time.monotonic(), children_cpu_s()
    took_s = searched(server, 1000, 0.0)
    used_s = children_cpu_s() - cpu_s
    print(f"  {took_s:.0f} s ({time.monotonic() - began_s:.0f} s with start), ", end="")
    print(f"{used_s / 1000 * 1000:.0f} ms of CPU a claim in the workers")


def children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def efficiency(server: Server) -> None:
    """96 single-trial claims of 10 s on 8 workers: the time that measuring alone would take."""
    load = os.getloadavg()[0]
    took_s = searched(server, 96, 10.0)
    share = 96 * 10.0 / (WORKERS * took_s)
    print(f"  {took_s:.1f} s, efficiency {share:.3f} ({share * WORKERS:.2f} × one worker)")
    print(f"  load of the host before and after: {load:.1f}, {os.getloadavg()[0]:.1f}")


def failures(server: Server) -> None:
    """Random SIGKILLs, crashes of the server and partitions, then what holds."""
    draw = random.Random(22)
    # more than can be done during the failures: idle nodes would prove nothing
    spec = study("failures", 1400, nodes=WORKERS, most_lost=10**6)
    with forked(server, spec, 1.0, "") as fleet, contextlib.ExitStack() as stack:
        cable = Cable(server, fleet.folder / "cable")
        stack.callback(cable.close)
        hosts = {f"n{at}": cable.folder if at == 0 else None for at in range(WORKERS)}
        for node, host in hosts.items():
            fleet.start(node, host)
        freed_s: list[float] = []
        with_claim = 0
        for number in range(1, KILLS + 1):
            time.sleep(draw.uniform(0.1, 0.7))
            node = draw.choice(list(hosts))
            fleet.kill(node)
            with_claim += fleet.is_changed(node)
            if number % (KILLS // SLOW_RESTARTS) == 0:
                freed_s += freed(fleet, node)
            fleet.start(node, hosts[node])
            if number % (KILLS // CRASHES) == 0:
                server.crash()
                time.sleep(draw.uniform(0.1, 2))
                server.start()
            if number % (KILLS // PARTITIONS) == 0:
                cable.cut()
                time.sleep(2 * GRACE_S)
                cable.mend()
        during = len(fleet.told())
        restarted(fleet, hosts)
        records = fleet.ledger.records()
        told = [record for record in records if record.state is ClaimState.TOLD]
        print(f"  {KILLS} kills ({with_claim} with changed settings), {CRASHES} crashes, ", end="")
        print(f"{PARTITIONS} partitions of {2 * GRACE_S} s")
        late = sum(record.is_late for record in told)
        print(f"  {len(records)} claims: {len(told)} told, {late} of them late, {during} during it")
        print(f"  does not hold: {fleet.problems() or 'nothing'}")
        print(f"  claims free after {[round(each, 1) for each in freed_s]} s (grace {GRACE_S} s)")


def freed(fleet: Fleet, node: str) -> list[float]:
    """Return how long the claim of a killed node took to be free; nothing if it had none."""

    def has_claim() -> bool:
        records = fleet.ledger.records()
        return any(r.claim.node == node and r.state is ClaimState.RUNNING for r in records)

    return [until(lambda: not has_claim())] if has_claim() else []


def restarted(fleet: ForkedFleet, hosts: dict[str, Path | None]) -> None:
    """Start what has ended, until all nodes end by themselves."""
    for node, host in hosts.items():
        if not fleet.is_running(node):
            fleet.start(node, host)
    fleet.wait()


def coverage(_: Server | None = None) -> None:
    """How often the interval holds another node's measured ratio, over simulated classes."""
    for nodes in (5, 8, 20):
        held = {
            "all": [holds(nodes, seed, None) for seed in range(CLASSES)],
            **{f"tau {tau}": [holds(nodes, seed, tau) for seed in range(CLASSES)] for tau in TAUS},
        }
        shares = ", ".join(f"{name} {sum(each) / CLASSES:.1%}" for name, each in held.items())
        print(f"  {nodes} nodes: {shares}")


#: Nodes that do not differ, and that differ by 5 % and by 30 %; a run's noise is 1 to 6 %.
TAUS = (0.0, 0.05, 0.3)


def holds(nodes: int, seed: int, tau: float | None) -> bool:
    """Return whether the interval of a simulated class holds the ratio of one more node."""
    draw = random.Random(f"{nodes} {seed}")
    mean, noise = math.log(draw.uniform(0.3, 1.05)), draw.uniform(0.01, 0.06) * math.sqrt(2)
    between = draw.uniform(0, 0.3) if tau is None else tau

    def node(name: str, pairs: int) -> NodeEffect:
        own = draw.gauss(mean, between)
        return NodeEffect(name, tuple(math.exp(draw.gauss(own, noise)) for _ in range(pairs)))

    # some nodes lose a pair
    measured = [node(str(at), draw.choice([3, 4, 4, 4])) for at in range(nodes)]
    return estimate(measured).predicted.includes(node("another", 4).ratio)


def kinds(_: Server | None = None) -> None:
    """How often a simulated class counts as mixed, and how often a node is in the wrong kind."""
    for nodes in (5, 8, 20):
        shares = []
        for name, others in (("alike", 0), ("half and half", nodes // 2), ("one other", 1)):
            found = [told_apart(nodes, others, seed) for seed in range(CLASSES)]
            mixed, wrong = (sum(each) / CLASSES for each in zip(*found))
            shares.append(f"{name} {mixed:.1%} mixed, {wrong:.2%} with a node in the wrong kind")
        print(f"  {nodes} nodes: {'; '.join(shares)}")


def told_apart(nodes: int, others: int, seed: int) -> tuple[bool, bool]:
    """Return whether a class counts as mixed, and whether a node is in the wrong kind.

    The nodes gain by 10 to 70 %, of which `others` are slower by 0 to 15 %; if there are none, the
    ratio is 0.3 to 1.15. Nodes of a kind differ by 3 %, a run's noise is 1 to 6 %.
    """
    draw = random.Random(f"{nodes} {others} {seed}")
    gain, loss = draw.uniform(0.3, 0.9 if others else 1.15), draw.uniform(1.0, 1.15)
    noise = draw.uniform(0.01, 0.06) * math.sqrt(2)
    effects, true = [], {}
    for at in range(nodes):
        own = math.log(loss if at < others else gain) + draw.gauss(0, 0.03)
        ratios = tuple(math.exp(draw.gauss(own, noise)) for _ in range(4))
        effects.append(NodeEffect(str(at), ratios))
        true[str(at)] = NodeKind.GAINS if is_gain(math.exp(own)) else NodeKind.NO_GAIN
    found = estimate(effects)
    verdicts = verdicts_of(found)
    wrong = any(each.kind not in (true[each.node], NodeKind.UNCLEAR) for each in verdicts)
    return is_mixed(found, verdicts), wrong


PARTS: dict[str, Callable] = {
    "coverage": coverage,
    "kinds": kinds,
    "claims": claims,
    "efficiency": efficiency,
    "failures": failures,
}


def main(names: list[str]) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with running() as server:
        for name in names or PARTS:
            print(f"{name}:", flush=True)
            PARTS[name](server)


if __name__ == "__main__":
    main(sys.argv[1:])
