# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep: its circumstances, its space and its trials, in one JSON file.

The file is replaced atomically after every trial, so a kill never truncates it. A file that was
truncated in another way is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from contracts.shared.errors import UsageError
from contracts.shared.files import FileKind
from contracts.shared.text import printable
from contracts.shared.writing import write_atomically
from sysctl.evidence.checks import (
    LARGEST,
    LONGEST_S,
    seconds,
    share,
    share_or_time,
    whole,
    whole_or_none,
)
from sysctl.evidence.circumstances import Circumstances, circumstances_from_json, circumstances_of
from sysctl.evidence.over_limit import OverLimit, over_limit_from_json
from sysctl.evidence.price_seen import Latency, PriceSeen
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import BY_NAME
from sysctl.knobs.writeback import Thresholds

K = TypeVar("K")
T = TypeVar("T")

FORMAT = "writewise-results"
FORMAT_VERSION = 4
#: Version 2 has no runs of the role `price`; versions 2 and 3 have the circumstances of the class
#: and of the node in one `context`. The rest is the same.
_READABLE = (2, 3, FORMAT_VERSION)
_FILE = FileKind(
    noun="results",
    max_bytes=32 * 2**20,  # parsed, it takes up to thirty times as much memory
    hint="use the file that `writewise sweep` wrote; run the sweep again if it is lost",
)
#: The format of the file that `writewise apply` reads.
_RECOMMENDATION = "writewise-recommendation"
#: How the `tuning.json` of an earlier version begins.
_TUNING_ABOUT = "Written by writewise: all that `writewise transfer tune` measured."
_TUNING_HINT = (
    "an earlier version wrote it: use the settings in the transfer.json next to it with "
    "`writewise pull --transfer`, or run `writewise transfer tune` again"
)
#: Far more than any sweep runs.
MAX_TRIALS = 10_000

#: Roles: the current settings, alone or in a block; a setting of the search; any other setting in
#: a block (`sysctl.sweep.blocks`), where settings are compared; a run with a neighbour, which shows
#: the price of a setting and is not part of comparisons.
PRESENT = "present"
CANDIDATE = "candidate"
RECHECK = "recheck"
PRICE = "price"


@dataclass(frozen=True)
class TracePoint:
    """One moment of a pull, `time_s` after its start.

    `held_bytes` are dirty or under write-back on the host; `written_bytes` is what the
    destination's disk has written since the start.
    """

    time_s: float
    held_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class Observation:
    """The measurements of one pull. Times are in s, sizes in bytes.

    `stall_share` is the share of the writing threads' time in dirty throttling (None without
    probes), and `writers` the number of these threads at a time (0: one for each worker).
    `durable_s` is None if the files were deleted before they reached the device. `thresholds`,
    `limit_bytes` and `dirtyable_bytes` are from the start of the pull. `write_p50_ns`,
    `write_p99_ns` and `split_s` (the time in write calls by cause, `contracts.causes.Cause`)
    are of the contract's writes. `others_dirtied_bytes` is what other programs dirtied during the
    pull, `device_read_bytes` what was read from the destination's disk (None: unknown).
    `stolen_share` is the share of the CPU time that the hypervisor stole, `ballooned_bytes` the
    memory that its balloon took or returned. `held_up_by` is what the pull itself waited for
    (`profiler.pull.evidence.Limit`, in lower case; None if the client does not report it). `trace`
    has at most a few hundred points. `findings` are the contract's values
    (`profiler.report.findings`), for display only. `price` is what other programs noticed, None
    without a neighbour. `over_limit` is how long the destination's EBS volume or its instance was
    over a limit until the pull returned, for several volumes that of the most limited one; None
    without an EBS volume, and if it is unknown: `over_limit_problem` then says why.
    """

    return_s: float
    durable_s: float | None
    stall_share: float | None
    peak_dirty_bytes: int
    thresholds: Thresholds
    limit_bytes: int
    bytes: int
    objects: int
    writers: int = 0
    dirtyable_bytes: int = 0
    others_dirtied_bytes: int = 0
    device_read_bytes: int | None = None
    stolen_share: float = 0.0
    ballooned_bytes: int = 0
    held_up_by: str | None = None
    write_p50_ns: float = 0.0
    write_p99_ns: float = 0.0
    split_s: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[TracePoint, ...] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    price: PriceSeen | None = None
    over_limit: OverLimit | None = None
    over_limit_problem: str | None = None

    @property
    def throttled_share(self) -> float:
        """The stall share; 0 if unknown, because then nothing suggests higher thresholds."""
        return self.stall_share or 0.0


