# SPDX-License-Identifier: Apache-2.0
"""Cuts timeframes and samples resources and write-back while something is profiled.

All of it runs in one thread. The result is a `Profile`, which `profiler.report` renders.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from contracts.evaluate import Finding, evaluate
from contracts.model import Contract
from contracts.stats import ResourceUsage
from profiler.bpf.session import ProfileSession, ProfileSnapshot
from profiler.recording.frame_tally import FrameTally
from profiler.recording.scope import ProfileScope
from profiler.recording.timeframes import Frame, Sampler, Timeframes
from profiler.watch.causes import WhyInputs
from profiler.watch.ticker import Beat, Ticker
from profiler.watch.volumes import VolumeRecorder
from profiler.watch.watch import Watch

Pids = Callable[[], Iterable[int]]


@dataclass(frozen=True)
class Profile:
    """A finished profile.

    `snapshot` and `usage` cover the whole run, as the sum of its frames. `findings` have the values
    of the whole run and the verdicts of the frames. `threads_left` is the number of followed
    threads that still run. `why` is the input for the explanation of the writes. `command_user` is
    the user that the command ran as, `scope` whose calls were counted. `by_functions` is whether
    the probes attached to functions, not to tracepoints; `functions_refused` why not, if the kernel
    refused one.
    """

    contract: Contract
    snapshot: ProfileSnapshot
    usage: ResourceUsage
    findings: tuple[Finding, ...]
    frames: FrameTally
    threads_left: int
    why: WhyInputs
    command_user: str | None = None
    scope: ProfileScope = field(default_factory=ProfileScope)
    by_functions: bool = False
    functions_refused: str | None = None


class Recording:
    """Records a session within the block; `profile` is available after it.

    If the contract has rules for resources, `pids` returns the function that finds the processes to
    sample. Beats passed to `add` run in the same thread. An error in the thread does not end the
    profiled command: `check` raises it after the report.
    """

    def __init__(
        self,
        session: ProfileSession,
        contract: Contract,
        pids: Callable[[], Pids],
        consumers: Iterable[Callable[[Frame], None]] = (),
        volumes: VolumeRecorder | None = None,
    ) -> None:
        self._session = session
        self._contract = contract
        self._tally = FrameTally()
        sampling = _sampling(contract, pids)
        sampler = sampling[0] if sampling else None
        self.timeframes = Timeframes(session, contract, (self._tally, *consumers), sampler=sampler)
        self._watch = Watch(session, volumes)
        self._beats = [Beat(contract.timeframe_ns, self.timeframes.close), *self._watch.beats]
        self._beats += [sampling[1]] if sampling else []
        self._profile: Profile | None = None

    def add(self, beat: Beat) -> None:
        """Also run this beat; call it before entering the context."""
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
        """What was recorded. Raises ValueError within the block."""
        if self._profile is None:
            raise ValueError("the recording has not ended")
        return self._profile

    def check(self) -> None:
        """Raise the thread's error, if there was one."""
        if self._ticker.failure:
            raise self._ticker.failure

    def _finished(self) -> Profile:
        # Before the last frame is cut, so that it has the calls of a thread that ends now.
        threads_left = self._session.threads_followed()
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
            by_functions=self._session.by_functions,
            functions_refused=self._session.functions_refused,
        )


def _sampling(contract: Contract, pids: Callable[[], Pids]) -> tuple[Sampler, Beat] | None:
    """Return the sampler and its beat; None if no rule needs resources."""
    if all(rule.measurement.is_of_calls for rule in contract.rules):
        return None
    from profiler.watch import resources

    sampler = resources.ResourceSampler(pids())
    return sampler, Beat(resources.SAMPLE_INTERVAL_NS, sampler.sample, resources.SAMPLE_SHARE)
