# SPDX-License-Identifier: Apache-2.0
"""One PostgreSQL for the tests of a process; each study has a name of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgresql.server import Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running() as made:
        yield made
