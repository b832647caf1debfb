# SPDX-License-Identifier: Apache-2.0
"""The guests: Debian releases with their kernels, near relatives of what EC2 hosts run."""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: Installed in every image, in addition to what tools/setup installs.
PACKAGES = (
    *("systemd-sysv", "systemd", "udev", "dbus", "kmod", "initramfs-tools", "zstd", "procps"),
    *("openssh-server", "iproute2", "python3", "python3-venv", "python3-bpfcc", "make", "git"),
    *("python3-psutil", "python3-yaml"),  # of the .deb, since the guest has no network
    *("xfsprogs", "e2fsprogs", "dmsetup", "lvm2", "nvme-cli", "fio", "bpftrace", "busybox"),
)
#: Packages of backports that a newer kernel needs in addition.
KERNEL_COMPANIONS = ("linux-base",)


@dataclass(frozen=True)
class Image:
    """A root file system: a Debian release, its kernel and, if it exists, that of backports."""

    suite: str
    backports: bool = True


class Role(enum.Enum):
    """How much is tried on a guest."""

    CORE = "all features"
    OTHER = "that probes load and count, and the main job"
    REFUSED = "that the kernel is refused, and what works all the same"


@dataclass(frozen=True)
class Guest:
    """A kernel of an image, to boot. `kernel` is the beginning of its version."""

    name: str
    image: Image
    kernel: str
    role: Role


BULLSEYE = Image("bullseye", backports=False)
BOOKWORM = Image("bookworm")
TRIXIE = Image("trixie")

GUESTS = (
    Guest("debian12-6.1", BOOKWORM, "6.1.", Role.CORE),
    Guest("debian12-6.12", BOOKWORM, "6.12.", Role.CORE),
    Guest("debian13-6.12", TRIXIE, "6.12.", Role.OTHER),
    Guest("debian13-newest", TRIXIE, "", Role.OTHER),
    Guest("debian11-5.10", BULLSEYE, "5.10.", Role.REFUSED),
)


def guest_of(name: str) -> Guest:
    """Return the guest called `name`, or the first one with that kernel (6.1, newest).

    Raises:
        KeyError: It does not exist; the message lists all guests.
    """
    for guest in GUESTS:
        if name == guest.name or name == guest.name.partition("-")[2]:
            return guest
    raise KeyError(f"unknown guest {name!r}; there are {', '.join(g.name for g in GUESTS)}")
