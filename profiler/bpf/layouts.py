# SPDX-License-Identifier: Apache-2.0
"""The kernel structures that the probes need, found in BTF and not by the kernel's version."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.shared.errors import RequirementError
from profiler.bpf.btf import Btf
from profiler.bpf.probe import Probe


def is_supported(probe: Probe, btf: Btf | None) -> bool:
    """Return whether the kernel has what the probe measures; otherwise the probe is left out."""
    return not probe.structure or (btf is not None and btf.has_structure(probe.structure))


def offsets(probes: Sequence[Probe], btf: Btf | None) -> dict[str, int]:
    """Return the value of each macro for the probes' members. Raises RequirementError."""
    members = {macro: path for probe in probes for macro, path in probe.members.items()}
    return {macro: _offset(btf, macro, path) for macro, path in members.items()} if btf else {}


def _offset(btf: Btf, macro: str, path: tuple[str, ...]) -> int:
    return btf.offset_bits(*path) % 8 if macro.startswith("BIT_") else btf.offset_bytes(*path)


def missing_members(probes: Sequence[Probe], btf: Btf) -> list[str]:
    """Return the members that the probes read and this kernel lacks, such as `request_queue.disk`.

    Probes that are left out on this kernel do not count.
    """
    needed = (p for probe in probes if is_supported(probe, btf) for p in probe.members.values())
    return [".".join(path) for path in dict.fromkeys(needed) if not _has_member(btf, path)]


def _has_member(btf: Btf, path: tuple[str, ...]) -> bool:
    try:
        btf.offset_bits(*path)
    except RequirementError:
        return False
    return True
