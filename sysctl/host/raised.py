# SPDX-License-Identifier: Apache-2.0
"""The change of `writewise govern`: thresholds that are raised for a burst.

One journal entry stands for a whole raise, during which the background threshold follows the burst
in steps that the entry lists. A value that is neither one of these nor the original was written by
another program: it is reported and not restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sysctl.host.sysctls import read_writeback, write_writeback
from sysctl.host.system import System
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR


@dataclass(frozen=True)
class RaisedThresholds:
    """The original thresholds, the raised one, and the background thresholds that may go with it.

    `originals` has the non-zero member of each pair.
    """

    kind: ClassVar[str] = "raised-thresholds"
    originals: Mapping[str, int]
    dirty_bytes: int
    backgrounds: tuple[int, ...]

    def undo(self, system: System) -> None:
        """Restore the originals of what is still as raised, and read them back.

        A dirty threshold that is written also lowers the limit at which the kernel throttles, which
        else would fall slowly (`writeback_set_ratelimit()` in mm/page-writeback.c, Linux 6.18).
        """
        write_writeback(system, self._to_restore(system))

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would write now, in words; None if that is nothing."""
        return _words(self._to_restore(system)) or None

    def left_alone(self, system: System) -> list[str]:
        """Return a sentence for each threshold that another program has changed since."""
        return [
            f"{_words(present)} is neither the raised value ({_words(raised[0])}) nor the original "
            f"({_words(original)}): it was changed since and is not restored"
            for present, raised, original in self._pairs(system)
            if present != original and present not in raised
        ]

    def _to_restore(self, system: System) -> dict[str, int]:
        return {
            name: value
            for present, raised, original in self._pairs(system)
            if present != original and present in raised
            for name, value in original.items()
        }

    def _pairs(
        self, system: System
    ) -> Iterator[tuple[dict[str, int], list[dict[str, int]], dict[str, int]]]:
        """Yield the current value, those of the raise, and the original, of each threshold."""
        present = read_writeback(system)
        for pair, raised in (
            (DIRTY_PAIR, (self.dirty_bytes,)),
            (BACKGROUND_PAIR, self.backgrounds),
        ):
            of_raise = [{pair[1]: value} for value in raised]
            yield _of(present, pair), of_raise, _of(self.originals, pair)

    def __str__(self) -> str:
        return _words(self.originals)


def _of(values: Mapping[str, int], names: tuple[str, ...]) -> dict[str, int]:
    return {name: values[name] for name in names if name in values}


def _words(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
