# SPDX-License-Identifier: Apache-2.0
"""One pull under the governor, for the demo: what it gains next to standing thresholds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.lab.lab import Lab
    from profiler.report.three_ways import GovernedPull

#: The most data at risk that the governor may allow: the whole pull of the lab fits.
MAX_AT_RISK_BYTES = 2 * 2**30


def pull_governed(present: Lab, console: Console) -> GovernedPull:
    """Pull the lab's objects once as `writewise run --auto` would, until all is at rest.

    The files are deleted. Raises WritewiseError.
    """
    from contracts.loading import load_contract
    from profiler.bpf.session import ProfileSession
    from profiler.govern.beside import governed_beside
    from profiler.govern.child import GovernRequest
    from profiler.govern.volumes import named_volumes
    from profiler.pull.access import S3Access
    from profiler.pull.clients.catalogue import usable
    from profiler.pull.destination import Destination
    from profiler.pull.measured import Verify, measure_pull
    from profiler.pull.settings import settings_for
    from profiler.pull.source import list_plan, parse_location
    from profiler.pull.workers import WorkerPool
    from profiler.report.three_ways import GovernedPull
    from sysctl.govern.bounds import UNLIMITED_NS, RaiseLimits
    from sysctl.host.system import System

    destination = Path(present.destination)
    volumes = named_volumes([destination], System().mounts())
    limits = RaiseLimits(MAX_AT_RISK_BYTES, UNLIMITED_NS)
    request = GovernRequest("the demo", volumes, limits, are_named=True)
    access = S3Access(present.endpoint_url, sign_requests=False)
    settings, client_name = settings_for("", None)
    plan = list_plan(access, parse_location(present.source))
    os.sync()
    with governed_beside(request) as (governor, _):  # first: nothing else may be running at a fork
        with (
            WorkerPool(access, settings, None, usable(client_name).make) as pool,
            ProfileSession(load_contract(None)) as session,
        ):
            console.print("   one pull, then the wait for the device: about 40 s")
            measured = measure_pull(
                *(pool, plan, Destination(destination), session),
                keep=False,
                verify=Verify.SIZE,
            )
        measured.require_all()
    timeline = measured.why.timeline if measured.why else None
    return GovernedPull(
        return_s=measured.return_s,
        durable_s=measured.durable_s,
        stalled_share=measured.stalled_share,
        at_risk_bytes=timeline.peak_added_bytes if timeline else None,
        raised_s=governor.state.sums.raised_s if governor.state else None,
        problem=governor.problem,
    )
