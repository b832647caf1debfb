# SPDX-License-Identifier: Apache-2.0
"""How much of what arrives on the named volumes comes from admitted writers.

The kernel counts what a process dirties on all volumes together, and what is dirtied on a volume by
all processes together. So at each look the smaller of both is what admitted writers dirtied there.
"""

from __future__ import annotations


class Attribution:
    """Adds up what admitted writers dirtied on the named volumes since the governor began.

    The counters are read one after the other. So what one of them exceeds the other by is kept for
    the next look, but at most as much as arrived at this one.
    """

    def __init__(self) -> None:
        self.total_bytes = 0
        self._arrived_bytes = self._dirtied_bytes = 0

    def add(self, arrived_bytes: int, dirtied_bytes: int) -> int:
        """Return the new total after a look.

        `arrived_bytes` came to the named volumes since the look before, `dirtied_bytes` is what
        admitted processes dirtied anywhere.
        """
        self._arrived_bytes += arrived_bytes
        self._dirtied_bytes += dirtied_bytes
        both = min(self._arrived_bytes, self._dirtied_bytes)
        self.total_bytes += both
        self._arrived_bytes = min(self._arrived_bytes - both, arrived_bytes)
        self._dirtied_bytes = min(self._dirtied_bytes - both, arrived_bytes)
        return self.total_bytes
