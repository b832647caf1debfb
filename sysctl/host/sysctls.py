# SPDX-License-Identifier: Apache-2.0
"""Reading and writing sysctls, with the hazards of the ratio/bytes pairs handled in one place.

The hazards (kernel mm/page-writeback.c, as of Linux 6.18): writing one member of a pair sets the
other to 0; restoring a saved 0 would leave both at 0; background must stay below dirty at every
step, or the kernel temporarily uses half of dirty.
"""

from __future__ import annotations

from collections.abc import Mapping

from contracts.shared.text import quoted
from sysctl.host.system import HostError, System
from sysctl.knobs.setting import threshold_bytes
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR, KNOBS
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds

_MAX_DIGITS = 20  # of 2**64


def sysctl_path(name: str) -> str:
    """`vm.dirty_ratio` → `/proc/sys/vm/dirty_ratio`."""
    return "/proc/sys/" + name.replace(".", "/")


def read_sysctl(system: System, name: str) -> int:
    """Return the current value. Raises HostError."""
    return whole_number(system.read(sysctl_path(name)), name)


def whole_number(text: str, name: str) -> int:
    """Return the number in a file of the kernel. Raises HostError for anything else."""
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    raise HostError(f"{name} reads {quoted(text)}, which is not a number")


def write_sysctl(system: System, name: str, value: int) -> None:
    """Write one value and read it back. Raises HostError if the kernel did not accept it."""
    system.write(sysctl_path(name), str(value))
    present = read_sysctl(system, name)
    if present != value:
        raise HostError(f"{name} was set to {value} but reads back as {present}")


def read_writeback(system: System) -> dict[str, int]:
    """Return the write-back sysctls in force: only the non-zero member of each pair."""
    names = [knob.name for knob in KNOBS if system.exists(sysctl_path(knob.name))]
    values = {name: read_sysctl(system, name) for name in names}

    def is_set(name: str, value: int) -> bool:
        counterpart = BY_NAME[name].counterpart
        if counterpart is None or value:
            return True
        # Both may be 0, for a background threshold of 0, which is possible only as a ratio.
        return not values.get(counterpart) and name.endswith("_ratio")

    return {name: value for name, value in values.items() if is_set(name, value)}


def write_writeback(system: System, wanted: Mapping[str, int]) -> None:
    """Set write-back sysctls in an order that is valid at each step, and read each back.

    Values already in force are not written. After a failure the others are still set; then the
    first HostError is raised.
    """
    failures: list[HostError] = []
    present = read_writeback(system)
    for name in _order(present, wanted, dirtyable_bytes(system)):
        if present.get(name) != wanted[name]:
            try:
                write_sysctl(system, name, wanted[name])
            except HostError as error:
                failures.append(error)
    if failures:
        raise failures[0]


def _order(present: Mapping[str, int], wanted: Mapping[str, int], dirtyable: int) -> list[str]:
    """Return the order of writing: the dirty threshold is raised first, or lowered last."""
    raised = threshold_bytes(wanted, DIRTY_PAIR, dirtyable) >= threshold_bytes(
        present, DIRTY_PAIR, dirtyable
    )
    first, second = (DIRTY_PAIR, BACKGROUND_PAIR) if raised else (BACKGROUND_PAIR, DIRTY_PAIR)
    ranks = {**dict.fromkeys(first, 0), **dict.fromkeys(second, 1)}
    return sorted(wanted, key=lambda name: (ranks.get(name, 2), name))


def read_thresholds(system: System) -> Thresholds:
    """Return the kernel's current thresholds, from /proc/vmstat."""
    names = ("nr_dirty_background_threshold", "nr_dirty_threshold")
    return Thresholds(*_vmstat_bytes(system, *names))


def read_dirtied_bytes(system: System) -> int:
    """Return the bytes dirtied on the host since it booted; a page counts each time."""
    return _vmstat_bytes(system, "nr_dirtied")[0]


def read_dirty_bytes(system: System) -> int:
    """Return the bytes that are now dirty or under write-back on the host.

    Both are of one reading: a page that moves from one to the other counts once.
    """
    return sum(_vmstat_bytes(system, "nr_dirty", "nr_writeback"))


def _vmstat_bytes(system: System, *names: str) -> list[int]:
    """Return fields of /proc/vmstat at one moment."""
    found = read_vmstat(system)
    return [
        whole_number(found.get(name, ""), f"{name} of /proc/vmstat") * PAGE_BYTES for name in names
    ]


def read_vmstat(system: System) -> dict[str, str]:
    """Return the fields of /proc/vmstat by name. Raises HostError."""
    fields = (line.partition(" ") for line in system.read("/proc/vmstat").splitlines())
    return {field: value for field, _, value in fields}


def dirtyable_bytes(system: System) -> int:
    """Return the memory of which the dirty ratios are a percentage: free and file pages.

    Reserves are not included, and user space cannot read them. So it is calculated from the
    kernel's own thresholds if one of them is a ratio; else it is MemAvailable, which is similar.
    """
    thresholds = read_thresholds(system)
    for name, threshold in (
        ("vm.dirty_ratio", thresholds.dirty_bytes),
        ("vm.dirty_background_ratio", thresholds.background_bytes),
    ):
        ratio = read_sysctl(system, name)
        if ratio:
            return threshold * 100 // ratio
    return read_available_bytes(system)


def read_available_bytes(system: System) -> int:
    """Return MemAvailable of /proc/meminfo, in bytes. Raises HostError."""
    return read_meminfo_bytes(system, "MemAvailable")


def read_total_bytes(system: System) -> int:
    """Return the memory in bytes for programs and files, from /proc/meminfo. Raises HostError.

    It is constant while the host runs: MemTotal less reserved huge pages.
    """
    set_aside_bytes = read_meminfo_bytes(system, "Hugetlb", default=0)  # since Linux 4.16
    return read_meminfo_bytes(system, "MemTotal") - set_aside_bytes


def read_meminfo_bytes(system: System, name: str, default: int | None = None) -> int:
    """Return a field of /proc/meminfo, in bytes; the default if missing. Raises HostError."""
    lines = (line.partition(":") for line in system.read("/proc/meminfo").splitlines())
    words = {field: value.split() for field, _, value in lines}.get(name, [])
    if not words and default is not None:
        return default
    return whole_number(words[0] if words else "", f"{name} of /proc/meminfo") * 1024
