# SPDX-License-Identifier: Apache-2.0
"""The lab: emulates the conditions of a slow S3 pull on one host, and removes all of it.

- a volume: sparse file, loop device with direct I/O, XFS or ext4, capped like EBS (`cap.py`)
- an instance's memory: a ballast of huge pages leaves the requested amount available
- a bucket: objects in memory behind an S3 endpoint with S3's latency and rate (`s3_server.py`)

Each change is in the journal `lab` before it is made; `down` undoes exactly these.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from contracts.shared.errors import UsageError
from profiler.lab import places, supervised
from profiler.lab.cap import Cap, CapLimits, cap_from_record, plan_cap
from profiler.lab.emulated import Emulated, from_record
from profiler.lab.follower import CreditsNow, Task, read_now
from profiler.lab.places import NAME, folder, image
from profiler.lab.supervised import ProcessId, is_running
from sysctl.host.host import WRITER, Host, state_directory
from sysctl.host.mount_table import is_below
from sysctl.host.probe import make_file_system
from sysctl.host.sysctls import read_available_bytes
from sysctl.host.system import HostError, System, host_errors

BUCKET = "lab"
PREFIX = "images"
_HUGE_PAGE_BYTES = 2 * 2**20
#: With less available memory the out-of-memory killer would act.
MIN_MEMORY_BYTES = 256 * 2**20


@dataclass(frozen=True)
class LabSpec:
    """What to emulate: rates in bytes/s, sizes in bytes, latency in seconds.

    `emulated` is the EBS volume whose limits and credits the lab's volume has; the cap at the start
    is then its, not the one of `rate_bytes_per_s` and `iops`. None if the cap is fixed.
    """

    memory_bytes: int = 4 * 2**30
    volume_bytes: int = 16 * 2**30
    fstype: str = "xfs"
    rate_bytes_per_s: int = 65_536_000  # 62.5 MiB/s
    iops: int | None = 3000
    object_count: int = 40
    object_bytes: int = 48 * 2**20
    first_byte_latency_s: float = 0.020
    connection_bytes_per_s: int = 90_000_000
    emulated: Emulated | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot be emulated."""
        if self.memory_bytes < MIN_MEMORY_BYTES:
            least = f"{MIN_MEMORY_BYTES >> 20}MiB"
            raise UsageError(f"--memory must be at least {least}", f"use --memory {least} or more")
        for option, value in (
            ("--volume", self.volume_bytes),
            ("--rate", self.rate_bytes_per_s),
            ("--object-size", self.object_bytes),
        ):
            if value < 1:
                raise UsageError(f"{option} must be more than 0", f"use {option} 1MiB or more")

    @property
    def limits(self) -> tuple[CapLimits, ...]:
        """What the cap may be, at the start the first: one if there are no credits."""
        if self.emulated is not None:
            return self.emulated.all_limits()
        return (CapLimits(self.rate_bytes_per_s, self.iops),)


@dataclass(frozen=True)
class Lab:
    """A running lab: its places and what it emulates.

    `server` is the process of its S3 endpoint. `owner` is the process that it was made for (the
    demo) and with which it ends, None if it stays until `lab down`. `follower` is the process that
    follows the credits of the volume, None if it has none.
    """

    endpoint_url: str
    source: str
    destination: str
    device: str
    available_bytes: int
    cap: Cap
    spec: LabSpec
    server: ProcessId
    owner: ProcessId | None = None
    follower: ProcessId | None = None


def up(
    spec: LabSpec, say: Callable[[str], None] = lambda text: None, *, for_this_process: bool = False
) -> Lab:
    """Build the lab and report each step to `say`; undo everything if a step fails.

    What a killed run left is undone first. With `for_this_process` the lab counts as abandoned when
    this process ends, so that `take_back_abandoned` removes it. Raises HostError if a lab is
    already up, and WritewiseError for what the host cannot do.
    """
    with Host.lasting(NAME, "lab up") as host:
        if host.pending() and not _is_abandoned(_read_record(), host.system):
            raise HostError("a lab is already up", "remove it with `writewise lab down`")
        for change in _take_back(host):
            say(f"restored after a killed run: {change}")
        try:
            with host_errors("make the lab"):
                owner = supervised.this_process(host.system) if for_this_process else None
                return _build(host, spec, say, owner)
        except BaseException:
            host.restore()
            raise


