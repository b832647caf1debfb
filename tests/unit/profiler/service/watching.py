# SPDX-License-Identifier: Apache-2.0
"""A watch without a kernel: sessions in memory, a written vmstat, a clock that is set."""

from __future__ import annotations

from dataclasses import replace

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.stats import BUCKET_COUNT, CallStats
from profiler.bpf.disks import BlockDevice
from profiler.bpf.probes.block import DeviceStats, RequestStats
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.throttling import Throttled
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.bpf.stall_session import StallSession
from profiler.service.calls_level import NO_CONTRACT, CallsLevel
from profiler.service.ebs_pages import EbsPages
from profiler.service.host_watch import HostWatch
from sysctl.knobs.writeback import PAGE_BYTES

SECOND_NS = 10**9
NONE = ProfileSnapshot((), Losses(), 0, StallStats(), 0)


def buckets(*filled):
    """Return fine buckets with one call in each of these."""
    return tuple(int(at in filled) for at in range(BUCKET_COUNT))


def contract(slots=1, timeframe_ns=SECOND_NS):
    """Return a contract with a rule on each of some size ranges."""
    return Contract(
        timeframe_ns,
        tuple(
            Rule(
                f"rule{n}",
                "/data",
                (CallType.WRITE,),
                SizeRange(n * 4096, n * 4096 + 4095),
                Measurement.COUNT,
                2,
            )
            for n in range(slots)
        ),
    )


class Session:
    """A profile session that counts what `count` is told, and resets."""

    def __init__(self, contract):
        self.contract, self.is_open = contract, False
        self._clear()

    def _clear(self):
        self.stats = [CallStats() for _ in self.contract.rules]
        self.losses = Losses()

    def __enter__(self):
        self.is_open = True
        return self

    def __exit__(self, *_):
        self.is_open = False

    def count(self, rule=0, **figures):
        self.stats[rule] = replace(self.stats[rule], **figures)

    def snapshot(self):
        return replace(NONE, stats=tuple(self.stats), losses=self.losses)

    def reset(self):
        taken = self.snapshot()
        self._clear()
        return taken


class Stalls(StallSession):
    """A stall session whose figures are set."""

    def __init__(self, disks):
        super().__init__(())
        self.counted, self.missed = Throttled(), 0
        writes = RequestStats(count=2, bytes=8192, latency_total_ns=5, buckets=buckets(300, 310))
        self.device = DeviceStats(RequestStats(), writes)
        self._count = disks

    def throttled(self):
        return self.counted

    def disks(self):
        return (self.device,) * self._count

    def runs_missed(self):
        return self.missed


class Watched:
    """The watch and what it watches."""

    def __init__(self, tmp_path, of=None, disks=1, governor=None, ebs=None):
        self.now_ns, self.sessions = 0, []
        self.vmstat = tmp_path / "vmstat"
        self.set_dirty(0)
        self.stalls = Stalls(disks)
        self.calls = CallsLevel(of or NO_CONTRACT, self._session)
        self.watch = HostWatch(
            self.stalls,
            [BlockDevice(f"vd{n}", n) for n in range(disks)],
            ebs or EbsPages((), tmp_path),
            self.calls,
            ("1.0", "0.26"),
            vmstat=self.vmstat,
            read_governor=lambda: governor,
            clock_ns=lambda: self.now_ns,
        )

    def _session(self, contract):
        self.sessions.append(Session(contract))
        return self.sessions[-1]

    def set_dirty(self, dirty, writeback=0, background=100, threshold=200):
        """Write the counters, in pages."""
        self.vmstat.write_text(
            f"nr_dirty {dirty}\nnr_writeback {writeback}\nnr_dirty_threshold {threshold}\n"
            f"nr_dirty_background_threshold {background}\n"
        )

    def value(self, name, *labels):
        """Return one value."""
        return self.values()[(f"writewise_{name}", *labels)]

    def values(self):
        """Return metric and labels → value."""
        return {(v.metric.name, *v.labels): v.value for v in self.watch.values()}


PAGE = PAGE_BYTES
