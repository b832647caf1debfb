# SPDX-License-Identifier: Apache-2.0
"""The strategies over candidates, as test parameters; those without their library are skipped."""

from __future__ import annotations

import importlib.util

import pytest

from sysctl.search.strategies import EDGE, NAMES, SYNE_TUNE

_needs_syne_tune = pytest.mark.skipif(
    importlib.util.find_spec("syne_tune") is None, reason="tools/setup syne-tune"
)
OVER_CANDIDATES = [
    pytest.param(name, marks=[_needs_syne_tune] * (name == SYNE_TUNE))
    for name in NAMES
    if name != EDGE
]
