# SPDX-License-Identifier: Apache-2.0
"""Tests that reboot a guest or cut its power: `make test-guests` runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.guests.catalogue import guest_of
from tests.guests.machine import SLOW_BYTES_PER_S, Machine, booted
from tests.guests.running import GUEST_VARIABLE


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A booted guest for the tests of one file, which may choose the rate of the slow disk."""
    name = os.environ.get(GUEST_VARIABLE)
    if not name:
        pytest.skip(f"{GUEST_VARIABLE} names no guest: `make test-guests` sets it")
    rate = getattr(request.module, "SLOW_DISK_BYTES_PER_S", SLOW_BYTES_PER_S)
    with booted(guest_of(name), slow_bytes_per_s=rate) as machine:
        yield machine
