# SPDX-License-Identifier: Apache-2.0
"""Every engine, by its name in `rollout render --format`."""

from __future__ import annotations

from sysctl.rollout.engines import ansible, bottlerocket, cloud_init, ssm, tuned
from sysctl.rollout.engines.format import EngineFormat

ENGINES: tuple[EngineFormat, ...] = (
    ansible.FORMAT,
    ssm.FORMAT,
    cloud_init.FORMAT,
    tuned.FORMAT,
    bottlerocket.FORMAT,
)
ENGINE_NAMES = tuple(each.name for each in ENGINES)
