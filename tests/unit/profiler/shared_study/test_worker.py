# SPDX-License-Identifier: Apache-2.0
"""What a node does before its first claim; `tests/postgresql/test_nodes.py` has the rest."""

from __future__ import annotations

import pytest

from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger, LedgerError
from profiler.shared_study.results_store import DirectoryStore, LocalResults
from profiler.shared_study.worker import StudyWorker
from sysctl.fleet.accepting import Acceptance
from tests.unit.sysctl.fleet.studies import GIB, PRESENT, SPEC


def test_a_node_that_refuses_everything_claims_nothing(tmp_path):
    """With `--max-at-risk 2MiB` instead of 2GiB, its refusals would end the study for all nodes."""
    worker = StudyWorker(
        ledger=Ledger(parse_address(f"postgresql:///none?host={tmp_path}"), SPEC.name),
        spec=SPEC,
        node="n0",
        store=DirectoryStore(tmp_path),
        local=LocalResults(tmp_path / "studies" / SPEC.name),
        acceptance=Acceptance(2 * 2**20, PRESENT, 8 * GIB),
        measure=lambda claim: (),
    )
    with pytest.raises(LedgerError, match="refuses every setting"):
        worker.run()
