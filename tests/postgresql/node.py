# SPDX-License-Identifier: Apache-2.0
"""A node as a process: the real worker, ledger, store and journal; its host is a directory.

    python -m tests.postgresql.node URL STUDY NODE FOLDER [SECONDS [KIND [single]]]

The host of FOLDER has the write-back sysctls as files. A trial sets them through the journal,
waits SECONDS, and returns a made-up time: that of its KIND of node, another for each node. With
`single` a claim is one trial that is slower than the current settings, so that a study ends with
its search.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from contracts.shared.errors import WritewiseError
from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger
from profiler.shared_study.measuring import NodeMeasure
from profiler.shared_study.results_store import DirectoryStore, LocalResults
from profiler.shared_study.worker import StudyWorker
from sysctl.evidence.circumstances import Circumstances, NodeClass
from sysctl.evidence.circumstances import Node as NodeFacts
from sysctl.evidence.results import CANDIDATE, Observation, Results, Trial
from sysctl.evidence.results import PRESENT as PRESENT_ROLE
from sysctl.fleet.accepting import Acceptance
from sysctl.fleet.claims import Claim
from sysctl.fleet.spec import StudySpec
from sysctl.host.host import Host
from sysctl.host.sysctls import read_writeback, sysctl_path
from sysctl.host.system import System
from sysctl.knobs.vm import BY_NAME, KNOBS
from sysctl.knobs.writeback import PAGE_BYTES, effective_thresholds

GIB = 2**30
MEMORY = 16 * GIB
BURST = 4 * GIB
HEARTBEAT_S, GRACE_S = 1, 3
PRESENT = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}


class DirectoryHost(System):
    """Files instead of a kernel: a write is whole or not at all, and clears the counterpart."""

    def read(self, absolute: str) -> str:
        if absolute != "/proc/vmstat":
            return super().read(absolute)
        values = {knob.name: int(self.read(sysctl_path(knob.name))) for knob in KNOBS}
        found = effective_thresholds(values, MEMORY)
        return (
            f"nr_dirty_threshold {found.dirty_bytes // PAGE_BYTES}\n"
            f"nr_dirty_background_threshold {found.background_bytes // PAGE_BYTES}"
        )

    def write(self, absolute: str, text: str) -> None:
        self._put(absolute, text)
        name = absolute.removeprefix("/proc/sys/").replace("/", ".")
        counterpart = BY_NAME[name].counterpart if name in BY_NAME else None
        if counterpart and text != "0":
            self._put(sysctl_path(counterpart), "0")

    def _put(self, absolute: str, text: str) -> None:
        path = self.path(absolute)
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)


def make_host(folder: Path) -> DirectoryHost:
    """Return the host of a directory, made at the first call."""
    system = DirectoryHost(folder / "root", run=lambda argv: "")
    boot = system.path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():
        boot.parent.mkdir(parents=True)
        for knob in KNOBS:
            path = system.path("/proc/sys/" + knob.name.replace(".", "/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(PRESENT.get(knob.name, knob.kernel_default)))
        system.path("/proc/self").mkdir()
        system.path("/proc/self/mountinfo").write_text("")
        boot.write_text("a boot")
    return system


@dataclass(frozen=True)
class SimulatedKind:
    """How a node's time depends on its dirty ratio, and how long its writers wait now.

    `share` of the time under 20 % remains from 80 % on, linear between. `stall_share` is the share
    of their time that writers wait below 60 %.
    """

    share: float
    stall_share: float

    def return_s(self, node: str, ratio: int, noise: random.Random) -> float:
        """Return a time; each node has a speed of its own, and gains or loses a little more."""
        of_node = random.Random(node)
        speed, own = of_node.uniform(15, 25), of_node.gauss(0, 0.03)
        remains = 1 - (1 - self.share) * min(1.0, (ratio - 20) / 60)
        return speed * remains ** (1 + own) * noise.gauss(1, 0.01)

    def stall_at(self, ratio: int) -> float:
        """Return the share of their time that writers wait."""
        return self.stall_share if ratio < 60 else 0.0


#: `waits` gains by high thresholds, `slower` loses: its writers hardly wait, and what is dirty is
#: memory that its readers lack.
WAITS, SLOWER = "waits", "slower"
KINDS: Mapping[str, SimulatedKind] = {
    WAITS: SimulatedKind(0.25, 0.5),
    SLOWER: SimulatedKind(1.12, 0.02),
}


class SimulatedBench:
    """A bench whose host is real journal code on a directory, and whose times are made up."""

    def __init__(self, host: Host, node: str, seconds: float, kind: SimulatedKind) -> None:
        self.host, self.node, self.seconds, self.kind = host, node, seconds, kind
        self._noise = random.Random()

    def apply(self, setting) -> None:
        self.host.replace_writeback(setting.values)

    def measure(self, *, durable, stop_after_s=None, observe_price=False) -> Observation:
        time.sleep(self.seconds)
        values = read_writeback(self.host.system)
        ratio, thresholds = values["vm.dirty_ratio"], effective_thresholds(values, MEMORY)
        seconds = self.kind.return_s(self.node, ratio, self._noise)
        return Observation(
            return_s=seconds,
            durable_s=seconds * 2 if durable else None,
            stall_share=self.kind.stall_at(ratio),
            peak_dirty_bytes=min(thresholds.dirty_bytes, BURST),
            thresholds=thresholds,
            limit_bytes=thresholds.dirty_bytes,
            bytes=BURST,
            objects=40,
            dirtyable_bytes=MEMORY,
        )

    def require_destination(self) -> None:
        """The directory is always there."""


def single_trial(host: Host, spec: StudySpec, seconds: float, claim: Claim) -> list[Trial]:
    """Measure a claim of the search with one wait; the run of the current settings is made up."""
    bench = SimulatedBench(host, claim.node, seconds, KINDS[WAITS])
    setting = claim.settings[0]
    try:
        bench.apply(setting)
        seen = replace(bench.measure(durable=False), return_s=21.0)
    finally:
        host.restore()
    before = replace(seen, return_s=20.0)
    return [
        Trial(PRESENT_ROLE, spec.present_setting, "", before),
        Trial(CANDIDATE, setting, "", seen),
    ]


def main(
    url: str,
    study: str,
    node: str,
    folder: str,
    seconds: str = "0",
    kind: str = WAITS,
    single: str = "",
) -> int:
    os.environ["WRITEWISE_STATE_DIRECTORY"] = f"{folder}/state"
    system = make_host(Path(folder))
    ledger = Ledger(parse_address(url), study, HEARTBEAT_S, GRACE_S)
    with Host.exclusive("sweep", f"study {study}", system) as host:
        bench = SimulatedBench(host, node, float(seconds), KINDS[kind])
        worker = _worker(ledger, bench, study, Path(folder))
        if single:
            worker.measure = partial(single_trial, host, worker.spec, float(seconds))
        print(f"ended: {worker.run()}; measured {worker.measured}", flush=True)
    return 0


def _worker(ledger: Ledger, bench: SimulatedBench, study: str, folder: Path) -> StudyWorker:
    host = bench.host
    spec = _patient_spec(ledger)
    facts = NodeFacts(available_bytes=MEMORY, dirtyable_bytes=MEMORY)
    results = Results(Circumstances(NodeClass(fstype="xfs", present=spec.present), facts), {})
    return StudyWorker(
        ledger=ledger,
        spec=spec,
        node=bench.node,
        store=DirectoryStore(folder.parent / "store"),
        local=LocalResults(folder / "state" / "studies" / study),
        acceptance=Acceptance(15 * GIB, read_writeback(host.system), MEMORY),
        measure=NodeMeasure(results, spec.present_setting, bench, host.restore),
        say=lambda sentence: print(f"{time.time():.3f} {sentence}", flush=True),
        poll_s=0.2,
    )


def _patient_spec(ledger: Ledger):
    """Read the study; a node that starts while PostgreSQL is down tries again."""
    while True:
        try:
            return ledger.spec()
        except WritewiseError as error:
            print(error.message, flush=True)
            time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
