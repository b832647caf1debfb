# SPDX-License-Identifier: Apache-2.0
"""A host of files for the tests of apply, and a program that is killed at any step."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from unittest import mock

from profiler.running import run
from sysctl.apply import state
from sysctl.host import holding, host, lock
from sysctl.host import system as host_system
from sysctl.host.sysctls import write_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.vm import KNOBS

SYSCTLS = {knob.name.removeprefix("vm."): knob.kernel_default for knob in KNOBS}
_LINE = re.compile(r"^(vm\.dirty\w+) = (\d+)$", re.MULTILINE)
MOUNTINFO = "40 22 7:0 / /data rw,nosuid,relatime - ext4 /dev/loop0 rw\n"


class FilesHost(System):
    """Write-back sysctls as the kernel keeps them, one disk, one mount, and a log of commands.

    The background threshold must always be below the dirty one: `invalid` lists each violation.
    """

    def __init__(self, root, boot_id="boot-1"):
        super().__init__(root, run=self.run_command)
        self.commands, self.invalid = [], []
        for name, value in SYSCTLS.items():
            self.put(f"/proc/sys/vm/{name}", value)
        self.set_memory(2**32)
        self.put("/proc/sys/kernel/random/boot_id", boot_id)
        self.put("/proc/self/mountinfo", MOUNTINFO)
        self.put("/sys/dev/block/7:0/dev", "7:0")
        self.put("/sys/dev/block/7:0/queue/scheduler", "[mq-deadline] none")
        for file, text in {
            "dev": "7:0",
            "mq/0/nr_tags": "128",
            "queue/scheduler": "[mq-deadline] none",
            "queue/nr_requests": "256",
            "queue/read_ahead_kb": "128",
        }.items():
            self.put(f"/sys/block/7:0/{file}", text)
        (root / "etc/sysctl.d").mkdir(parents=True, exist_ok=True)
        (root / "etc/systemd/system").mkdir(parents=True, exist_ok=True)

    def put(self, path, value):
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(f"{value}\n")

    def set_memory(self, dirtyable_bytes):
        """Set the dirtyable memory; the host has twice as much."""
        self.dirtyable_bytes = dirtyable_bytes
        total, available = dirtyable_bytes * 2 // 1024, dirtyable_bytes // 1024
        self.put("/proc/meminfo", f"MemTotal: {total} kB\nMemAvailable: {available} kB")
        self.put_thresholds()
        return self

    def put_thresholds(self):
        """Write the thresholds that the kernel computes from the sysctls, in pages of 4 KiB."""
        dirty, background = (
            int(percent * self.dirtyable_bytes / 100) // 4096 for percent in self.percentages()
        )
        self.put(
            "/proc/vmstat",
            f"nr_dirty 0\nnr_writeback 0\nnr_dirty_threshold {dirty}\n"
            f"nr_dirty_background_threshold {background}",
        )

    def with_systemd(self):
        (self.root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
        return self

    def reboot(self):
        """Reset sysctls, knobs and timers as a boot does; files stay, and sysctl.d is applied."""
        number = int(self.boot_id().rpartition("-")[2]) + 1
        booted = FilesHost(self.root, f"boot-{number}").set_memory(self.dirtyable_bytes)
        for name, text in sorted(booted.files().items()):
            if name.startswith("sysctl.d/"):
                write_writeback(booted, {n: int(v) for n, v in _LINE.findall(text)})
        return booted

    def write(self, absolute, text):
        super().write(absolute, text)
        self._become(absolute, text)

    def _become(self, absolute, text):
        name = absolute.rpartition("/")[2]
        if name == "scheduler":
            self.put(absolute, "[none] mq-deadline" if text == "none" else "[mq-deadline] none")
            self.put(absolute.replace("scheduler", "nr_requests"), 64 if text == "none" else 256)
            return
        self.put(absolute, text)
        if name.endswith(("_ratio", "_bytes")):
            self.put(
                absolute.replace("ratio", "x").replace("bytes", "ratio").replace("x", "bytes"), 0
            )
        self.put_thresholds()
        percent = self.percentages()
        if percent[1] >= percent[0]:
            self.invalid.append(percent)

    def percentages(self):
        """Return the dirty and background thresholds, in percent of dirtyable memory."""
        values = self.values()
        return [
            values[f"{name}ratio"] or values[f"{name}bytes"] * 100 / self.dirtyable_bytes
            for name in ("dirty_", "dirty_background_")
        ]

    def values(self):
        return {name: int(self.read(f"/proc/sys/vm/{name}")) for name in SYSCTLS}

    def files(self):
        folder = self.root / "etc"
        return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}

    def state(self):
        """Return everything that apply changes, for comparison."""
        queue = {
            name: self.read(f"/sys/block/7:0/queue/{name}")
            for name in ("scheduler", "nr_requests", "read_ahead_kb")
        }
        return {**self.values(), **queue, "files": self.files(), "mounts": self.mounts()}

    def run_command(self, argv):
        self.commands.append(list(argv))
        if argv[0] == "systemd-run":
            self.put("/run/systemd/transient/writewise-revert.timer", "")
        elif argv[:2] == ["systemctl", "stop"]:
            self.path(f"/run/systemd/transient/{argv[2]}").unlink()
        elif argv[0] == "mount":
            option = "noatime" if "noatime" in argv[argv.index("-o") + 1] else "relatime"
            self.put("/proc/self/mountinfo", MOUNTINFO.replace("relatime", option))
        elif argv[0] == "umount":
            raise HostError("nothing is unmounted here")
        return ""


def in_place_of_this_host(monkeypatch, files):
    """Make every command use `files`; a command that touches the real host fails."""
    real = System.__init__

    def made(self, root=None, *arguments, **options):
        assert root is not None, "a unit test must not work on the real host"
        real(self, root, *arguments, **options)

    monkeypatch.setattr(System, "__init__", made)
    for module in (host_system, holding, host, lock, run, state):
        monkeypatch.setattr(module, "System", lambda *_: files)


class Killed(BaseException):
    """The program was killed: none of its code runs any more."""


@contextlib.contextmanager
def killed_at(step, system):
    """Let no call from the `step`-th one on have an effect; half of a write is done.

    Count only calls that leave a trace. Yield a list with one item per step done. Other threads
    go on, because an earlier test may have left one that opens files, too.
    """
    made: list[str] = []
    mortal = threading.get_ident()

    def dying(original):
        def call(*arguments, **options):
            if threading.get_ident() != mortal:
                return original(*arguments, **options)
            if len(made) >= step or "dead" in made[-1:]:
                if original is os.write and len(made) == step:
                    original(arguments[0], arguments[1][: len(arguments[1]) // 2])
                made.append("dead")
                raise Killed
            made.append(original.__name__)
            return original(*arguments, **options)

        return call

    names = ("open", "write", "fsync", "fchmod", "rename", "unlink", "ftruncate", "replace")
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(mock.patch.object(os, name, dying(getattr(os, name))))
        stack.enter_context(mock.patch.object(system, "write", dying(system.write)))
        stack.enter_context(mock.patch.object(system, "run", dying(system.run)))
        with contextlib.suppress(Killed):
            yield made


@contextlib.contextmanager
def killed_in(owner, name, system):
    """Do as `killed_at`, when the method `name` of `owner` is called."""
    with killed_at(sys.maxsize, system) as made:

        def die(*_, **__):
            made.append("dead")
            raise Killed

        with mock.patch.object(owner, name, die):
            yield made
