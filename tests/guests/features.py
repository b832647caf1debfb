# SPDX-License-Identifier: Apache-2.0
"""The features tested on the guests: the rows of the matrix, each with its tests."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tests.guests.catalogue import Guest, Role


class Where(enum.Enum):
    """Where the tests of a feature run."""

    IN_GUEST = "in the guest"
    #: On the host, which boots the guest, reboots it and cuts its power.
    ON_HOST = "on the host"


@dataclass(frozen=True)
class Feature:
    """A row of the matrix; it is tested on the guests with one of `roles`, or on `guests`."""

    name: str
    tests: tuple[str, ...]
    roles: tuple[Role, ...] = (Role.CORE,)
    where: Where = Where.IN_GUEST
    guests: tuple[str, ...] = ()
    needs_probes: bool = True

    def is_for(self, guest: Guest) -> bool:
        """Return whether it is tested on this guest."""
        return guest.name in self.guests if self.guests else guest.role in self.roles


_EVERY = (Role.CORE, Role.OTHER)


def _root(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/root/test_{name}.py" for name in names)


def _guest(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/guests/inside/test_{name}.py" for name in names)


def _host(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/guests/outside/test_{name}.py" for name in names)


_MAIN_JOB = (
    "tests/root/test_profile.py::test_the_report_leaves_standard_output_to_the_command",
    "tests/root/test_profile.py::test_the_whole_host",
    "tests/root/test_apply.py::test_applied_verified_and_rolled_back",
)

FEATURES = (
    Feature("every shape of contract loads", _root("contract_shapes"), _EVERY),
    Feature("counts are exact", _root("exactness", "functions"), _EVERY),
    Feature("profile, apply, verify, rollback", _MAIN_JOB, _EVERY),
    Feature("probes refused with the reason", _guest("old_kernel"), (Role.REFUSED,)),
    Feature("each kind of call is counted", _root("probes_counting")),
    Feature(
        "what differs with systemd and cgroup v2",
        _root("probes_loading", "path_calls", "profile_refused", "memory_group", "host"),
        guests=("debian12-6.12",),
    ),
    Feature("causes of waits", _root("causes")),
    Feature("requests of disks", _root("block")),
    Feature("filters by command and control group", _root("filters")),
    Feature("lab", _root("lab"), needs_probes=False),
    Feature("sweep", _root("sweep")),
    Feature("apply and its files", _root("apply"), needs_probes=False),
    Feature("SIGKILL at any moment", _root("kill_proof")),
    Feature(
        "systemd: apply --for, sysctl.d, reload, re-exec", _guest("systemd"), needs_probes=False
    ),
    Feature("NVMe disks, udev rules", _guest("nvme", "ebs_counters"), needs_probes=False),
    Feature("device mapper and LVM", (*_guest("device_mapper"), *_root("compiler_mounts"))),
    Feature("io.max, groups with a memory limit", _guest("groups")),
    Feature("where writers of limited containers wait", _guest("container_limits")),
    Feature("govern as a service of systemd", _guest("governor"), needs_probes=False),
    Feature("watch as a service of systemd", _guest("watch")),
    Feature(
        "study join as a service of systemd", _guest("study_service"), guests=("debian12-6.12",)
    ),
    Feature("govern on control groups v2", _root("govern"), guests=("debian12-6.12",)),
    Feature(
        "govern --admit on control groups v2", _root("govern_admit"), guests=("debian12-6.12",)
    ),
    Feature("run", _root("run"), needs_probes=False),
    Feature("reboot and power cut", _host("reboot"), where=Where.ON_HOST, needs_probes=False),
    Feature(
        "reboot and power cut while raised",
        _host("governor_reboot"),
        where=Where.ON_HOST,
        needs_probes=False,
    ),
    Feature(
        "the main job from the .deb",
        _host("package"),
        where=Where.ON_HOST,
        guests=("debian13-6.12",),
        needs_probes=False,
    ),
)
