# SPDX-License-Identifier: Apache-2.0
"""What is due in a shared study, from the claims so far; one node takes one claim at a time.

1. Search: each candidate once, on any node. Its time counts as a share of that node's time under
   the current settings, because nodes differ.
2. Recheck: the finalists next to the current settings, a whole block of the order ABBA on one node.
   A node takes `blocks` of them, and `nodes` nodes are needed: the node is the block.

A claim that was lost is due again. A setting under which `most_lost` claims were lost is not.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Union

from sysctl.evidence.circumstances import Circumstances, Node, NodeClass
from sysctl.evidence.results import CANDIDATE, PRESENT, Trial, grouped
from sysctl.evidence.runs import Runs
from sysctl.fleet.spec import StudySpec
from sysctl.fleet.summary import RunSummary
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import PAGE_BYTES

MAX_FINALISTS = 3
#: So few candidates are compared in blocks at once.
WITHOUT_SEARCH = 2
_HASH_CHARACTERS = 16


class ClaimKind(str, enum.Enum):
    """One run of a candidate, or a block of the recheck."""

    SEARCH = "search"
    BLOCK = "block"


class ClaimState(str, enum.Enum):
    """Whether a node works on it, its result is there, or its node was lost."""

    RUNNING = "running"
    TOLD = "told"
    LOST = "lost"


@dataclass(frozen=True)
class Claim:
    """What one node measures. `replicate` is the number of its block on that node, from 0."""

    kind: ClaimKind
    settings: tuple[Setting, ...]
    node: str
    replicate: int = 0
    attempt: int = 1

    @cached_property
    def hash(self) -> str:
        """The first 64 bits of a SHA-256 of the settings, in hexadecimal."""
        return hash_of(self.settings)

    @property
    def key(self) -> str:
        """The name of its result; no other claim has it."""
        return f"{self.hash}.{self.replicate}.{self.node}.{self.attempt}"


def hash_of(settings: Sequence[Setting]) -> str:
    """Return what stands for settings in the name of a result."""
    text = json.dumps([setting.to_json() for setting in settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]


@dataclass(frozen=True)
class Record:
    """A claim in the ledger, and what its node reported. `is_late`: after the claim was lost."""

    claim: Claim
    state: ClaimState
    runs: tuple[RunSummary, ...] = ()
    is_late: bool = False

    @property
    def present(self) -> RunSummary | None:
        """The last valid run of the current settings outside blocks."""
        found = [run for run in self.runs if run.at == 0 and run.pair is None and run.return_s]
        return found[-1] if found else None


@dataclass(frozen=True)
class Wait:
    """Nothing is due now; what is due next depends on claims that other nodes have."""


@dataclass(frozen=True)
class Finished:
    """Nothing is left for this node, and why."""

    why: str


Due = Union[Claim, Wait, Finished]


def next_claim(spec: StudySpec, records: Sequence[Record], node: str) -> Due:
    """Return what the node is to measure next. It depends only on the ledger."""
    setting = None if _has_blocks(records) else _candidate(spec, records)
    if isinstance(setting, Setting):
        return _numbered(ClaimKind.SEARCH, (setting,), node, 0, records)
    if isinstance(setting, Wait):
        return setting
    settings = finalists(spec, records)
    if not settings:
        return Finished("no candidate was faster than the current settings")
    return _block(spec, settings, records, node)


def is_without_finalist(spec: StudySpec, records: Sequence[Record]) -> bool:
    """Return whether the search has ended, and no candidate was faster."""
    if _has_blocks(records) or _candidate(spec, records) is not None:
        return False
    return not finalists(spec, records)


def _has_blocks(records: Sequence[Record]) -> bool:
    return any(record.claim.kind is ClaimKind.BLOCK for record in records)


def _candidate(spec: StudySpec, records: Sequence[Record]) -> Setting | Wait | None:
    """Return the next candidate; None if the search has ended."""
    if len(spec.candidates) <= WITHOUT_SEARCH:
        return None
    runs, search = search_runs(spec, records), spec.search()
    pending = [
        setting
        for record in records
        if record.state is ClaimState.RUNNING
        for setting in record.claim.settings
    ]
    setting = search.next_setting(runs, pending)
    if setting is None and pending:
        return Wait()
    return setting


def finalists(spec: StudySpec, records: Sequence[Record]) -> tuple[Setting, ...]:
    """Return the settings of the recheck: those of its first block, else of the search."""
    candidates = spec.candidates
    for record in records:
        is_block = record.claim.kind is ClaimKind.BLOCK
        if is_block and set(record.claim.settings) <= set(candidates):
            return record.claim.settings
    if len(candidates) <= WITHOUT_SEARCH:
        return candidates
    found = spec.search().finalists(search_runs(spec, records))
    return tuple(found)[:MAX_FINALISTS]


def _block(
    spec: StudySpec, settings: tuple[Setting, ...], records: Sequence[Record], node: str
) -> Due:
    blocks = [each for each in records if each.claim.kind is ClaimKind.BLOCK]
    by_node = grouped((record.claim.node, record) for record in blocks)
    own = by_node.get(node, [])
    told = {record.claim.replicate for record in own if record.state is ClaimState.TOLD}
    if len(told) >= spec.blocks:
        return Finished("this node has measured all its blocks")
    if sum(record.state is ClaimState.LOST for record in own) >= spec.most_lost:
        return Finished(f"this node lost {spec.most_lost} blocks")
    if _gone(by_node) >= spec.most_lost:
        return Finished(f"{spec.most_lost} nodes were lost in their blocks and did not come back")
    taking_part = sum(name != node and _takes_part(spec, found) for name, found in by_node.items())
    if taking_part >= spec.nodes:
        return Finished("enough nodes take part")
    replicate = next(number for number in range(spec.blocks) if number not in told)
    return _numbered(ClaimKind.BLOCK, settings, node, replicate, records)


def _gone(by_node: Mapping[str, Sequence[Record]]) -> int:
    """Return the number of nodes whose last block was lost."""
    return sum(found[-1].state is ClaimState.LOST for found in by_node.values())


def _takes_part(spec: StudySpec, found: Sequence[Record]) -> bool:
    """Return whether a node has measured all its blocks with a pair, or still may.

    A node that refused its block, or had no valid pair in it, takes nobody's place.
    """
    told = [record for record in found if record.state is ClaimState.TOLD]
    has_pair = any(run.pair is not None and run.return_s for each in told for run in each.runs)
    if len({record.claim.replicate for record in told}) >= spec.blocks:
        return has_pair
    last = found[-1].state
    return last is ClaimState.RUNNING or (last is ClaimState.TOLD and has_pair)


def _numbered(
    kind: ClaimKind,
    settings: tuple[Setting, ...],
    node: str,
    replicate: int,
    records: Sequence[Record],
) -> Claim:
    wanted = (hash_of(settings), replicate, node)
    known = (each.claim for each in records)
    earlier = {each.attempt for each in known if (each.hash, each.replicate, each.node) == wanted}
    # not the largest and one more: a forged one could be the largest that is read
    attempt = next(number for number in itertools.count(1) if number not in earlier)
    return Claim(kind, settings, node, replicate, attempt)


def search_runs(spec: StudySpec, records: Sequence[Record]) -> Runs:
    """Return the search as runs of one node, on which the current settings take the usual time.

    Each node's times are multiplied by the usual time under the current settings and divided by its
    own. A setting that is given up counts as failed.
    """
    told = [each for each in records if _is_told_search(each)]
    present = {each.claim.node: each.present for each in reversed(told) if each.present}
    usual_s = statistics.median([run.return_s or 1.0 for run in present.values()] or [1.0])
    trials: list[Trial] = []
    for run in reversed(present.values()):
        trials.append(run.as_trial(PRESENT, spec.present_setting, usual_s / (run.return_s or 1.0)))
    for record in told:
        own = present.get(record.claim.node)
        scale = usual_s / own.return_s if own and own.return_s else 1.0
        trials += [
            run.as_trial(CANDIDATE, record.claim.settings[0], scale)
            for run in record.runs
            if run.at == 1
        ]
    trials += [_given_up(setting) for setting in lost_settings(spec, records)]
    return Runs(_circumstances(spec, [run.dirtyable_bytes for run in present.values()]), (*trials,))


def _is_told_search(record: Record) -> bool:
    return record.claim.kind is ClaimKind.SEARCH and record.state is ClaimState.TOLD


def _given_up(setting: Setting) -> Trial:
    return Trial(CANDIDATE, setting, "", None, "its node was lost too often")


def lost_settings(spec: StudySpec, records: Sequence[Record]) -> list[Setting]:
    """Return the candidates that are given up, because too many claims of them were lost."""
    lost = [
        record.claim.settings[0]
        for record in records
        if record.claim.kind is ClaimKind.SEARCH and record.state is ClaimState.LOST
    ]
    return [setting for setting in dict.fromkeys(lost) if lost.count(setting) >= spec.most_lost]


def _circumstances(spec: StudySpec, dirtyable: Sequence[int]) -> Circumstances:
    usual = round(statistics.median(dirtyable)) if dirtyable else PAGE_BYTES
    node = Node(available_bytes=usual, dirtyable_bytes=max(usual, PAGE_BYTES))
    return Circumstances(NodeClass(fstype="", present=spec.present), node)