def down() -> list[str]:
    """Undo everything that `up` made, also after a crash, and return its descriptions."""
    with Host.lasting(NAME, "lab down") as host:
        return _take_back(host)


def take_back_abandoned(*, dry_run: bool = False) -> list[str]:
    """Remove a lab whose program was killed, not one of `lab up`; return descriptions."""
    with Host.lasting(NAME, "rollback") as host:
        if not host.pending() or not _is_abandoned(_read_record(), host.system):
            return []
        return host.pending() if dry_run else _take_back(host)


def _take_back(host: Host) -> list[str]:
    with host_errors("take the lab down"):
        places.record().unlink(missing_ok=True)  # if this is killed, the lab counts as incomplete
    return host.restore()


def status() -> Lab | None:
    """Return the running lab, or None. Raises HostError for an incomplete or abandoned one."""
    if not Host(state_directory(), NAME).pending():
        return None
    lab = _read_record()
    if _is_abandoned(lab, System()):
        raise HostError(
            "the lab is incomplete, or its program has ended", "remove it with `writewise lab down`"
        )
    return lab


def at(destination: Path) -> Lab | None:
    """Return the running lab if `destination` is on its volume, else None. Raises HostError."""
    return status() if is_below(str(destination), str(folder())) else None


def cap_problem(lab: Lab) -> str | None:
    """Return why the volume's cap is not as it should be; None if it is. Raises HostError.

    A sweep lifts the cap for moments (`uncapped`), which is not a problem.
    """
    system = System()
    if lab.follower and not is_running(system, lab.follower):
        why = supervised.last_line(places.credits_log())
        return "the process that follows the credits of the lab's volume has ended" + (
            f": {why}" if why else ""
        )
    if lab.cap.lost(system) is None or Host(state_directory(), WRITER).is_cap_lifted():
        return None
    lost = lab.cap.lost(system)  # again: a sweep may have just set it
    return f"the cap of the lab's volume is lost: {lost}" if lost else None


def _is_abandoned(lab: Lab | None, system: System) -> bool:
    """Return whether it is incomplete (without a record), or its owner or endpoint has ended."""
    if lab is None:
        return True
    needed = [process for process in (lab.server, lab.owner) if process]
    return not all(is_running(system, process) for process in needed)


def _read_record() -> Lab | None:
    try:
        data = json.loads(places.record().read_text())
        return Lab(**{**data, **_typed(data)})
    except (OSError, ValueError, KeyError, TypeError, UsageError):
        return None


def _typed(data: dict[str, Any]) -> dict[str, Any]:
    processes = {name: data[name] and tuple(data[name]) for name in ("server", "owner", "follower")}
    return {
        "spec": LabSpec(**{**data["spec"], "emulated": from_record(data["spec"]["emulated"])}),
        "cap": cap_from_record(data["cap"]),
        **processes,
    }


def credits_now(lab: Lab) -> CreditsNow | None:
    """Return the credits of a running lab's volume; None if it has none."""
    return read_now() if lab.follower else None


@contextlib.contextmanager
def running(spec: LabSpec, say: Callable[[str], None] = lambda text: None) -> Iterator[Lab]:
    """Run a lab within the block."""
    lab = up(spec, say, for_this_process=True)
    try:
        yield lab
    finally:
        down()


@contextlib.contextmanager
def uncapped(lab: Lab, host: Host) -> Iterator[None]:
    """Lift the volume's cap while files are deleted; `host` sets it again, also after a kill.

    blk-throttle queues any amount that the flusher submits, and queued pages cannot be dropped: at
    62.5 MiB/s, deleting files takes up to 30 s. A real device has a short queue and takes a moment.
    """
    with host.temporary():
        lab.cap.lift(host, image())
        yield


def _build(host: Host, spec: LabSpec, say: Callable[[str], None], owner: ProcessId | None) -> Lab:
    _check_space(host, spec)
    host.make_directory(folder())
    first = spec.limits[0]
    spec = replace(spec, rate_bytes_per_s=first.rate_bytes_per_s, iops=first.iops)
    say(f"a volume of {spec.fstype}, capped at {spec.rate_bytes_per_s / 2**20:.1f} MiB/s")
    device, capped, capped_device = _make_volume(host, spec)
    say(f"{spec.object_count} objects behind an S3 endpoint")
    _make_objects(host, spec)
    endpoint_url, server = _start_server(host, spec)
    follower = None
    if spec.emulated is not None and spec.emulated.path().buckets:
        say(f"the credits of {spec.emulated}")
        follower = _start_follower(host, Task(spec.emulated, capped, capped_device))
    say(f"memory of an instance with {spec.memory_bytes / 2**30:.1f} GiB available")
    lab = Lab(
        endpoint_url=endpoint_url,
        source=f"s3://{BUCKET}/{PREFIX}",
        destination=str(folder() / "volume"),
        device=device,
        available_bytes=_leave_available(host, spec.memory_bytes),
        cap=capped,
        spec=spec,
        server=server,
        owner=owner,
        follower=follower,
    )
    places.record().write_text(json.dumps(asdict(lab), indent=2) + "\n")
    return lab


