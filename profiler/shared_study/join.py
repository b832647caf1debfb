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
from profiler.fleet.node_id import kept_node_id, node_id
from profiler.shared_study.ledger import Ledger
from profiler.shared_study.measuring import NodeMeasure
from profiler.shared_study.results_store import LocalResults, ResultsStore, check_directory_store
from profiler.shared_study.worker import StudyWorker
from profiler.study.request import StudyRequest
from profiler.study.space import Space
from profiler.study.study import NodeBench, View, node_bench, prepare_without_host
from sysctl.fleet.accepting import Acceptance
from sysctl.fleet.spec import StudySpec, class_of_kind
from sysctl.host.host import state_directory
from sysctl.host.system import System

_NODE_CHARACTERS = 12


@dataclass(frozen=True)
class StudyPart:
    """Why the node's part ended, how many claims it measured, and its name in the study."""

    why: str
    measured: int
    node: str


@dataclass(frozen=True)
class NodeCheck:
    """What a dry run shows: the class of this node, the settings it refuses, and any problem.

    `node` is its name in the study, None if it gets one when it joins.
    """

    class_key: str
    refusals: Mapping[str, str]
    problem: str | None
    node: str | None


def join(
    request: StudyRequest,
    ledger: Ledger,
    store: ResultsStore,
    view: View,
    say: Callable[[str], None],
    kind: str | None = None,
) -> StudyPart:
    """Work for the study until nothing is left for this node, which is of `kind` within its class.

    Raises WritewiseError.
    """
    spec = ledger.spec()
    check_directory_store(store)
    with node_bench(_with_space(request, spec), view) as opened:
        node_class = opened.results.circumstances.node_class
        acceptance = _acceptance(request, opened)
        system = opened.host.system
        here = str(class_here(node_class, system))
        _require(problem_of(spec, here, node_class.present, kind))
        name = node_name(spec.name, node_id(system))
        say(f"this node is {name} in the study")
        worker = StudyWorker(
            ledger=ledger,
            spec=spec,
            node=name,
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
        return StudyPart(worker.run(), worker.measured, name)


def check(request: StudyRequest, ledger: Ledger, kind: str | None = None) -> NodeCheck:
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
    node_class, node = circumstances.node_class, kept_node_id(system)
    here = str(class_here(node_class, system))
    problem = problem_of(spec, here, node_class.present, kind)
    return NodeCheck(here, refused, problem, node_name(spec.name, node) if node else None)


def local_folder(study: str) -> Path:
    """Return where this node keeps its results of a study."""
    return state_directory() / "studies" / study


def node_name(study: str, node: str) -> str:
    """Return the name in the study of the node with a UUID; it says nothing about the host."""
    return hashlib.sha256(f"{study} {node}".encode()).hexdigest()[:_NODE_CHARACTERS]


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


def problem_of(
    spec: StudySpec, here: str, present: Mapping[str, int], kind: str | None = None
) -> str | None:
    """Return why a node is not one of the study's; None if it is.

    `here` is its class, `present` its current settings, and `kind` what it was said to be.
    """
    is_split = spec.class_key.startswith(f"{here}.")
    if kind is None and is_split:
        name = spec.class_key[len(here) + 1 :]
        return f"the study is of one kind of this class: join with `--kind {name}` if it is that"
    own = class_of_kind(here, kind)
    if own != spec.class_key:
        return f"this node is of the class {own}, the study of {spec.class_key}"
    differing = [
        f"{name}={present.get(name)} (study: {value})"
        for name, value in spec.present.items()
        if present.get(name) != value
    ]
    if differing:
        return f"this node has other current settings than the study: {', '.join(differing)}"
    return None


def _require(problem: str | None) -> None:
    if problem:
        raise UsageError(problem, "create a study for nodes like this one, or join another")
