"""Where the tests find the repository and their data."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
#: Contracts, and results of earlier versions.
DATA = REPOSITORY / "tests" / "unit" / "data"
