# SPDX-License-Identifier: Apache-2.0
"""The document of a result: the claim, the class, and every trial in full, unlike the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sysctl.evidence.circumstances import NodeClass
from sysctl.evidence.results import PRESENT, PRICE, Trial, trial_from_json, trial_to_json
from sysctl.fleet.claims import Claim
from sysctl.fleet.records import claim_from_json, claim_to_json
from sysctl.fleet.spec import StudySpec
from sysctl.fleet.summary import MAX_RUNS, RunSummary, run_of
from sysctl.knobs.setting import Setting

FORMAT = "writewise-shared-result"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class SharedResult:
    """What a node measured for a claim. `trials` include its runs of the current settings."""

    study: str
    claim: Claim
    trials: tuple[Trial, ...]

    def runs(self, present: Setting) -> tuple[RunSummary, ...]:
        """Return the summary for the ledger, without the runs for a price."""
        numbers = {setting: at for at, setting in enumerate(self.claim.settings, 1)}
        numbers[present] = 0
        kept = [each for each in self.trials if each.role != PRICE and each.setting in numbers]
        return tuple(run_of(each, numbers[each.setting]) for each in kept[-MAX_RUNS:])


def result_to_json(
    spec: StudySpec, result: SharedResult, node_class: NodeClass | None
) -> dict[str, Any]:
    """Return the document. It has the class of the node, but neither its name nor its paths."""
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "study": result.study,
        "class_key": spec.class_key,
        "class": asdict(node_class) if node_class else None,
        "present": dict(spec.present),
        "claim": claim_to_json(result.claim),
        "trials": [trial_to_json(trial) for trial in result.trials],
    }


def result_from_text(text: str, study: str) -> SharedResult:
    """Return the result of a document, in which nothing is trusted. Raises ValueError."""
    try:
        document = json.loads(text, parse_constant=_refuse)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError("not a result of a shared study")
        if document["version"] != FORMAT_VERSION or document["study"] != study:
            raise ValueError("a result of another version or study")
        trials = document["trials"]
        if not isinstance(trials, list) or len(trials) > MAX_RUNS:
            raise ValueError(f"not a list of at most {MAX_RUNS} trials")
        claim = claim_from_json(document["claim"])
        return SharedResult(study, claim, tuple(map(trial_from_json, trials)))
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"damaged: {error}") from None


def _refuse(text: str) -> float:
    raise ValueError(f"invalid number: {text}")


def present_run(trials: Sequence[Trial]) -> Trial | None:
    """Return the last valid run of the current settings outside pairs."""
    found = [t for t in trials if t.role == PRESENT and t.pair is None and t.valid]
    return found[-1] if found else None
