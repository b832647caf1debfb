# SPDX-License-Identifier: Apache-2.0
"""The level `calls`: the contract's calls of the whole host, counted while the probes are attached.

What was counted stays when they are detached, so that counters never go back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from contracts.model import Contract, Slot
from contracts.stats import CallStats, merge
from profiler.bpf.session import ProfileSession
from profiler.recording.timeframes import Frame, Timeframes
from profiler.watch.ticker import Beat

#: Makes a session that has not been entered.
MakeSession = Callable[[Contract], ProfileSession]


def host_session(contract: Contract) -> ProfileSession:
    """Return a session of the whole host; the service counts the disks itself."""
    return ProfileSession(contract, host_wide=True, counts_disks=False)


#: The contract of a watch that never counts calls.
NO_CONTRACT = Contract(timeframe_ns=10**9, rules=())


class CallsLevel:
    """Counts a contract's calls between `attach` and `detach`, which may alternate."""

    def __init__(self, contract: Contract = NO_CONTRACT, make: MakeSession = host_session) -> None:
        self.contract = contract
        self._make = make
        self._session: ProfileSession | None = None
        self._frames: Timeframes | None = None
        self._kept: dict[Slot, CallStats] = {slot: CallStats() for slot in contract.slots}
        self._lost: Counter[str] = Counter()
        #: Timeframes judged, those violated by rule, and the last value of each rule ÷ threshold.
        self.frames = 0
        self.violated: Counter[str] = Counter()
        self.ratios: dict[str, float] = {}
        self.beat: Beat | None = None

    @property
    def is_attached(self) -> bool:
        """Whether calls are counted now."""
        return self._session is not None

    def attach(self, now_ns: int) -> None:
        """Attach the probes. Raises WritewiseError."""
        session = self._make(self.contract)
        session.__enter__()
        self._session = session
        self._frames = Timeframes(session, self.contract, (self._judge,))
        self.beat = Beat(self.contract.timeframe_ns, self._frames.close)
        self.beat.start(now_ns)

    def detach(self) -> None:
        """Judge the last timeframe, keep what was counted, and detach the probes."""
        if self._session is None or self._frames is None:
            return
        self._frames.close()
        self._kept, self._lost = self.read()
        session, self._session, self._frames, self.beat = self._session, None, None, None
        self.ratios = {}
        session.__exit__(None, None, None)

    def read(self) -> tuple[dict[Slot, CallStats], Counter[str]]:
        """Return what was counted so far for each slot, and the lost events by reason."""
        if self._frames is None:
            return dict(self._kept), Counter(self._lost)
        now = self._frames.so_far()
        of_slot = dict(zip((rule.slot for rule in self.contract.rules), now.stats))
        counted = {slot: merge([kept, of_slot[slot]]) for slot, kept in self._kept.items()}
        return counted, self._lost + Counter(now.losses.by_reason)

    def _judge(self, frame: Frame) -> None:
        self.frames += 1
        self.violated.update(each.rule.label for each in frame.findings if each.violated)
        self.ratios = {
            each.rule.label: each.value / each.rule.threshold
            for each in frame.findings
            if each.value is not None and each.rule.threshold
        }
