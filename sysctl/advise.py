"""From results to a recommendation: what to change, why, what it gains and what it risks.

The rule, so that it can be argued with:

1. A candidate counts only if it returned faster than *every* run of the present settings (of which
   there must be two or more), by more than these differed among themselves, and by 5 % or more.
   Otherwise: no change recommended.
2. A change of mount options counts only if it was faster at *every* setting of the sysctls at which
   it was tried beside the present mount, by more than chance (`MOUNT_GAIN`).
3. Among the candidates within `NEAR_BEST` of the fastest (or within the present settings' own
   spread, if that is wider) the one that leaves least data in memory wins, then the one that
   changes fewest mount options: speed that cannot be told apart is not paid for in risk.
4. The chosen one is run once more and must beat every present run again.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.errors import UsageError
from contracts.units import format_size
from sysctl.evidence import Side, side_of, thresholds_of
from sysctl.explain import MOUNT_OPTIONS, Reason, explain_sysctls
from sysctl.knobs.mount import find, split_options
from sysctl.results import CANDIDATE, PRESENT, RECHECK, Observation, Results, Trial
from sysctl.setting import Setting
from sysctl.statistics import summarize

NEAR_BEST = 0.10
MOUNT_GAIN = 0.05
MIN_GAIN = 0.05
MIN_PRESENT_RUNS = 2
_UNFINISHED = (
    "No change recommended yet: the sweep was not finished, so its best setting was not run a "
    "second time; go on with `writewise sweep … --resume`."
)
#: Below this share of their time writers may be said not to wait at all.
_NO_STALL = 0.02


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
    present = side_of(results, results.of_role(PRESENT))
    if present is None:
        raise UsageError(
            "the results hold no valid run of the present settings, so nothing can be compared",
            "run the sweep again, or go on with --resume",
        )
    chosen = choose(results)
    if chosen is None:
        return Recommendation(present, None, _no_change(results, present), (), results)
    confirmed = [t for t in results.of_role(RECHECK) if t.valid and t.setting == chosen.setting]
    best = side_of(results, [chosen, *confirmed])
    if not confirmed or best is None:
        return Recommendation(present, None, _UNFINISHED, (), results)
    if best.return_s.largest >= present.return_s.smallest:
        return Recommendation(present, None, _not_confirmed(chosen, present), (), results)
    speedup = present.return_s.median / best.return_s.median
    verdict = f"{speedup:.1f}× faster: {best.return_s.median:.1f} s instead of "
    verdict += f"{present.return_s.median:.1f} s"
    reasons = (
        *explain_sysctls(results, present, best),
        *explain_mounts(results, chosen.setting),
    )
    return Recommendation(present, best, verdict, reasons, results)


def choose(results: Results) -> Trial | None:
    """The candidate that rules 1 to 3 pick, or None."""
    times = [t.valid.return_s for t in results.of_role(PRESENT) if t.valid]
    timed = [(t.valid, t) for t in results.of_role(CANDIDATE) if t.valid]
    timed = [pair for pair in timed if _is_worth_its_mount(results, pair[1])]
    if len(times) < MIN_PRESENT_RUNS or not timed:
        return None
    present = summarize(times)
    fastest_s = min(observation.return_s for observation, _ in timed)
    gain_s = present.median - fastest_s
    if fastest_s >= present.smallest or gain_s <= max(present.spread, MIN_GAIN * present.median):
        return None
    reach_s = fastest_s * (1 + max(NEAR_BEST, present.relative_spread))
    near = [pair for pair in timed if pair[0].return_s <= min(reach_s, present.smallest)]
    return min(near, key=lambda pair: _cost(results, pair[1], pair[0]))[1]


def _is_worth_its_mount(results: Results, trial: Trial) -> bool:
    """Rule 2; a mount that was never tried beside the present one cannot be told from it."""
    if not changed_options(results, trial.setting):
        return True
    ratios = mount_ratios(results, trial.setting.mount_options)
    return not ratios or max(ratios) < 1 - MOUNT_GAIN


def mount_ratios(results: Results, mount_options: str | None) -> list[float]:
    """Times under `mount_options` divided by those under the present mount, at the same sysctls."""
    unchanged: dict[object, float] = {}
    changed: dict[object, float] = {}
    for trial in results.of_role(CANDIDATE):
        if trial.valid and not changed_options(results, trial.setting):
            unchanged[trial.setting.sysctls] = trial.valid.return_s
        elif trial.valid and trial.setting.mount_options == mount_options:
            changed[trial.setting.sysctls] = trial.valid.return_s
    return [time / unchanged[sysctls] for sysctls, time in changed.items() if sysctls in unchanged]


def _cost(results: Results, trial: Trial, seen: Observation) -> tuple[int, int, int, float]:
    """What a setting costs: bytes at risk, then mount options changed, then time."""
    thresholds = thresholds_of(results, trial.setting)
    return (
        thresholds.dirty_bytes,
        thresholds.background_bytes,
        len(changed_options(results, trial.setting)),
        seen.return_s,
    )


def changed_options(results: Results, setting: Setting) -> set[str]:
    """The mount option words in which a setting differs from the present mount."""
    if setting.mount_options is None:
        return set()
    present = set(results.context.get("mount_words", ()))
    return present ^ set(split_options(setting.mount_options))


def explain_mounts(results: Results, chosen: Setting) -> list[Reason]:
    """A reason for each mount option text that was tried beside the present mount."""
    texts = [t.setting for t in results.of_role(CANDIDATE) if changed_options(results, t.setting)]
    reasons = []
    for text in dict.fromkeys(setting.mount_options or "" for setting in texts):
        action = "set" if text == chosen.mount_options else "leave out"
        ratios = mount_ratios(results, text)
        why = "was not tried beside the present mount"
        if ratios:
            why = f"time with it {min(ratios):.2f} to {max(ratios):.2f} of that without"
        words = [find(word, str(results.context.get("fstype"))) for word in split_options(text)]
        known = [option for option in words if option]
        why = "; ".join([why, *(f"{option.name}: {option.note}" for option in known)])
        risk = "; ".join(option.risk for option in known if option.risk)
        shown = text or "defaults"
        reasons.append(Reason(MOUNT_OPTIONS, shown, action, why, risk if action == "set" else ""))
    return reasons


def _no_change(results: Results, present: Side) -> str:
    repeats, seen, fastest_s = present.return_s, present.observation, _fastest_s(results)
    if repeats.count < MIN_PRESENT_RUNS:
        return _UNFINISHED
    if fastest_s is None:
        return "No change recommended: no other setting could be measured."
    freerun_bytes = present.thresholds.freerun_bytes
    if seen.stall_share < _NO_STALL and seen.peak_dirty_bytes < freerun_bytes:
        return (
            "No change recommended: writers never waited. At most "
            f"{format_size(seen.peak_dirty_bytes)} were dirty, and they are made to wait from "
            f"{format_size(freerun_bytes)} on, so no write-back setting can help."
        )
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