def _check_space(host: Host, spec: LabSpec) -> None:
    free = shutil.disk_usage(host.directory).free
    needed = spec.object_count * spec.object_bytes + 2**30
    if free < needed:
        raise HostError(
            f"{host.directory} has {free >> 20} MiB free, but the lab needs {needed >> 20} MiB",
            "free space there, or emulate fewer or smaller objects",
        )


def _make_volume(host: Host, spec: LabSpec) -> tuple[str, Cap, str]:
    """Return the volume's device, its cap, and the name of the capped device.

    blk-throttle holds a bio until it may pass as a whole, and write-back makes bios of up to 250
    MiB (XFS, Linux 6.18). An emulated EBS volume gets a second loop device above the capped one,
    whose requests are as small, and whose queue is as short, as those of a real device.
    """
    target = folder() / "volume"
    host.make_sparse_file(image(), spec.volume_bytes)
    capped = device = host.attach_loop_device(image())
    if spec.emulated is not None:
        device = host.stack_loop_device(image(), capped)
    make_file_system(host, spec.fstype, device)
    target.mkdir(mode=0o700)
    host.mount(device, target, spec.fstype)
    name = Path(capped).name
    limits, *others = spec.limits
    cap = plan_cap(host, host.system.read(f"/sys/block/{name}/dev"), limits, others)
    cap.put(host)
    return device, cap, name


def _make_objects(host: Host, spec: LabSpec) -> None:
    """Make the objects in memory (tmpfs), as hard links to a few files."""
    from profiler.lab.s3_objects import make_objects

    root = folder() / "objects"
    root.mkdir(mode=0o700)
    host.mount("tmpfs", root, "tmpfs", "mode=0700,nosuid,nodev,noexec")
    bucket = root / BUCKET
    bucket.mkdir()
    make_objects(
        bucket,
        count=spec.object_count,
        size_bytes=spec.object_bytes,
        prefix=f"{PREFIX}/",
    )


def _start_server(host: Host, spec: LabSpec) -> tuple[str, ProcessId]:
    port_file, log = folder() / "port", folder() / "s3-server.log"
    arguments = [
        *("--root", str(folder() / "objects")),
        *("--port-file", str(port_file)),
        *("--first-byte-latency", str(spec.first_byte_latency_s)),
        *("--rate", str(spec.connection_bytes_per_s)),
    ]
    process, server = supervised.start(host, "profiler.lab.s3_server", arguments, log)

    def port() -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int(port_file.read_text())
        return None

    found = supervised.wait_for(port, process, log, "the lab's S3 endpoint")
    return f"http://127.0.0.1:{found}", server


def _start_follower(host: Host, task: Task) -> ProcessId:
    """Start the process that follows the credits; the cap is already in place."""
    memory, log = places.credits_folder(), places.credits_log()
    memory.mkdir(mode=0o700)
    host.mount("tmpfs", memory, "tmpfs", "size=1m,mode=0700,nosuid,nodev,noexec")
    task.store()
    process, follower = supervised.start(host, "profiler.lab.follower", (), log)
    supervised.wait_for(read_now, process, log, "the process that follows the credits")
    return follower


def _leave_available(host: Host, wanted_bytes: int) -> int:
    """Allocate huge pages until about `wanted_bytes` are available; return the available bytes."""
    host.drop_clean_caches()
    surplus = read_available_bytes(host.system) - wanted_bytes
    if surplus >= _HUGE_PAGE_BYTES:
        host.system.write("/proc/sys/vm/compact_memory", "1")
        present = int(host.system.read("/proc/sys/vm/nr_hugepages"))
        host.set_sysctl("vm.nr_hugepages", present + surplus // _HUGE_PAGE_BYTES)
    return read_available_bytes(host.system)
