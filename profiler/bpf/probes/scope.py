# SPDX-License-Identifier: Apache-2.0
"""The threads that are followed, the settings of the session's probes, and their losses.

The layouts are those of `scope.bpf.h`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from profiler.bpf.probe import Probe

SHARED_SOURCES = ("filter.bpf.h", "scope.bpf.h")
BANKS = 2
#: `struct config`, in words of 32 bits.
CONFIG_BANK, CONFIG_HOST_WIDE, CONFIG_EPOCH = range(3)
CONFIG_ROOT_SLOTS, CONFIG_PLACE_SLOTS, CONFIG_PLACE_FILTER, CONFIG_TYPE_SLOTS = range(3, 7)
#: `struct thread`: eight words of 64 bits, eight of 32.
IDLE_THREAD = bytes(8 * 8 + 8 * 4)

PROBE = Probe(
    name="scope",
    sources=(*SHARED_SOURCES, "scope.bpf.c"),
    tracepoints=(
        "sched:sched_process_fork",
        "sched:sched_process_exec",
        "sched:sched_process_exit",
    ),
)


@dataclass(frozen=True)
class Losses:
    """What the probes could not count: the number of events by reason.

    - `threads_not_followed`: threads that started while the table of threads was full.
    - `calls_not_recorded`: calls of threads for which the table of threads had no room
      (host-wide only).
    - `calls_without_entry`: calls that moved bytes and began before their thread was followed, so
      that it is unknown whether a rule covers them. Not reported host-wide, where threads are not
      known beforehand.
    - `calls_without_exit`: calls that had not ended when their thread ended.
    - `calls_overwritten`: calls that had not ended when their thread began another.
    - `paths_too_deep`: calls on files more than 64 directories deep (WALK_LIMIT).
    - `paths_not_read`: calls whose path could not be read or is longer than ARGUMENT_BYTES
      (`path_calls.bpf.c`), so that it is unknown whether a rule covers them.
    - `aio_requests`: requests to Linux AIO (io_submit), whose end the kernel does not report.
    - `uring_ends_unseen`: requests to io_uring without a completion (IOSQE_CQE_SKIP_SUCCESS), and
      completions while the completion queue was full; the kernel does not report which requests
      these were, so they stay in flight.
    - `probe_runs_missed`: runs that the kernel skipped because another BPF program was active on
      the CPU (`recursion_misses`). For tracepoints the kernel reports it since about Linux 6.7
      ("bpf: Count missed stats in trace_call_bpf", September 2023).
    """

    threads_not_followed: int = 0
    calls_not_recorded: int = 0
    calls_without_entry: int = 0
    calls_without_exit: int = 0
    calls_overwritten: int = 0
    paths_too_deep: int = 0
    paths_not_read: int = 0
    aio_requests: int = 0
    uring_ends_unseen: int = 0
    probe_runs_missed: int = 0

    @property
    def total(self) -> int:
        """The total of all losses."""
        return sum(self.by_reason.values())

    @property
    def by_reason(self) -> dict[str, int]:
        """The number of events by name of the reason."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


#: `enum loss`: every reason but the last, which the kernel counts.
_REASONS = tuple(item.name for item in fields(Losses))[:-1]
KERNEL_REASONS = len(_REASONS)
#: `struct tally`: the losses and the writers of each bank, calls opened, calls closed.
TALLY_WRITERS = BANKS * KERNEL_REASONS
TALLY_WORDS = TALLY_WRITERS + BANKS + 2


def decode_losses(tallies: memoryview[int], bank: int, probe_runs_missed: int) -> Losses:
    """Return the losses of all CPUs in one bank, from the map `tallies` in words of 64 bits."""
    first = bank * KERNEL_REASONS
    counts = [sum(tallies[first + kind :: TALLY_WORDS]) for kind in range(KERNEL_REASONS)]
    return Losses(**dict(zip(_REASONS, counts)), probe_runs_missed=probe_runs_missed)


def decode_writers(tallies: memoryview[int], bank: int) -> int:
    """Return the number of threads that ended a rule's write since the bank was cleared."""
    return sum(tallies[TALLY_WRITERS + bank :: TALLY_WORDS])


def decode_in_flight(tallies: memoryview[int]) -> int:
    """Return the number of calls that have begun and not ended, on all CPUs."""
    closed = sum(tallies[TALLY_WORDS - 1 :: TALLY_WORDS])
    opened = sum(tallies[TALLY_WORDS - 2 :: TALLY_WORDS])  # read last, so it is at least `closed`
    return opened - closed
