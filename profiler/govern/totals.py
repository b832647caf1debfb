# SPDX-License-Identifier: Apache-2.0
"""What the bursts of a governor's life add up to. It takes the same memory after a year."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from sysctl.govern.bursts import BurstAccount
from sysctl.govern.samples import NS_PER_S

#: The accounts that are kept for the document; the sums have all.
MAX_BURSTS = 1000


@dataclass
class Totals:
    """Sums over all bursts, and the accounts of the last ones.

    `unknown_savings` counts bursts whose saved time is unknown.
    """

    began_ns: int
    ended_ns: int = 0
    bursts: int = 0
    arrived_bytes: int = 0
    return_s: float = 0.0
    raised_s: float = 0.0
    saved_s: float = 0.0
    unknown_savings: int = 0
    peak_held_bytes: int = 0
    accounts: deque[BurstAccount] = field(default_factory=lambda: deque(maxlen=MAX_BURSTS))

    def add(self, account: BurstAccount) -> None:
        """Add a burst."""
        self.bursts += 1
        self.arrived_bytes += account.arrived_bytes
        self.return_s += account.return_s
        self.raised_s += account.raised_ns / NS_PER_S
        self.saved_s += account.saved_s or 0.0
        self.unknown_savings += account.saved_s is None
        self.peak_held_bytes = max(self.peak_held_bytes, account.peak_held_bytes)
        self.accounts.append(account)

    @property
    def observed_s(self) -> float:
        """How long the governor has run (s)."""
        return max(0, self.ended_ns - self.began_ns) / NS_PER_S
