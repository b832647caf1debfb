# SPDX-License-Identifier: Apache-2.0
"""A profile session: attaches probes, follows processes, reads counters, detaches probes.

One session serves any number of runs with a `reset` between them, so a sweep compiles once. The
kernel decides which calls count, by process tree (or for the whole host) and by path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from contracts.model import CallType, Contract, Slot
from contracts.shared.errors import UsageError, WritewiseError
from contracts.stats import BUCKET_COUNT, CallStats
from profiler.bpf import loader, paths, starts
from profiler.bpf.disks import BlockDevice, devices_of
from profiler.bpf.filter import ScopeFilter
from profiler.bpf.probe import Probe
from profiler.bpf.probes import block, calls, path_calls, scope, socket_calls, uring, waits
from profiler.bpf.probes.block import DeviceCounters
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats

MAX_THREADS = 65536
#: With at most this many slots the programs are simple (`loader.load`).
_FEW_SLOTS = 4
_HARMLESS = (*waits.HARMLESS, *block.HARMLESS)
_MOVE_DATA = {CallType.READ, CallType.WRITE}
SYSTEM_CALLS = {**calls.SYSTEM_CALLS, **path_calls.SYSTEM_CALLS, **socket_calls.SYSTEM_CALLS}
#: How many directories from a file upwards, including mounts, are compared with the rules' paths.
WALK_LIMIT = 64


@dataclass(frozen=True)
class ProfileSnapshot:
    """What was counted since the session began or was reset.

    `stats` has an entry for each rule of the contract. `in_flight` calls have not returned and are
    in none of them. `stall` covers all followed processes, whatever the path. `writers` is the
    number of threads that ended a rule's write.
    """

    stats: tuple[CallStats, ...]
    losses: Losses
    in_flight: int
    stall: StallStats
    elapsed_ns: int
    writers: int = 0


class ProfileSession:
    """Counts a contract's calls; a context manager.

    The rules' paths are resolved once, on entry; a file renamed over one later is not meant. It
    follows the processes given to `track` and their descendants, or with `host_wide` every process;
    their threads that pass `scope_filter` count. At most `max_threads` threads are followed at a
    time, others are counted as losses. A `compiler` that was started earlier saves time. Without
    `counts_disks` it has no `devices`, because something else counts their requests. Without
    `functions` the probes attach to tracepoints even where the kernel allows functions. Entry
    raises UsageError for a path that cannot be profiled, RequirementError if the host lacks
    something.
    """

    def __init__(
        self,
        contract: Contract,
        *,
        host_wide: bool = False,
        scope_filter: ScopeFilter | None = None,
        max_threads: int = MAX_THREADS,
        compiler: loader.Compiler | None = None,
        counts_disks: bool = True,
        functions: bool = True,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.contract = contract
        self._host_wide = host_wide
        self._filter = scope_filter or ScopeFilter()
        self._max_threads = max_threads
        self._compiler = compiler
        self._counts_disks = counts_disks
        self._functions = functions
        self._clock_ns = clock_ns
        self._slots = _slots_of(contract)
        self._cpus = possible_cpus()
        #: The disks below the paths of the contract's reads and writes; set on entry.
        self.devices: tuple[BlockDevice, ...] = ()

    def __enter__(self) -> ProfileSession:
        root_slots, places = self._resolve()
        routes = self._routes()
        moving = (slot.path for slot in self._slots if {*slot.call_types} & _MOVE_DATA)
        if self._counts_disks:
            self.devices = devices_of(tuple(dict.fromkeys(moving)))
        numbers = {
            "BUCKET_COUNT": BUCKET_COUNT,
            "CPU_COUNT": self._cpus,
            "MAX_THREADS": self._max_threads,
            "SLOT_COUNT": max(1, len(self._slots)),
            "WALK_LIMIT": WALK_LIMIT if places else 0,  # 64 steps take the verifier 0.2 s
            "START_COUNT": max(1, len({route.start for route in routes})),
            "ROUTE_COUNT": max(1, len(routes)),
            **block.numbers(len(self.devices)),
            **self._filter.macros(),
        }
        with contextlib.ExitStack() as on_failure:
            simple = not places and len(self._slots) <= _FEW_SLOTS
            module = loader.load(
                self.probes(), numbers, self._compiler, simple=simple, functions=self._functions
            )
            self._module = on_failure.enter_context(module)
            self._begin(root_slots, places)
            self._insert_routes(routes)
            on_failure.pop_all()
        return self

    def probes(self) -> tuple[Probe, ...]:
        """Return the probes that the contract needs; that of disks once `devices` are known."""
        call_types = {kind for slot in self._slots for kind in slot.call_types}
        filtered = replace(scope.PROBE, members=self._filter.members)
        uring_here = (uring.PROBE,) if call_types & set(uring.CALL_TYPES) else ()
        named = (p.probe_of(call_types) for p in (path_calls, socket_calls))
        others = (probe for probe in named if probe.functions)
        disks = (block.PROBE,) if self.devices else ()
        return filtered, calls.probe_of(call_types), waits.PROBE, *uring_here, *others, *disks

    def _begin(self, root_slots: int, places: dict[paths.Inode, int]) -> None:
        self._tallies = self._module.map_words("tallies")
        self._calls = self._module.map_words("calls")
        self._stalls = self._module.map_words("stalls")
        self._settings = self._module.map_words("settings", "I")
        self._runs_missed_before = 0
        self._stalled_before_ns = 0
        self._start_ns = self._clock_ns()
        self._configure(root_slots, places)

    def __exit__(self, *_: object) -> None:
        self._module.close()

    @property
    def sees_uring(self) -> bool:
        """Whether requests to io_uring are counted, if the contract has calls of their types."""
        wanted = {kind for slot in self._slots for kind in slot.call_types} & set(uring.CALL_TYPES)
        return not wanted or self._module.has_map(uring.MAP)

    @property
    def by_functions(self) -> bool:
        """Whether the probes attached to the functions behind the calls, not to tracepoints."""
        return self._module.by_functions

    @property
    def functions_refused(self) -> str | None:
        """Why they attached to tracepoints, if the kernel refused one of the functions."""
        return self._module.functions_refused

    def device_counters(self) -> DeviceCounters | None:
        """Return the counters of `devices` for all processes, valid until the session ends."""
        if not self.devices:
            return None
        numbers = [device.number for device in self.devices]
        return DeviceCounters(self._module, numbers, self._cpus)

    def track(self, pid: int) -> None:
        """Follow a process: its threads, its descendants and everything they start.

        A descendant whose parent has already ended is not found. Raises UsageError if there is no
        such process, WritewiseError if the table of threads is full.
        """
        if not Path(f"/proc/{pid}/task").is_dir():
            raise UsageError(f"there is no process {pid}", "pass the id of a running process")
        found = True
        while found:  # until none was added: a thread not yet followed may have started another
            found = sum(self._follow(tid) for tid in _threads_below(pid)) > 0

    @contextlib.contextmanager
    def tracking_new(self) -> Iterator[None]:
        """Follow what this thread starts in the block, from the first instruction on."""
        key = struct.pack("=I", _thread_id())
        inserted = self._module.insert("threads", key, scope.IDLE_THREAD)
        try:
            yield
        finally:
            if inserted:
                self._module.remove("threads", key)

    def threads_followed(self) -> int:
        """Return the number of followed threads that have not ended; 0 host-wide."""
        return 0 if self._host_wide else self._module.size("threads")

    def stalled_writers(self) -> dict[tuple[str, str], int]:
        """Command and device → sleeps for dirty throttling that were planned for them, in ns.

        Of all threads in scope since the session began; a reset does not clear them.
        """
        return waits.decode_stalled(self._module.entries(waits.STALLED_MAP))

    def stalled_ns(self) -> int:
        """Return how long threads in scope have slept in dirty throttling since the session began.

        It is summed over all threads; a reset does not clear it.
        """
        return self._stalled_before_ns + waits.slept_ns(self._stalls, self._bank, self._cpus)

    def snapshot(self) -> ProfileSnapshot:
        """Return the counters now; they are exact for calls that have ended."""
        return self._read(self._bank, self._module.runs_missed(_HARMLESS), self._clock_ns())

    def reset(self) -> ProfileSnapshot:
        """Set all counters to zero at one moment, and return their values.

        Every call is in exactly one of the snapshots that resets return: that in which it ended.
        """
        before, runs_missed = self._bank, self._module.runs_missed(_HARMLESS)
        self._clear(1 - before)
        self._settings[scope.CONFIG_BANK] = 1 - before
        self._settings[scope.CONFIG_EPOCH] += 1
        now_ns = self._clock_ns()
        snapshot = self._read(before, runs_missed, now_ns)
        self._stalled_before_ns += snapshot.stall.total_ns
        self._runs_missed_before, self._start_ns = runs_missed, now_ns
        return snapshot

    @property
    def _bank(self) -> int:
        return self._settings[scope.CONFIG_BANK]

    def _read(self, bank: int, runs_missed: int, now_ns: int) -> ProfileSnapshot:
        slots = len(self._slots)
        counted = [
            calls.decode_slot(self._calls, bank, slot, self._cpus, slots) for slot in range(slots)
        ]
        of_slot = dict(zip(self._slots, counted))
        lost_runs = runs_missed - self._runs_missed_before
        return ProfileSnapshot(
            stats=tuple(
                of_slot[rule.slot] if rule.slot else CallStats() for rule in self.contract.rules
            ),
            losses=scope.decode_losses(self._tallies, bank, lost_runs),
            in_flight=scope.decode_in_flight(self._tallies),
            stall=waits.decode_stalls(
                self._stalls, bank, self._cpus, page_bytes=os.sysconf("SC_PAGE_SIZE")
            ),
            writers=scope.decode_writers(self._tallies, bank),
            elapsed_ns=now_ns - self._start_ns,
        )

    def _clear(self, bank: int) -> None:
        """Set a bank to zero that no program writes to."""
        _zero(self._calls, bank * len(self._calls) // 2, len(self._calls) // 2)
        _zero(self._stalls, bank * len(self._stalls) // 2, len(self._stalls) // 2)
        for start in range(0, len(self._tallies), scope.TALLY_WORDS):
            _zero(self._tallies, start + bank * scope.KERNEL_REASONS, scope.KERNEL_REASONS)
            self._tallies[start + scope.TALLY_WRITERS + bank] = 0

    def _resolve(self) -> tuple[int, dict[paths.Inode, int]]:
        """Return the slots of the path `/`, and those of each other path, as bits."""
        root_slots = 0
        places: dict[paths.Inode, int] = {}
        for slot, path in enumerate(slot.path for slot in self._slots):
            if os.path.realpath(path) == "/":
                root_slots |= 1 << slot
            else:
                place = paths.resolve(path)
                places[place] = places.get(place, 0) | 1 << slot
        return root_slots, places

    def _routes(self) -> dict[starts.Route, int]:
        """Return the routes to the rules' paths with their slots, for calls that name a path."""
        slots_of_path: dict[str, int] = {}
        for number, slot in enumerate(self._slots):
            if not path_calls.SYSTEM_CALLS.keys().isdisjoint(slot.call_types):
                slots_of_path[slot.path] = slots_of_path.get(slot.path, 0) | 1 << number
        return starts.routes_of(slots_of_path)

    def _insert_routes(self, routes: dict[starts.Route, int]) -> None:
        numbers = {start: at for at, start in enumerate({route.start: None for route in routes})}
        for start, number in numbers.items():
            key = calls.encode_place(start.device, start.inode_number)
            self._module.insert("starts", key, struct.pack("=I", number))
        for route, slots in routes.items():
            key = path_calls.encode_route(numbers[route.start], route.names)
            self._module.insert("routes", key, struct.pack("=I", slots))

    def _configure(self, root_slots: int, places: dict[paths.Inode, int]) -> None:
        ranges = self._module.map_words("size_ranges")
        for slot, size_range in enumerate(slot.size_range for slot in self._slots):
            most = size_range.max_bytes
            ranges[2 * slot] = size_range.min_bytes
            ranges[2 * slot + 1] = calls.UNBOUNDED_BYTES if most is None else most
        for place, slots in places.items():
            key = calls.encode_place(place.device, place.inode_number)
            self._module.insert("places", key, struct.pack("=I", slots))
            self._settings[scope.CONFIG_PLACE_FILTER] |= 1 << place.inode_number % 32
            self._settings[scope.CONFIG_PLACE_SLOTS] |= slots
        for number, call_type in enumerate(CallType):
            bits = (1 << at for at, slot in enumerate(self._slots) if call_type in slot.call_types)
            self._settings[scope.CONFIG_TYPE_SLOTS + number] = sum(bits)
        self._settings[scope.CONFIG_EPOCH] = 1
        self._settings[scope.CONFIG_ROOT_SLOTS] = root_slots
        self._settings[scope.CONFIG_HOST_WIDE] = self._host_wide

    def _follow(self, tid: int) -> bool:
        """Follow a thread, and return whether it is new. Raises WritewiseError."""
        key = struct.pack("=I", tid)
        try:
            inserted = self._module.insert("threads", key, scope.IDLE_THREAD)
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise
            message = f"there are more than {self._max_threads} threads to follow"
            raise WritewiseError(message, "profile one process, or the whole host") from None
        if inserted and not _is_alive(tid):
            self._module.remove("threads", key)  # another process's thread may get its id
            return False
        return inserted


