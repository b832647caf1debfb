# SPDX-License-Identifier: Apache-2.0
"""A running guest: booted under QEMU without KVM, reached by SSH on the loopback interface."""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.guests.catalogue import Guest
from tests.guests.images import INSTALLED, Bootable, bootable, copy_program

BOOT_TIMEOUT_S = 400
MEMORY = "4G"
#: EBS volumes have such serial numbers.
NVME_SERIAL = "vol0123456789abcdef"
DEVICE_BYTES = 4 << 30
#: A second disk, /dev/vdb, takes so much a second, whoever writes: control groups need no cap.
SLOW_BYTES_PER_S = 20 << 20
#: Emulated CPUs do not have the flaws that the mitigations work around.
KERNEL_COMMAND_LINE = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off"
#: One thread for both CPUs: with two, QEMU 7.2 hung in a breakpoint of Linux 6.1 (`int3` of a
#: static key that the other CPU was changing).
_CPUS = ("-accel", "tcg,thread=single", "-smp", "2")
#: The guest's clock counts instructions: 2 ns each, however busy the host is.
_COUNTING_CPU = ("-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=1,sleep=off")


#: The running guests, and whether no more may boot.
_running: set[Machine] = set()
_is_stopping = threading.Event()


def stop_machines() -> None:
    """End every guest, so that all waits for a guest end."""
    _is_stopping.set()
    for machine in list(_running):
        machine.kill()


class GuestError(Exception):
    """A guest that does not boot or answer; the message ends with its console's output."""


