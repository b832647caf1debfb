# SPDX-License-Identifier: Apache-2.0
"""The kernel side's histogram buckets are those of contracts.stats, for every power of two."""

from __future__ import annotations

import ctypes
from pathlib import Path

from contracts.stats import BUCKET_COUNT, bucket_index
from profiler.bpf import loader
from profiler.bpf.probe import Probe
from profiler.bpf.probes import calls

LATENCY, BUCKET = 0, 1
NONE = 2**64 - 1
NUMBERS = {"BUCKET_COUNT": BUCKET_COUNT, "CPU_COUNT": 1, "MAX_THREADS": 1, "SLOT_COUNT": 1}


def sample() -> list[int]:
    """Return values around each power of two and around bucket edges between them, up to 2^63."""
    powers = [1 << exponent for exponent in range(64)]
    around = [power + delta for power in powers for delta in (-1, 0, 1)]
    within = [power + power * part // 32 for power in powers for part in (1, 2, 15, 17, 31)]
    return sorted((*around, *within))


def test_c_and_python_agree() -> None:
    source = str(Path(__file__).with_name("buckets.bpf.c"))
    probe = Probe(
        name="buckets",
        sources=(*calls.PROBE.sources, source),
        tracepoints=("syscalls:sys_enter_sysinfo",),
        members=calls.PROBE.members,
    )
    with loader.load((probe,), {**NUMBERS, "WALK_LIMIT": 0}) as module:
        sysinfo = ctypes.CDLL(None).sysinfo
        cell = module.map_words("latency_and_bucket")
        for latency_ns in sample():
            cell[LATENCY], cell[BUCKET] = latency_ns, NONE
            sysinfo(ctypes.create_string_buffer(256))
            assert cell[BUCKET] == bucket_index(latency_ns), latency_ns
        assert cell[BUCKET] == BUCKET_COUNT - 1
