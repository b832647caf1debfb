"""What goes on beside the thing profiled: timeframes are cut, resources and write-back sampled.

All of it runs in one thread. The result is a `Profile`, which `profiler.report` renders.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from contracts.evaluate import Finding, evaluate
from contracts.model import Contract
from contracts.stats import ResourceUsage
from profiler.bpf.session import ProfileSession, ProfileSnapshot
from profiler.recording.frame_tally import FrameTally
from profiler.recording.timeframes import Frame, Sampler, Timeframes
from profiler.watch.causes import WhyInputs
from profiler.watch.ticker import Beat, Ticker
from profiler.watch.watch import Watch

Pids = Callable[[], Iterable[int]]


@dataclass(frozen=True)
class Profile:
    """A profile that is over.

    `snapshot` and `usage` are of the whole run, the sum of its frames. `findings` have the values
    of the whole run and the verdicts of the frames. `threads_left` of those followed run on. `why`
    is what an explanation of the writes takes. `command_user` is whom a command ran as.
    """

    contract: Contract
    snapshot: ProfileSnapshot
    usage: ResourceUsage
    findings: tuple[Finding, ...]
    frames: FrameTally
    threads_left: int
    why: WhyInputs
    command_user: str | None = None


class Recording:
    """Records a session while the context lasts; `profile` is there when it has ended.

    `pids` is asked, where the contract has rules of resources, for what gives the processes to
    sample. Beats in
    `add` run in the same thread. An error in the thread does not end what is profiled: `check`
    raises it once the report is out.
    """

    def __init__(
        self,
        session: ProfileSession,
        contract: Contract,
        pids: Callable[[], Pids],
        consumers: Iterable[Callable[[Frame], None]] = (),
    ) -> None:
        self._session = session
        self._contract = contract
        self._tally = FrameTally()
        sampling = _sampling(contract, pids)
        sampler = sampling[0] if sampling else None
        self.timeframes = Timeframes(session, contract, (self._tally, *consumers), sampler=sampler)
        self._watch = Watch(session)
        self._beats = [Beat(contract.timeframe_ns, self.timeframes.close), self._watch.beat]
        self._beats += [sampling[1]] if sampling else []
        self._profile: Profile | None = None

    def add(self, beat: Beat) -> None:
        """Run a beat, too; to be called before the context is entered."""
        self._beats.append(beat)

    def __enter__(self) -> Recording:
        self._watch.begin()
        start_ns = time.monotonic_ns() - self._session.snapshot().elapsed_ns
        self._ticker = Ticker(self._beats, start_ns=start_ns)
        self._ticker.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ticker.__exit__()
        self._watch.end()
        if kind is None:
            self._profile = self._finished()

    @property
    def profile(self) -> Profile:
        """What was recorded. Raises ValueError while the context lasts."""
        if self._profile is None:
            raise ValueError("the recording is not over")
        return self._profile

    def check(self) -> None:
        """Raise what went wrong in the thread."""
        if self._ticker.failure:
            raise self._ticker.failure

    def _finished(self) -> Profile:
        threads_left = self._session.threads_followed()  # first: calls of one that ends are in
        self.timeframes.close()
        total, usage = self.timeframes.total, self.timeframes.usage
        return Profile(
            contract=self._contract,
            snapshot=total,
            usage=usage,
            findings=self._tally.judge(evaluate(self._contract, total.stats, usage)),
            frames=self._tally,
            threads_left=threads_left,
            why=self._watch.inputs(total),
        )


def _sampling(contract: Contract, pids: Callable[[], Pids]) -> tuple[Sampler, Beat] | None:
    """The sampler and its beat; None where no rule asks for resources."""
    if all(rule.measurement.is_of_calls for rule in contract.rules):
        return None
    from profiler.watch import resources

    sampler = resources.ResourceSampler(pids())
    return sampler, Beat(resources.SAMPLE_INTERVAL_NS, sampler.sample, resources.SAMPLE_SHARE)