class Machine:
    """A guest with its own disk over the image: its writes are lost when its folder is removed."""

    def __init__(
        self,
        guest: Guest,
        folder: Path,
        *,
        counts_instructions: bool = False,
        slow_bytes_per_s: int = SLOW_BYTES_PER_S,
    ) -> None:
        self.guest = guest
        self.folder = folder
        self.boot_s = 0.0
        self._files: Bootable = bootable(guest)
        self._cpus = _COUNTING_CPU if counts_instructions else _CPUS
        self._slow_bytes_per_s = slow_bytes_per_s
        self._qemu: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._make_disks()

    def _make_disks(self) -> None:
        backing = ["-F", "raw", "-b", str(self._files.disk)]
        create = ["qemu-img", "create", "-q", "-f", "qcow2", *backing]
        subprocess.run([*create, str(self.folder / "disk.qcow2")], check=True)
        for name in ("nvme.img", "slow.img"):
            with (self.folder / name).open("wb") as file:
                file.truncate(DEVICE_BYTES)

    @property
    def console(self) -> Path:
        """The file that the guest's serial console is written to."""
        return self.folder / "console.log"

    def boot(self) -> None:
        """Start QEMU and wait until the guest accepts commands.

        Raises:
            GuestError: It ends, or does not answer in time.
        """
        started_s = time.monotonic()
        self._port = _free_port()
        _running.add(self)
        self._qemu = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL)
        self.wait()
        self.boot_s = time.monotonic() - started_s

    def _command(self) -> list[str]:
        disk, nvme, slow = (self.folder / f for f in ("disk.qcow2", "nvme.img", "slow.img"))
        throttle = f"throttling.bps-write={self._slow_bytes_per_s}"
        return [
            *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-sandbox", "on"),
            *(*self._cpus, "-cpu", "max", "-machine", "q35", "-nodefaults"),
            *("-m", MEMORY, "-display", "none"),
            *("-serial", f"file:{self.console}", "-device", "virtio-rng-pci"),
            *("-kernel", str(self._files.kernel), "-initrd", str(self._files.initrd)),
            *("-append", KERNEL_COMMAND_LINE),
            *("-drive", f"file={disk},if=virtio,format=qcow2"),
            *("-drive", f"file={slow},if=virtio,format=raw,discard=unmap,{throttle}"),
            *("-drive", f"file={nvme},if=none,id=nvme,format=raw,discard=unmap"),
            *("-device", f"nvme,serial={NVME_SERIAL},drive=nvme"),
            *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22"),
            *("-device", "virtio-net-pci,netdev=net"),
        ]

    def wait(self) -> None:
        """Wait until the guest accepts commands; also while it reboots."""
        deadline_s = time.monotonic() + BOOT_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if _is_stopping.is_set() or not self._qemu or self._qemu.poll() is not None:
                raise GuestError(f"QEMU of {self.guest.name} ended: {self._last_words()}")
            if self.run("true", check=False, timeout_s=30).returncode == 0:
                return
            time.sleep(1)
        raise GuestError(f"{self.guest.name} did not answer in time: {self._last_words()}")

    def _last_words(self) -> str:
        said = self.console.read_bytes() if self.console.exists() else b""
        return said[-2000:].decode(errors="replace")

    def run(
        self, *command: object, check: bool = True, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the guest as root, in the program's folder.

        Raises:
            subprocess.CalledProcessError: It failed, and `check` is set.
            GuestError: It did not end in time.
        """
        text = shlex.join(map(str, command))
        line = [*self.ssh(), f"cd {INSTALLED} && PATH={INSTALLED}/.venv/bin:$PATH {text}"]
        try:
            return subprocess.run(
                line, capture_output=True, text=True, check=check, timeout=timeout_s
            )
        except subprocess.TimeoutExpired as error:
            if command == ("true",):
                return subprocess.CompletedProcess(line, 255, "", "")
            raise GuestError(f"{text} took more than {timeout_s} s in {self.guest.name}") from error

    def start(self, *command: object) -> subprocess.Popen[str]:
        """Start a command in the guest; stdout and stderr are one stream."""
        line = f"cd {INSTALLED} && PATH={INSTALLED}/.venv/bin:$PATH {shlex.join(map(str, command))}"
        return subprocess.Popen(
            [*self.ssh(), line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def ssh(self) -> list[str]:
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
        chosen = [word for option in (*options, "ConnectTimeout=10") for word in ("-o", option)]
        where = ("-i", str(self._files.key), "-p", str(self._port), "root@127.0.0.1")
        return ["ssh", "-F", "none", *chosen, *where]

    def copy_program(self) -> None:
        """Replace the image's work tree by this one, with uncommitted changes."""
        kept = ("!", "-name", ".venv", "!", "-name", "*.egg-info")
        old = ("find", INSTALLED, "-mindepth", 1, "-maxdepth", 1, *kept)
        self.run(*old, "-exec", "rm", "-rf", "{}", "+")
        copy_program([*self.ssh(), f"tar --extract --directory {INSTALLED}"])

    def copy_file(self, file: Path, path: str) -> None:
        """Copy a file of the host to a path in the guest."""
        with file.open("rb") as source:
            subprocess.run([*self.ssh(), f"cat >{shlex.quote(path)}"], stdin=source, check=True)

    def read(self, path: str) -> str:
        """Return the content of a file of the guest."""
        return self.run("cat", path).stdout

    def reboot(self) -> None:
        """Reboot normally: services are stopped, disks are flushed."""
        boot_id = self.read("/proc/sys/kernel/random/boot_id")
        self.run("systemctl", "reboot", check=False)
        deadline_s = time.monotonic() + BOOT_TIMEOUT_S
        while time.monotonic() < deadline_s:
            self.wait()
            answer = self.run("cat", "/proc/sys/kernel/random/boot_id", check=False)
            if answer.returncode == 0 and answer.stdout != boot_id:
                return
            time.sleep(1)
        raise GuestError(f"{self.guest.name} did not reboot: {self._last_words()}")

    def wait_for_end(self) -> None:
        """Wait until QEMU has ended."""
        if self._qemu:
            self._qemu.wait()

    def power_cut(self) -> None:
        """Cut the guest's power, and boot it again from the state of its disks."""
        self.kill()
        self.boot()

    def kill(self) -> None:
        """Kill QEMU; do nothing if it has already ended."""
        _running.discard(self)
        if self._qemu:
            self._qemu.kill()
            self._qemu.wait()
            self._qemu = None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def booted(
    guest: Guest, *, counts_instructions: bool = False, slow_bytes_per_s: int = SLOW_BYTES_PER_S
) -> Iterator[Machine]:
    """Boot a guest with the current work tree; remove it and its disks at the end."""
    with tempfile.TemporaryDirectory(prefix=f"writewise-{guest.name}-") as folder:
        machine = Machine(
            guest,
            Path(folder),
            counts_instructions=counts_instructions,
            slow_bytes_per_s=slow_bytes_per_s,
        )
        try:
            machine.boot()
            machine.copy_program()
            yield machine
        finally:
            machine.kill()