def _slots_of(contract: Contract) -> tuple[Slot, ...]:
    """Return the slots of all rules, each once. Raises UsageError."""
    for rule in contract.rules:
        for call_type in rule.call_types:
            if call_type not in SYSTEM_CALLS:
                raise UsageError(f"rule {rule.label}: cannot profile {call_type.value} calls")
    slots = contract.slots
    if len(slots) > calls.SLOTS_MAX:
        message = f"the contract has {len(slots)} combinations of path, call types and size range"
        raise UsageError(message, f"split it: at most {calls.SLOTS_MAX} can be profiled together")
    return slots


def possible_cpus() -> int:
    """Return one more than the highest CPU number that the kernel may use."""
    text = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii")
    return int(text.strip().replace("-", ",").split(",")[-1]) + 1


def _threads_below(pid: int) -> list[int]:
    """Return the ids of the threads of a process and its descendants that /proc shows now."""
    import psutil

    processes = [pid]
    with contextlib.suppress(psutil.Error):
        processes += [child.pid for child in psutil.Process(pid).children(recursive=True)]
    threads: list[int] = []
    for process in processes:
        with contextlib.suppress(OSError):
            threads += [int(name) for name in os.listdir(f"/proc/{process}/task")]  # noqa: PTH208
    return threads


def _is_alive(tid: int) -> bool:
    """Return whether a thread may still run; a zombie may not."""
    try:
        status = Path(f"/proc/{tid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def _thread_id() -> int:
    import threading

    return threading.get_native_id()


def _zero(words: memoryview[int], start: int, count: int) -> None:
    words[start : start + count] = memoryview(bytes(8 * count)).cast("Q")
