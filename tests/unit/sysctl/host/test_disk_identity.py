# SPDX-License-Identifier: Apache-2.0
"""The identity of a disk, on a sysfs that the test makes."""

from __future__ import annotations

import pytest

from sysctl.change.recommendation import DiskIdentity
from sysctl.host.devices import Disk
from sysctl.host.disk_identity import disk_identity
from sysctl.host.system import System


@pytest.mark.parametrize(
    ("files", "wwid", "serial"),
    [
        ({"wwid": "nvme.1d0f-01\n", "device/serial": "vol0123   \n"}, "nvme.1d0f-01", "vol0123"),
        ({"serial": "root-disk"}, None, "root-disk"),
        ({"device/wwid": "naa.5000c500\n", "serial": ""}, "naa.5000c500", None),
        ({"wwid": b"\xff\xfe"}, None, None),
        ({}, None, None),
    ],
)
def test_a_disk_is_identified_by_its_attributes_in_sysfs(files, wwid, serial, tmp_path):
    folder = tmp_path / "sys/block/nvme1n1"
    (folder / "device").mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = disk_identity(System(tmp_path), Disk("nvme1n1", "259:4", "7"))
    assert found == DiskIdentity("nvme1n1", wwid, serial)
