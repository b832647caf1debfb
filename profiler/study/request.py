# SPDX-License-Identifier: Apache-2.0
"""What a sweep is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from contracts.model import Contract
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import DEFAULT
from profiler.pull.clients.interface import Client
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location
from profiler.study.space import Space
from profiler.study.volume_here import VolumeHere
from sysctl.evidence.price import Limits
from sysctl.sweep.budget import Budget


@dataclass(frozen=True)
class StudyRequest:
    """What to sweep: source and destination, how to pull, what to try, and the budget.

    `limits` restrict what the recommended setting may cost. Without `changes_host` only transfer
    settings are tried, which needs neither root nor probes. A trial pulls at most `max_bytes`.
    `volume` is what the user says about the EBS volume and the instance.
    """

    location: Location
    destination: Path
    access: S3Access
    transfer: TransferSettings
    contract: Contract
    output: Path
    client: Client = DEFAULT
    space: Space = field(default_factory=Space)
    budget: Budget = field(default_factory=Budget)
    limits: Limits = field(default_factory=Limits)
    workers: int | None = None
    resume: bool = False
    changes_host: bool = True
    max_bytes: int | None = None
    volume: VolumeHere = field(default_factory=VolumeHere)
