# SPDX-License-Identifier: Apache-2.0
"""This node takes part in a shared study: whether it may, and its bench, ledger and files.

From the ledger come the study and the claims alone. Source, destination, client, endpoint,
contract, the place of the results and the limits are options of this node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from contracts.shared.errors import UsageError
from profiler.fleet.class_here import class_here
from profiler.fleet.node_id import node_id
from profiler.shared_study.ledger import Ledger
from profiler.shared_study.measuring import NodeMeasure
from profiler.shared_study.results_store import LocalResults, ResultsStore, check_directory_store
from profiler.shared_study.worker import StudyWorker
from profiler.study.request import StudyRequest
from profiler.study.space import Space
from profiler.study.study import NodeBench, View, node_bench, prepare_without_host
from sysctl.evidence.circumstances import NodeClass
from sysctl.fleet.accepting import Acceptance
from sysctl.fleet.spec import StudySpec
from sysctl.host.host import state_directory
from sysctl.host.system import System

_NODE_CHARACTERS = 12


@dataclass(frozen=True)
class StudyPart:
    """Why the node's part ended, and how many claims it measured."""

    why: str
    measured: int


@dataclass(frozen=True)
class NodeCheck:
    """What a dry run shows: the class of this node, the settings it refuses, and any problem."""

    class_key: str
    refusals: Mapping[str, str]
    problem: str | None


def join(
    request: StudyRequest,
    ledger: Ledger,
    store: ResultsStore,
    view: View,
    say: Callable[[str], None],
) -> StudyPart:
    """Work for the study until nothing is left for this node. Raises WritewiseError."""
    spec = ledger.spec()
    check_directory_store(store)
    with node_bench(_with_space(request, spec), view) as opened:
        node_class = opened.results.circumstances.node_class
        acceptance = _acceptance(request, opened)
        _require(_problem(spec, node_class, opened.host.system))
        worker = StudyWorker(
            ledger=ledger,
            spec=spec,
            node=node_name(opened.host.system, spec.name),
            store=store,
            local=LocalResults(local_folder(spec.name)),
            acceptance=acceptance,
            measure=NodeMeasure(
                opened.results,
                spec.present_setting,
                opened.bench,
                restore=opened.host.restore,
                on_step=view.step,
            ),
            node_class=node_class,
            say=say,
        )
        return StudyPart(worker.run(), worker.measured)


def check(request: StudyRequest, ledger: Ledger) -> NodeCheck:
    """Return what joining would meet, without root's probes, without a claim or a change."""
    spec = ledger.spec()
    study = prepare_without_host(_with_space(request, spec))
    circumstances, system = study.results.circumstances, System()
    acceptance = Acceptance(
        _max_at_risk(request),
        circumstances.node_class.present,
        circumstances.node.dirtyable_bytes,
    )
    refused = {str(each): why for each in spec.candidates if (why := acceptance.refusal(each))}
    node_class = circumstances.node_class
    return NodeCheck(
        str(class_here(node_class, system)),
        refused,
        _problem(spec, node_class, system),
    )


def local_folder(study: str) -> Path:
    """Return where this node keeps its results of a study."""
    return state_directory() / "studies" / study


def node_name(system: System, study: str) -> str:
    """Return a name of this node in the study, which says nothing about the host."""
    text = f"{study} {node_id(system)}"
    return hashlib.sha256(text.encode()).hexdigest()[:_NODE_CHARACTERS]


def _with_space(request: StudyRequest, spec: StudySpec) -> StudyRequest:
    """Return the request with the study's values, by which the sweep's code prepares the bench.

    They are checked: the study was read by `spec_from_json`, and each claim by `Acceptance`.
    """
    return replace(request, space=Space(values=spec.values))


def _acceptance(request: StudyRequest, opened: NodeBench) -> Acceptance:
    circumstances = opened.results.circumstances
    return Acceptance(
        _max_at_risk(request),
        circumstances.node_class.present,
        circumstances.node.dirtyable_bytes,
    )


def _max_at_risk(request: StudyRequest) -> int:
    limit = request.limits.max_at_risk_bytes
    if limit is None:
        raise UsageError("a node of a shared study needs a limit", "pass --max-at-risk, as 2GiB")
    return limit


def _problem(spec: StudySpec, node_class: NodeClass, system: System) -> str | None:
    """Return why this node is not one of the study's; None if it is."""
    here = str(class_here(node_class, system))
    if here != spec.class_key:
        return f"this node is of the class {here}, the study of {spec.class_key}"
    differing = [
        f"{name}={node_class.present.get(name)} (study: {value})"
        for name, value in spec.present.items()
        if node_class.present.get(name) != value
    ]
    if differing:
        return f"this node has other current settings than the study: {', '.join(differing)}"
    return None


def _require(problem: str | None) -> None:
    if problem:
        raise UsageError(problem, "create a study for nodes like this one, or join another")