@dataclass(frozen=True)
class Trial:
    """One run of one setting. `problem` is why it has no valid observation, or "".

    Trials with the same `pair`, the number of their block, ran next to each other. A trial that was
    stopped because it could no longer win has neither observation nor problem: it took longer than
    `stopped_s`. `elapsed_s` is the time of the whole trial, with settling and deleting.
    """

    role: str
    setting: Setting
    started_at: str
    observation: Observation | None
    problem: str = ""
    pair: int | None = None
    stopped_s: float | None = None
    elapsed_s: float = 0.0

    @property
    def valid(self) -> Observation | None:
        """The observation if it is comparable, else None."""
        return None if self.problem else self.observation


@dataclass(frozen=True)
class LeftOut:
    """Something that was requested but not tried, and why."""

    what: str
    why: str


def by_reason(items: Sequence[LeftOut]) -> list[LeftOut]:
    """Return the items grouped by reason; more than two names become a number."""
    named: dict[str, list[str]] = {}
    for item in items:
        named.setdefault(item.why, []).append(item.what)
    return [
        LeftOut(
            ", ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more", why
        )
        for why, names in named.items()
    ]


@dataclass
class Results:
    """A study: its circumstances, its space, what was left out, its trials."""

    circumstances: Circumstances
    space: dict[str, Any]
    left_out: list[LeftOut] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Replace the file atomically: a reader finds either the old or the new content."""
        document = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "circumstances": self.circumstances.to_json(),
            "space": self.space,
            "left_out": [asdict(item) for item in self.left_out],
            "trials": [trial_to_json(trial) for trial in self.trials],
        }
        write_atomically(path, json.dumps(document, indent=1) + "\n")


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the values grouped by key, in their order."""
    groups: dict[K, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """Return a trial as plain data."""
    observation = None
    if trial.observation:
        points = [[p.time_s, p.held_bytes, p.written_bytes] for p in trial.observation.trace]
        observation = {**asdict(trial.observation), "trace": points}
    return {
        "role": trial.role,
        "setting": trial.setting.to_json(),
        "started_at": trial.started_at,
        "observation": observation,
        "problem": trial.problem,
        "pair": trial.pair,
        "stopped_s": trial.stopped_s,
        "elapsed_s": trial.elapsed_s,
    }


def load(path: Path, *, trusted: bool = False) -> Results:
    """Read a results file. Raises UsageError if it is invalid.

    With `trusted` (for commands that change the host), also if others could have written it.
    """
    text = _FILE.read_text(str(path), trusted=trusted)
    name = printable(str(path))
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{name} is not a results file, or it is truncated: {error}", _FILE.hint
        ) from None
    return results_of(document, name)


