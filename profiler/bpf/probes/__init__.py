# SPDX-License-Identifier: Apache-2.0
"""A `.bpf.c` and a `.py` file per probe: the C only counts, the Python names and decodes."""

from __future__ import annotations

from profiler.bpf.probe import Probe
from profiler.bpf.probes import (
    block,
    calls,
    dirty_limit,
    path_calls,
    scope,
    socket_calls,
    throttling,
    uring,
    waits,
)

#: All probes; a root test loads each of them.
ALL: tuple[Probe, ...] = (
    *(scope.PROBE, calls.PROBE, path_calls.PROBE, socket_calls.PROBE, uring.PROBE),
    *(waits.PROBE, block.PROBE, dirty_limit.PROBE, throttling.PROBE),
)
