# SPDX-License-Identifier: Apache-2.0
"""Paths of the repository and of the test data."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
#: Contracts, and results of earlier versions.
DATA = REPOSITORY / "tests" / "unit" / "data"
