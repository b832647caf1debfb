# SPDX-License-Identifier: Apache-2.0
"""Tests that reboot a guest or cut its power: `make test-guests` runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.guests.catalogue import guest_of
from tests.guests.machine import Machine, booted
from tests.guests.running import GUEST_VARIABLE


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A booted guest for the tests of one file."""
    name = os.environ.get(GUEST_VARIABLE)
    if not name:
        pytest.skip(f"{GUEST_VARIABLE} names no guest: `make test-guests` sets it")
    with booted(guest_of(name)) as machine:
        yield machine