def results_of(document: object, name: str) -> Results:
    """Return the results of a parsed file; `name` is for messages. Raises UsageError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        is_tuning = isinstance(document, dict) and document.get("about") == _TUNING_ABOUT
        hint = _TUNING_HINT if is_tuning else _FILE.hint
        if isinstance(document, dict) and document.get("format") == _RECOMMENDATION:
            hint = "this is a recommendation: use `writewise apply`"
        raise UsageError(f"{name} is not a results file of `writewise sweep`", hint)
    if document.get("version") not in _READABLE:
        raise UsageError(
            f"{name} has version {document.get('version')!r}; this version of Writewise reads "
            f"{_READABLE[0]} to {FORMAT_VERSION}",
            "use the version that wrote it, or run the sweep again",
        )
    try:
        return Results(
            circumstances=_circumstances(document),
            space=dict(document["space"]),
            left_out=[LeftOut(str(i["what"]), str(i["why"])) for i in document["left_out"]],
            trials=[trial_from_json(trial) for trial in _bounded(document["trials"])],
        )
    except KeyError as error:
        raise UsageError(f"{name} is damaged: {error} is missing", _FILE.hint) from None
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UsageError(f"{name} is damaged: {error}", _FILE.hint) from None


def _bounded(trials: Sequence[T]) -> Sequence[T]:
    if len(trials) > MAX_TRIALS:
        raise ValueError(f"{len(trials)} trials, more than {MAX_TRIALS}")
    return trials


def _refuse_constant(text: str) -> float:
    raise ValueError(f"invalid number: {text}")


def _circumstances(document: Mapping[str, Any]) -> Circumstances:
    if document["version"] == FORMAT_VERSION:
        return circumstances_from_json(document["circumstances"])
    return circumstances_of(document["context"])


def trial_from_json(data: Mapping[str, Any]) -> Trial:
    """Return the trial of a document of `trial_to_json`.

    Raises KeyError, TypeError, ValueError, AttributeError or ArithmeticError.
    """
    if data["role"] not in (PRESENT, CANDIDATE, RECHECK, PRICE):
        raise ValueError(f"unknown role of a trial: {data['role']!r}")
    setting = Setting.from_json(data["setting"])
    unknown = [name for name in setting.values if name not in BY_NAME]
    if unknown or not all(0 <= value <= LARGEST for value in setting.values.values()):
        raise ValueError(f"invalid setting: {setting}")
    observed = data["observation"]
    return Trial(
        role=data["role"],
        setting=setting,
        started_at=str(data["started_at"]),
        observation=_observation_from_json(observed) if observed else None,
        problem=str(data["problem"]),
        pair=whole_or_none(data["pair"]),
        stopped_s=None if data["stopped_s"] is None else seconds(data["stopped_s"]),
        elapsed_s=share_or_time(data.get("elapsed_s", 0.0)),
    )


def _observation_from_json(data: Mapping[str, Any]) -> Observation:
    durable, stalled = data["durable_s"], data["stall_share"]
    return Observation(
        return_s=seconds(data["return_s"]),
        durable_s=None if durable is None else seconds(durable),
        stall_share=None if stalled is None else share_or_time(stalled),
        peak_dirty_bytes=whole(data["peak_dirty_bytes"]),
        thresholds=Thresholds(**{name: whole(v) for name, v in data["thresholds"].items()}),
        limit_bytes=whole(data["limit_bytes"]),
        bytes=whole(data["bytes"]),
        objects=whole(data["objects"]),
        writers=whole(data.get("writers", 0)),
        dirtyable_bytes=whole(data["dirtyable_bytes"]),
        others_dirtied_bytes=whole(data["others_dirtied_bytes"]),
        device_read_bytes=whole_or_none(data.get("device_read_bytes")),
        stolen_share=share_or_time(data.get("stolen_share", 0.0)),
        ballooned_bytes=whole(data.get("ballooned_bytes", 0)),
        held_up_by=_text_or_none(data.get("held_up_by")),
        write_p50_ns=share_or_time(data["write_p50_ns"]),
        write_p99_ns=share_or_time(data["write_p99_ns"]),
        split_s={str(cause): share_or_time(time) for cause, time in data["split_s"].items()},
        trace=tuple(_point(*point) for point in data["trace"]),
        findings=tuple(data["findings"]),
        price=_price_from_json(data["price"]) if data.get("price") else None,
        over_limit=over_limit_from_json(data["over_limit"]) if data.get("over_limit") else None,
        over_limit_problem=_text_or_none(data.get("over_limit_problem")),
    )


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def _price_from_json(data: Mapping[str, Any]) -> PriceSeen:
    pressure = data["memory_pressure_share"]
    return PriceSeen(
        observed_s=seconds(data["observed_s"]),
        fsync=_latency(data["fsync"]),
        read=_latency(data["read"]),
        swapped_out_bytes=whole_or_none(data["swapped_out_bytes"]),
        refaulted_bytes=whole_or_none(data["refaulted_bytes"]),
        direct_reclaim_stalls=whole_or_none(data["direct_reclaim_stalls"]),
        memory_pressure_share=None if pressure is None else share(pressure),
        ext4_data_mode=str(data["ext4_data_mode"]),
        problem=str(data["problem"]),
    )


def _latency(data: Mapping[str, Any] | None) -> Latency | None:
    if data is None:
        return None
    count = whole(data["count"])
    median_s, worst_s = (share_or_time(data[name]) for name in ("median_s", "worst_s"))
    if not count or not median_s <= worst_s <= LONGEST_S:
        raise ValueError(f"invalid latency: {count} calls, median {median_s} s, worst {worst_s} s")
    return Latency(median_s, worst_s, count)


def _point(time_s: float, held_bytes: int, written_bytes: int) -> TracePoint:
    return TracePoint(share_or_time(time_s), whole(held_bytes), whole(written_bytes))
