# SPDX-License-Identifier: Apache-2.0
"""What is restored if a volume breaks, disappears or is in use while its mount options change.

Everything that can be restored is restored. The error names the rest, and the next start restores
it once the device is back. Nothing here needs a lab or changes a sysctl.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sysctl.host.host import Host
from sysctl.host.mount_table import mount_at
from sysctl.host.system import HostError
from tests.root.labs import MIB, SYSTEM, assert_as, guarded, host_state, writewise
from tests.root.volumes import FailingVolume, failing_volume, make_image, run, unmount

#: By remount, and by a fresh mount.
WORDS = [("noatime",), ("logbsize=256k",)]
AGAIN = "run `writewise rollback` again"


@pytest.fixture
def failing(tmp_path) -> Iterator[FailingVolume]:
    """Make a volume, and a state directory that is empty again before the volume goes."""
    with failing_volume(tmp_path / "failing") as made, guarded(tmp_path):
        yield made


def is_mounted(volume):
    return mount_at(SYSTEM.mounts(), str(volume.target)) is not None


def change_and(volume, words, what_happens):
    """Change the options, then again after `what_happens`: the host refuses the second change."""
    with Host.exclusive("sweep", "test") as host:
        host.set_mount_options(str(volume.target), words)
        what_happens()
        with pytest.raises(HostError):
            host.set_mount_options(str(volume.target), ("logbsize=64k",))


@pytest.mark.parametrize("words", WORDS, ids=str)
@pytest.mark.parametrize("how", ["fail", "disappear"])
def test_a_device_that_breaks_or_goes_is_mounted_as_before_once_it_is_back(failing, words, how):
    before = host_state()
    with pytest.raises(HostError, match="superblock") as told:
        change_and(failing, words, getattr(failing, how))
    assert "not everything could be restored" in told.value.message and AGAIN in told.value.hint
    assert not is_mounted(failing)
    refused = writewise("rollback")
    assert refused.returncode == 1 and str(failing.target) in refused.stderr
    assert AGAIN in refused.stderr and "Traceback" not in refused.stderr
    failing.come_back()
    done = writewise("rollback")
    assert (done.returncode, is_mounted(failing)) == (0, True), done.stderr
    assert f"restored: {failing.target} mounted with" in done.stdout
    assert_as(before)
    assert writewise("rollback").stdout.startswith("nothing to restore")


def test_one_that_is_gone_for_good_can_be_given_up(failing):
    before = host_state()
    with pytest.raises(HostError, match="superblock") as told:
        change_and(failing, ("noatime",), failing.disappear)
    assert "writewise rollback --give-up" in told.value.hint
    done = writewise("rollback", "--give-up")
    assert done.returncode == 0, done.stderr
    assert f"left: not restored, and removed: {failing.target} mounted with" in done.stdout
    assert writewise("rollback").stdout.startswith("nothing to restore")
    failing.come_back()
    run("mount", failing.device, failing.target)
    assert_as(before)


def test_another_volume_under_the_name_of_the_one_that_is_gone_is_not_mounted(failing, tmp_path):
    with pytest.raises(HostError, match="superblock"):
        change_and(failing, ("noatime",), failing.disappear)
    other = tmp_path / "other"
    make_image(other, 320 * MIB)
    run("losetup", failing.device, other)
    try:
        refused = writewise("rollback")
    finally:
        run("losetup", "--detach", failing.device)
        other.unlink()
    assert refused.returncode == 1 and not is_mounted(failing)
    assert f"{failing.device} now has another file system" in refused.stderr
    assert "blkid --uuid" in refused.stderr
    failing.come_back()
    assert writewise("rollback").returncode == 0 and is_mounted(failing)


def test_one_that_is_gone_keeps_nothing_else_from_coming_back(failing, tmp_path):
    """Changes made before and after it are restored, and only the volume is left."""
    folder = tmp_path / "folder"
    with (
        pytest.raises(HostError, match="superblock"),
        Host.exclusive("sweep", "test") as host,
    ):
        host.make_directory(folder)
        host.set_mount_options(str(failing.target), ("noatime",))
        host.make_directory(folder / "below")
        unmount(failing.target)
        failing.fail()
    assert not folder.exists()
    [left] = Host(host.directory, "sweep").pending()
    assert left.startswith(f"{failing.target} mounted with")
    failing.come_back()
    assert writewise("rollback").returncode == 0


def test_a_volume_that_is_in_use_is_given_back_when_it_is_not_any_more(failing):
    before, users = host_state(), []

    def use():
        users.append((failing.target / "file").open("w"))

    with pytest.raises(HostError, match="busy") as told:
        change_and(failing, ("logbsize=256k",), use)
    assert AGAIN in told.value.hint and is_mounted(failing)
    refused = writewise("rollback")
    assert refused.returncode == 1 and "busy" in refused.stderr
    users.pop().close()
    assert writewise("rollback").returncode == 0
    assert_as(before)
