# SPDX-License-Identifier: Apache-2.0
"""The probes' cost in instructions: virtual ns added to a pwrite, the same in every run."""

from __future__ import annotations

import json

from tests.guests.catalogue import Guest
from tests.guests.machine import booted

_TIMEOUT_S = 3600


def added_ns(guest: Guest) -> dict[str, float]:
    """Return what each tool adds to a call, in virtual ns; `none` is the call itself."""
    with booted(guest, counts_instructions=True) as machine:
        command = ("python", "-m", "tests.guests.inside.probe_cost")
        said = machine.run(*command, timeout_s=_TIMEOUT_S).stdout
    measured: dict[str, float] = json.loads(said.splitlines()[-1])["call_ns"]
    bare_ns = measured["none"]
    return {name: ns if name == "none" else ns - bare_ns for name, ns in measured.items()}


def table(costs: dict[str, dict[str, float]]) -> str:
    """Return a table in Markdown, with a column for each guest."""
    names = next(iter(costs.values()))
    rows = [["", *costs], ["---"] * (1 + len(costs))]
    for name in names:
        figures = [
            f"{cost[name]:{',.0f' if name == 'none' else '+,.0f'}}" for cost in costs.values()
        ]
        rows.append([name, *figures])
    on_tracepoints = [cost["default contract, on tracepoints"] for cost in costs.values()]
    above = [ns - cost["empty pair"] for ns, cost in zip(on_tracepoints, costs.values())]
    rows.append(["the same above the empty pair", *(f"{ns:,.0f}" for ns in above)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
