# SPDX-License-Identifier: Apache-2.0
"""The explicit tuple of commands, in the order in which `writewise --help` lists them."""

from __future__ import annotations

from types import ModuleType

from profiler.cli import (
    advise,
    apply,
    bench_clients,
    clients,
    compare,
    contract,
    demo,
    doctor,
    fleet,
    govern,
    history,
    lab,
    plan,
    predict,
    profile,
    pull,
    rollback,
    rollout,
    run,
    status,
    study,
    sweep,
    transfer,
    verify,
    watch,
)

ALL: tuple[ModuleType, ...] = (
    *(doctor, demo, profile, watch, pull, sweep, advise, predict, plan, compare, apply, run),
    *(govern, verify, status, history, rollback, transfer, clients, bench_clients),
    *(fleet, study, rollout),
    *(contract, lab),
)
