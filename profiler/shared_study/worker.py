# SPDX-License-Identifier: Apache-2.0
"""A node of a shared study: claim, accept, measure, keep, put, tell, until nothing is left.

A result is first written to a file of the node, then to the store, then told to the ledger. Every
step may fail and is repeated, also by the next `study join` after a crash. While the ledger or the
store cannot be reached, the node runs with its own settings and holds the result.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from contracts.shared.errors import WritewiseError
from profiler.pull.errors import PullError
from profiler.shared_study.document import SharedResult, result_from_text, result_to_json
from profiler.shared_study.ledger import Ledger, LedgerError, UnreachableError
from profiler.shared_study.results_store import LocalResults, ResultsStore
from sysctl.evidence.circumstances import NodeClass
from sysctl.evidence.results import CANDIDATE, RECHECK, Trial
from sysctl.fleet.accepting import Acceptance
from sysctl.fleet.claims import Claim, ClaimKind, ClaimState, Due, Finished, Record, next_claim
from sysctl.fleet.spec import StudySpec
from sysctl.fleet.summary import RunSummary
from sysctl.host.system import HostError

T = TypeVar("T")
Measure = Callable[[Claim], Sequence[Trial]]

#: Between two looks at a ledger in which nothing is due, and between two attempts to reach it.
_POLL_S, _RETRY_S, _MOST_RETRY_S = 5.0, 1.0, 60.0
REFUSED = "refused"


@dataclass
class StudyWorker:
    """One node. `measure` changes the node and restores it; `say` gets one sentence a step."""

    ledger: Ledger
    spec: StudySpec
    node: str
    store: ResultsStore
    local: LocalResults
    acceptance: Acceptance
    measure: Measure
    node_class: NodeClass | None = None
    say: Callable[[str], None] = lambda sentence: None
    sleep: Callable[[float], None] = time.sleep
    poll_s: float = _POLL_S
    measured: int = field(default=0, init=False)
    _seen: set[str] = field(default_factory=set, init=False)

    def run(self) -> str:
        """Work until nothing is left for this node; return why.

        Raises WritewiseError if the node cannot measure, or refuses all settings or one of the
        recheck.
        """
        self._deliver_pending()
        self._require_candidate()
        self._patiently(self._give_back_own)
        while True:
            self._patiently(self._sweep)
            due, trial_id = self._patiently(self._claim)
            if isinstance(due, Claim):
                self._work(due, trial_id)
            elif isinstance(due, Finished):
                return due.why
            else:
                self.sleep(self.poll_s * random.uniform(0.5, 1.5))  # noqa: S311

    def _require_candidate(self) -> None:
        """Raise LedgerError if every refusal of this node would end the search of all others."""
        refusals = [self.acceptance.refusal(each) for each in self.spec.candidates]
        if all(refusals):
            raise LedgerError(
                f"this node refuses every setting of the study; of the first, {refusals[0]}",
                "check --max-at-risk, or leave this node out of the study",
            )

    # --- the ledger -------------------------------------------------------------------------

    def _claim(self) -> tuple[Due, int]:
        return self.ledger.claim(
            lambda records: next_claim(self.spec, records, self.node),
            lambda due: due if isinstance(due, Claim) else None,
        )

    def _give_back_own(self) -> None:
        """Give back what an earlier process of this node had claimed: its results are told."""
        for entry in self.ledger.entries():
            is_running = entry.record.state is ClaimState.RUNNING
            if is_running and entry.record.claim.node == self.node:
                self.ledger.lose(entry.trial_id)

    def _sweep(self) -> None:
        """Give back what lost nodes had claimed, and adopt results that they did not tell."""
        self.ledger.fail_stale()
        adopt_untold(self.ledger, self.spec, self.store, self._seen)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Call until the ledger and the store answer, with growing and random pauses."""
        pause_s = _RETRY_S
        while True:
            try:
                return call()
            except (UnreachableError, PullError, HostError) as error:
                self.say(f"{error.message}; trying again")
                self.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311
                pause_s = min(pause_s * 2, _MOST_RETRY_S)

    # --- a claim ----------------------------------------------------------------------------

    def _work(self, claim: Claim, trial_id: int) -> None:
        refusals = [(each, self.acceptance.refusal(each)) for each in claim.settings]
        refused = [(setting, why) for setting, why in refusals if why]
        if refused:
            setting, why = refused[0]
            self.say(f"refused {setting}: {why}")
            self._finish(claim, trial_id, _refused(claim, str(why)))
            if claim.kind is ClaimKind.BLOCK:
                raise LedgerError(
                    f"this node refuses {setting}, which the study compares: {why}",
                    "raise --max-at-risk, or leave this node out of the study",
                )
            return
        self.say(f"measuring {claim.kind.value} {', '.join(map(str, claim.settings))}")
        with heartbeat(self.ledger, trial_id):
            with self._returned_on_error(trial_id):
                trials = tuple(self.measure(claim))
            self._finish(claim, trial_id, trials)

    def _keep(self, claim: Claim, trials: tuple[Trial, ...]) -> str:
        result = SharedResult(self.spec.name, claim, trials)
        return self.local.keep(claim.key, result_to_json(self.spec, result, self.node_class))

    def _finish(self, claim: Claim, trial_id: int, trials: tuple[Trial, ...]) -> None:
        text = self._keep(claim, trials)
        runs = SharedResult(self.spec.name, claim, trials).runs(self.spec.present_setting)
        self._patiently(lambda: self.store.put(self.spec.name, claim.key, text))
        is_in_time = self._patiently(lambda: self.ledger.tell(trial_id, claim, runs))
        if not is_in_time:
            self.say("the ledger had given the claim up; the result is kept as late")
        self.local.told(claim.key)
        self.measured += 1

    @contextlib.contextmanager
    def _returned_on_error(self, trial_id: int) -> Iterator[None]:
        """Give the claim back if it cannot be measured, also on Ctrl-C and SIGTERM."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(WritewiseError):  # else it becomes stale
                self.ledger.lose(trial_id)
            raise

    def _deliver_pending(self) -> None:
        """Put and tell what an earlier process of this node has measured."""
        for key, text in self.local.pending():
            try:
                result = result_from_text(text, self.spec.name)
            except ValueError as error:
                raise HostError(f"the kept result {key} cannot be read: {error}") from None
            if result.claim.key != key or result.claim.node != self.node:
                raise HostError(f"the kept result {key} is of another claim or node")
            self._deliver(result, text)
            self.say(f"told the result {key} of an earlier run")

    def _deliver(self, result: SharedResult, text: str) -> None:
        runs = result.runs(self.spec.present_setting)
        self._patiently(lambda: self.store.put(self.spec.name, result.claim.key, text))
        self._patiently(lambda: self._tell_again(result.claim, runs))
        self.local.told(result.claim.key)

    def _tell_again(self, claim: Claim, runs: tuple[RunSummary, ...]) -> None:
        for entry in self.ledger.entries():
            is_running = entry.record.state is ClaimState.RUNNING
            if is_running and entry.record.claim.key == claim.key:
                self.ledger.tell(entry.trial_id, claim, runs)
                return
        self.ledger.adopt(claim, runs)


def _refused(claim: Claim, why: str) -> tuple[Trial, ...]:
    role = CANDIDATE if claim.kind is ClaimKind.SEARCH else RECHECK
    return tuple(Trial(role, each, "", None, f"{REFUSED}: {why}") for each in claim.settings)


def adopt_untold(ledger: Ledger, spec: StudySpec, store: ResultsStore, seen: set[str]) -> list[str]:
    """Tell results that are in the store, but not in the ledger; return their names.

    Only results of lost claims are looked for, each once: a name that is in `seen` is skipped.
    """
    records = ledger.records()
    told = {record.claim.key for record in records if record.state is ClaimState.TOLD}
    adopted = []
    for record in records:
        key = record.claim.key
        if record.state is not ClaimState.LOST or key in told or key in seen:
            continue
        result = _stored(spec, store, record)
        seen.add(key)
        if result and ledger.adopt(record.claim, result.runs(spec.present_setting)):
            adopted.append(key)
    return adopted


def _stored(spec: StudySpec, store: ResultsStore, record: Record) -> SharedResult | None:
    """Return the result of a claim; None if there is none, or one of something else."""
    text = store.get(spec.name, record.claim.key)
    if text is None:
        return None
    try:
        result = result_from_text(text, spec.name)
    except ValueError:
        return None
    return result if result.claim == record.claim else None


@contextlib.contextmanager
def heartbeat(ledger: Ledger, trial_id: int) -> Iterator[None]:
    """Record heartbeats of a claim from a thread of its own; a ledger that is gone ends nothing."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(ledger.heartbeat_s):
            with contextlib.suppress(LedgerError):
                ledger.beat(trial_id)

    thread = threading.Thread(target=beat, name="writewise-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=1)
