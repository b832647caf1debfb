"""From results to a recommendation: what to change, why, what it gains and what it risks.

The rule, so that it can be argued with:

1. A candidate counts only if it returned faster than *every* run of the present settings, and by
   more than these differed among themselves. Otherwise: no change recommended.
2. Among the candidates within `NEAR_BEST` of the fastest (or within the present settings' own
   spread, if that is wider) the one that leaves least data in memory wins, then the one that
   changes fewest mount options: speed that cannot be told apart is not paid for in risk.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.errors import UsageError
from sysctl.explain import Reason, explain
from sysctl.knobs.mount import split_options
from sysctl.results import CANDIDATE, PRESENT, Observation, Results, Trial
from sysctl.setting import Setting
from sysctl.statistics import Repeats, summarize

NEAR_BEST = 0.10


@dataclass(frozen=True)
class Side:
    """The present or the recommended settings with their repeated times (s) and one observation."""

    setting: Setting
    return_s: Repeats
    observation: Observation
    durable_s: float | None


@dataclass(frozen=True)
class Recommendation:
    """`best` is None when no change is recommended; `verdict` says it in a sentence either way."""

    present: Side
    best: Side | None
    verdict: str
    reasons: tuple[Reason, ...]
    results: Results

    @property
    def speedup(self) -> float:
        """Present time to return divided by the recommended one; 1 without a change."""
        return self.present.return_s.median / self.best.return_s.median if self.best else 1.0


def advise(results: Results) -> Recommendation:
    """Recommend a change, or none. Raises UsageError when there is nothing to compare."""
    present = _side(results, results.of_role(PRESENT))
    if present is None:
        raise UsageError(
            "the results hold no valid run of the present settings, so nothing can be compared",
            "run the sweep again, or go on with --resume",
        )
    chosen = _choose(results, present.return_s)
    if chosen is None:
        return Recommendation(present, None, _no_change(results, present), (), results)
    same = [t for t in results.trials if t.setting == chosen.setting and t.role != PRESENT]
    best = _side(results, same)
    if best is None or best.return_s.largest >= present.return_s.smallest:
        return Recommendation(present, None, _not_confirmed(chosen, present), (), results)
    speedup = present.return_s.median / best.return_s.median
    verdict = f"{speedup:.1f}× faster: {best.return_s.median:.1f} s instead of "
    verdict += f"{present.return_s.median:.1f} s"
    reasons = explain(results, present.setting, present.observation, chosen)
    return Recommendation(present, best, verdict, reasons, results)


def _side(results: Results, trials: list[Trial]) -> Side | None:
    observed = [(trial, trial.valid) for trial in trials if trial.valid]
    valid = [observation for _, observation in observed if observation]
    if not valid:
        return None
    durable = [o.durable_s for o in valid if o.durable_s is not None]
    times = summarize([o.return_s for o in valid])
    return Side(observed[0][0].setting, times, valid[0], durable[0] if durable else None)


def _choose(results: Results, present: Repeats) -> Trial | None:
    timed = [(t.valid, t) for t in results.of_role(CANDIDATE) if t.valid]
    if not timed:
        return None
    fastest_s = min(observation.return_s for observation, _ in timed)
    if fastest_s >= present.smallest or present.median - fastest_s <= present.spread:
        return None
    reach_s = fastest_s * (1 + max(NEAR_BEST, present.relative_spread))
    near = [pair for pair in timed if pair[0].return_s <= reach_s < present.smallest]
    near = near or [pair for pair in timed if pair[0].return_s == fastest_s]
    return min(near, key=lambda pair: _cost(results, pair[1], pair[0]))[1]


def _cost(results: Results, trial: Trial, seen: Observation) -> tuple[int, int, int, float]:
    """What a setting costs: bytes at risk, then mount options changed, then time."""
    return (
        seen.thresholds.dirty_bytes,
        seen.thresholds.background_bytes,
        len(changed_options(results, trial.setting)),
        seen.return_s,
    )


def changed_options(results: Results, setting: Setting) -> set[str]:
    """The mount option words in which a setting differs from the present mount."""
    if setting.mount_options is None:
        return set()
    present = set(results.context.get("mount_words", ()))
    return present ^ set(split_options(setting.mount_options))


def _no_change(results: Results, present: Side) -> str:
    repeats, fastest_s = present.return_s, _fastest_s(results)
    if fastest_s is None:
        return "No change recommended: no other setting could be measured."
    return (
        f"No change recommended: the best of the settings tried took {fastest_s:.1f} s, which the "
        f"present settings' own runs ({repeats.smallest:.1f} to {repeats.largest:.1f} s) do not "
        "let one tell from chance."
    )


def _not_confirmed(chosen: Trial, present: Side) -> str:
    return (
        f"No change recommended: {chosen.setting} was fast once, but not when it was run again "
        f"({present.return_s.smallest:.1f} s is the present settings' fastest run)."
    )


def _fastest_s(results: Results) -> float | None:
    times = [t.valid.return_s for t in results.of_role(CANDIDATE) if t.valid]
    return min(times, default=None)
