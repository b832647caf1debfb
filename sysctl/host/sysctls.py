"""Reading and writing sysctls, with the hazards of the ratio/bytes pairs handled in one place.

The hazards (kernel mm/page-writeback.c, as of Linux 6.18): writing one member of a pair zeroes the
other; writing back a snapshotted 0 would leave both zero; and background must stay below dirty at
every step, or the kernel halves it for that moment.
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
    """The present value. Raises HostError."""
    return whole_number(system.read(sysctl_path(name)), name)


def whole_number(text: str, name: str) -> int:
    """The number that a file of the kernel holds. Raises HostError for anything else."""
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    raise HostError(f"{name} reads {quoted(text)}, which is no number")


def write_sysctl(system: System, name: str, value: int) -> None:
    """Write one value and read it back. Raises HostError when the kernel did not take it."""
    system.write(sysctl_path(name), str(value))
    present = read_sysctl(system, name)
    if present != value:
        raise HostError(f"{name} was set to {value} but reads back as {present}")


def read_writeback(system: System) -> dict[str, int]:
    """The write-back sysctls that mean something: of each pair the non-zero member only."""
    values = {knob.name: read_sysctl(system, knob.name) for knob in KNOBS}

    def is_set(name: str, value: int) -> bool:
        counterpart = BY_NAME[name].counterpart
        if counterpart is None or value:
            return True
        # Both may be 0, a background threshold of 0: the kernel takes that as a ratio only.
        return not values[counterpart] and name.endswith("_ratio")

    return {name: value for name, value in values.items() if is_set(name, value)}


def write_writeback(system: System, wanted: Mapping[str, int]) -> None:
    """Set write-back sysctls in an order that is valid at each step, reading each back.

    Values that are already there are not written. After a failure the others are still set; then
    raises HostError with the first.
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
    """Raise the dirty threshold before the background one, lower it after."""
    raised = threshold_bytes(wanted, DIRTY_PAIR, dirtyable) >= threshold_bytes(
        present, DIRTY_PAIR, dirtyable
    )
    first, second = (DIRTY_PAIR, BACKGROUND_PAIR) if raised else (BACKGROUND_PAIR, DIRTY_PAIR)
    ranks = {**dict.fromkeys(first, 0), **dict.fromkeys(second, 1)}
    return sorted(wanted, key=lambda name: (ranks.get(name, 2), name))


def read_thresholds(system: System) -> Thresholds:
    """What the kernel makes of the present settings, from /proc/vmstat."""
    return Thresholds(
        background_bytes=_vmstat_bytes(system, "nr_dirty_background_threshold"),
        dirty_bytes=_vmstat_bytes(system, "nr_dirty_threshold"),
    )


def read_dirtied_bytes(system: System) -> int:
    """What was dirtied on the host since it booted, a page each time anew."""
    return _vmstat_bytes(system, "nr_dirtied")


def read_dirty_bytes(system: System) -> int:
    """What is dirty or under write-back on the host now."""
    return _vmstat_bytes(system, "nr_dirty") + _vmstat_bytes(system, "nr_writeback")


def _vmstat_bytes(system: System, name: str) -> int:
    value = read_vmstat(system).get(name, "")
    return whole_number(value, f"{name} of /proc/vmstat") * PAGE_BYTES


def read_vmstat(system: System) -> dict[str, str]:
    """Return the fields of /proc/vmstat by name. Raises HostError where there is none."""
    fields = (line.partition(" ") for line in system.read("/proc/vmstat").splitlines())
    return {field: value for field, _, value in fields}


def dirtyable_bytes(system: System) -> int:
    """Memory that the dirty ratios are a percentage of: free and file pages less reserves.

    Taken from the kernel's own thresholds where one of them is a ratio, since what counts as
    reserve is not told to user space; else from MemAvailable, which is near it.
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
    """MemAvailable of /proc/meminfo, in bytes. Raises HostError."""
    return read_meminfo_bytes(system, "MemAvailable")


def read_total_bytes(system: System) -> int:
    """Memory in bytes that programs and files may take, by /proc/meminfo. Raises HostError.

    It stays while the host runs: MemTotal, less the huge pages that somebody set aside.
    """
    set_aside_bytes = read_meminfo_bytes(system, "Hugetlb", default=0)  # since Linux 4.16
    return read_meminfo_bytes(system, "MemTotal") - set_aside_bytes


def read_meminfo_bytes(system: System, name: str, default: int | None = None) -> int:
    """A line of /proc/meminfo, in bytes, or the default where there is none. Raises HostError."""
    lines = (line.partition(":") for line in system.read("/proc/meminfo").splitlines())
    words = {field: value.split() for field, _, value in lines}.get(name, [])
    if not words and default is not None:
        return default
    return whole_number(words[0] if words else "", f"{name} of /proc/meminfo") * 1024
