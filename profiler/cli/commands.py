# SPDX-License-Identifier: Apache-2.0
"""The explicit tuple of commands, in the order in which `writewise --help` lists them."""

from __future__ import annotations

from types import ModuleType

from profiler.cli import (
    advise,
    apply,
    bench_clients,
    clients,
    contract,
    demo,
    doctor,
    govern,
    lab,
    plan,
    predict,
    profile,
    pull,
    rollback,
    run,
    status,
    sweep,
    transfer,
    verify,
)

ALL: tuple[ModuleType, ...] = (
    *(doctor, demo, profile, pull, sweep, advise, predict, plan, apply, run, govern, verify),
    *(status, rollback, transfer, clients, bench_clients, contract, lab),
)
