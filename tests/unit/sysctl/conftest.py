# SPDX-License-Identifier: Apache-2.0
"""Consumers of rendered files, from Debian's packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.debian_packages import modules_of


@pytest.fixture(scope="session")
def cloud_init_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modules_of(tmp_path_factory.mktemp("cloud-init"), "cloud-init")


@pytest.fixture(scope="session")
def tuned_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modules_of(tmp_path_factory.mktemp("tuned"), "tuned")
