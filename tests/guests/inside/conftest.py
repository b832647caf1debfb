# SPDX-License-Identifier: Apache-2.0
"""Tests of features that the test host lacks: they run only in a guest, as root, without skips."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.root.conftest import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]


@pytest.fixture(scope="session", autouse=True)
def in_a_guest() -> None:
    if not Path("/etc/writewise-guest").exists():
        pytest.skip("these tests change the host's devices: `make test-guest` runs them in a guest")
