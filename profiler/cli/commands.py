"""The explicit tuple of commands, in the order in which `writewise --help` lists them."""

from __future__ import annotations

from types import ModuleType

from profiler.cli import contract, doctor, profile, pull

ALL: tuple[ModuleType, ...] = (profile, pull, contract, doctor)
