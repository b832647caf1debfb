# SPDX-License-Identifier: Apache-2.0
"""Our mount namespaces do not keep a volume busy that another program unmounts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import REPOSITORY
from tests.root.hosts import SLOWNESS
from tests.root.mount_namespaces import apart

#: Mount a volume, start a process with its own namespace, then unmount the volume and detach its
#: device while the process is alive.
SCRIPT = """
import os, subprocess, sys
from pathlib import Path
from tests.root.labs import wait_until

folder = Path(sys.argv[1])
image, target = folder / "image", folder / "a volume"
image.write_bytes(bytes(8 << 20))
target.mkdir()
run = lambda *words: subprocess.run(words, check=True, capture_output=True, text=True).stdout
run("mkfs.ext4", "-q", image)
device = run("losetup", "--find", "--show", image).strip()
run("mount", device, target)
namespace = lambda pid: os.readlink(f"/proc/{pid}/ns/mnt")
holds = lambda pid: device in Path(f"/proc/{pid}/mountinfo").read_text()
is_attached = lambda: device in run("losetup", "--list", "--noheadings", "--output", "NAME").split()
pid = start()
assert wait_until(lambda: namespace(pid) != namespace("self"), 60)
wait_until(lambda: not holds(pid), 5)
run("umount", target)
run("losetup", "--detach", device)  # of a device that is busy the kernel postpones it
wait_until(lambda: not is_attached(), 5)
assert namespace(pid) != namespace("self")
print("busy" if is_attached() else "free", flush=True)
os._exit(0)
"""
COMPILER = """
from profiler.bpf.loader import Compiler
def start():
    global compiler
    compiler = Compiler()
    return compiler.pid
"""
PROGRAM = """
import subprocess
from profiler.bpf.compiler import keep_mounts_to_itself
from contracts.shared.processes import die_with_parent
def start():
    prepare = lambda: (die_with_parent(os.getppid()), keep_mounts_to_itself(["/usr/bin/sleep"]))
    return subprocess.Popen(["sleep", "60"], preexec_fn=prepare).pid
"""


@pytest.mark.parametrize("propagation", ["private", "shared"])
@pytest.mark.parametrize("starting", [COMPILER, PROGRAM], ids=["compiler", "program"])
def test_a_volume_can_be_unmounted_and_detached(
    starting: str, propagation: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", starting + SCRIPT, tmp_path]
    command = [*apart("", propagation=propagation), *map(str, words)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120 * SLOWNESS
    )
    assert (done.stdout, done.stderr) == ("free\n", "")
