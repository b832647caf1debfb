# SPDX-License-Identifier: Apache-2.0
"""Make the images that guests boot from, and keep them until their inputs change.

An image has two layers, each a folder of the cache named by a hash of its inputs: the distribution
with its kernels (mmdebstrap), and the same after `tools/setup test`, as ext4. The program itself is
not in an image; it is copied into the booted guest.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.guests.catalogue import KERNEL_COMPANIONS, PACKAGES, Guest, Image

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
ENTER = HERE / "enter"
#: The program's folder in a guest.
INSTALLED = "/opt/writewise"
#: All files that determine what tools/setup installs.
SETUP_FILES = ("tools/setup", "profiler/packages.tsv", "setup.py", "pyproject.toml")
DISK_BYTES = 12 << 30
MADE_ANEW_S = 30 * 24 * 3600
KEPT_UNUSED_S = 7 * 24 * 3600
#: What the kernel needs to find its root file system under QEMU.
INITRAMFS_MODULES = ("virtio_pci", "virtio_blk", "ext4")


@dataclass(frozen=True)
class Bootable:
    """The files of a guest: disk image (never written to), kernel, initial RAM disk, SSH key."""

    disk: Path
    kernel: Path
    initrd: Path
    key: Path


def bootable(guest: Guest) -> Bootable:
    """Return the files that `guest` boots from; make those that are not in the cache."""
    folder = image_folder(guest.image)
    kernels = sorted(folder.glob(f"vmlinuz-{guest.kernel}*"), key=_version)
    if not kernels:
        raise FileNotFoundError(f"no kernel {guest.kernel}* in {folder}")
    initrd = kernels[-1].with_name(kernels[-1].name.replace("vmlinuz", "initrd.img"))
    return Bootable(folder / "disk.img", kernels[-1], initrd, folder / "key")


def _version(kernel: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", kernel.name)]


def cache() -> Path:
    """Return the folder of the images; WRITEWISE_GUESTS names another."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "writewise-guests"
    return Path(os.environ.get("WRITEWISE_GUESTS", default))


def image_folder(image: Image) -> Path:
    """Return the folder of an image in the cache; make it if it is missing."""
    hooks = (HERE / "customize", HERE / "backports")
    arguments = " ".join(_base_arguments(image)).replace(str(HERE), "")  # the same in every clone
    base_key = _digest(arguments, *hooks)
    key = _digest(f"{base_key} {DISK_BYTES}", ENTER, *(PROJECT / name for name in SETUP_FILES))
    base_name, name = f"{image.suite}-base-{base_key}", f"{image.suite}-{key}"

    def make(folder: Path) -> None:
        base = cached(base_name, lambda folder: _make_base(image, folder))
        _make_image(base / "root", folder)

    return cached(name, make)


def _digest(text: str, *files: Path) -> str:
    whole = hashlib.sha256(text.encode())
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()[:12]


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; make a missing one elsewhere and rename it when complete.

    Then remove folders of the same kind that were not used for a week.
    """
    cache().mkdir(parents=True, exist_ok=True)
    kind = name.rpartition("-")[0]
    with _locked(cache() / f"{kind}.lock"):
        folder = cache() / name
        if folder.is_dir() and not _is_outdated(folder):
            os.utime(folder)
            return folder
        unfinished = Path(tempfile.mkdtemp(prefix=f"{kind}-", suffix=".unfinished", dir=cache()))
        unfinished.chmod(0o755)
        print(f"guests: making {folder}", flush=True)
        try:
            make(unfinished)
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
            _remove_unused(kind)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return folder


def _is_outdated(folder: Path) -> bool:
    """Return whether the archive may have a newer kernel than when the folder was made."""
    made_s = min(path.stat().st_mtime for path in folder.iterdir())
    return time.time() - made_s > MADE_ANEW_S


def _remove_unused(kind: str) -> None:
    """Remove old folders of a kind and leftovers of killed runs; the kind's lock must be held."""
    for folder in cache().glob(f"{kind}-*.unfinished"):
        if re.fullmatch(rf"{kind}-[a-z0-9_]{{8}}\.unfinished", folder.name):
            shutil.rmtree(folder, ignore_errors=True)
    for folder in cache().iterdir():
        is_old = time.time() - folder.stat().st_mtime > KEPT_UNUSED_S
        if is_old and re.fullmatch(rf"{kind}-[0-9a-f]{{12}}", folder.name):
            shutil.rmtree(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _base_arguments(image: Image) -> list[str]:
    """Return the options of mmdebstrap, without the folder; the mirror is its default."""
    hooks = [f'--customize-hook={HERE / "customize"} "$1" {" ".join(INITRAMFS_MODULES)}']
    if image.backports:
        companions = " ".join(KERNEL_COMPANIONS)
        hooks.append(f'--customize-hook={HERE / "backports"} "$1" {image.suite} {companions}')
    include = ",".join((*PACKAGES, *_distribution_packages()))
    variant = ("--mode=root", "--variant=minbase", "--aptopt=Acquire::Retries 3")
    return [*variant, f"--include={include}", *hooks, image.suite]


def _make_base(image: Image, folder: Path) -> None:
    _enter("-", "mmdebstrap", *_base_arguments(image), folder / "root")


def _distribution_packages() -> list[str]:
    """Return the packages for `tools/setup test`, so that it needs no network for them."""
    lines = (PROJECT / "profiler/packages.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [name for row in rows if row[1] in ("run", "setup", "test") for name in row[2].split()]


def _make_image(base: Path, folder: Path) -> None:
    root = folder / "root"
    subprocess.run(["cp", "--archive", "--reflink=auto", base, root], check=True)
    (root / INSTALLED[1:]).mkdir()
    copy_program(["tar", "--extract", "--directory", str(root / INSTALLED[1:])])
    _enter(root, "env", "HOME=/root", "sh", "-c", f"cd {INSTALLED} && tools/setup test")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(f"{key}.pub", root / "root/.ssh/authorized_keys")
    for file in (root / "boot").glob("*-*"):
        if file.name.startswith(("vmlinuz-", "initrd.img-")):
            shutil.copy(file, folder / file.name)
    disk = folder / "disk.img"
    disk.touch()
    os.truncate(disk, DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "root", "-d", root, disk], check=True)
    shutil.rmtree(root)


def copy_program(extract: list[str]) -> None:
    """Send the work tree, with uncommitted changes, as tar to `extract`."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=PROJECT, stdout=subprocess.PIPE, check=True).stdout
    there = b"\0".join(n for n in names.split(b"\0") if n and (PROJECT / os.fsdecode(n)).exists())
    pack = ["tar", "--create", "--null", "--files-from=-", "--owner=0", "--group=0"]
    with tempfile.TemporaryFile() as archive:
        subprocess.run(pack, cwd=PROJECT, input=there, stdout=archive, check=True)
        archive.seek(0)
        subprocess.run(extract, stdin=archive, check=True)


def _enter(*arguments: object) -> None:
    subprocess.run([str(ENTER), *map(str, arguments)], check=True, stdin=subprocess.DEVNULL)
