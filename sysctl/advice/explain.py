"""Why a recommended value is what it is, from this host's figures."""

from __future__ import annotations

import math
from dataclasses import dataclass

from contracts.shared.text import printable
from contracts.shared.units import counted, format_seconds, format_size
from sysctl.evidence.comparison import Comparison, Side
from sysctl.evidence.differences import change_count, changed_options, changed_transfer
from sysctl.evidence.price import price_of
from sysctl.evidence.results import CANDIDATE, PRESENT, Results
from sysctl.evidence.statistics import Interval
from sysctl.knobs.catalogue import DEVICE_BY_NAME
from sysctl.knobs.mount import MountOption, find, split_options
from sysctl.knobs.setting import Setting
from sysctl.knobs.transfer import TRANSFER_BY_NAME
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR, THRESHOLDS
from sysctl.search.extras import MOUNT, Extra, compared_extras, own_interval

#: The name of a reason that is about mount options; of others it is a sysctl's.
MOUNT_OPTIONS = "mount options"
SET, KEEP, LEAVE_OUT = "set", "keep", "leave out"
#: Times the present time from which on a bound is only said to be larger: it tells no more.
LARGEST_SHARE = 10.0
#: Of this one 0 is no shortest time: it turns periodic write-back off.
_OFF_AT_0 = "vm.dirty_writeback_centisecs"


@dataclass(frozen=True)
class Reason:
    """A sysctl's value or a text of mount options: to `set`, to `keep` or to `leave out`, and why.

    `before` is what it replaces, empty when nothing changes; `mechanism` what the value does here,
    `effect` what was measured. `risk` is what the change may cost and `undo` when to take it back,
    both empty where nothing is known or nothing changes.
    """

    name: str
    value: str
    action: str
    before: str = ""
    mechanism: str = ""
    effect: str = ""
    risk: str = ""
    undo: str = ""

    @property
    def why(self) -> str:
        """Mechanism and effect in one line."""
        return "; ".join(part for part in (self.mechanism, self.effect) if part)


def explain_sysctls(
    results: Results, present: Side, best: Side, comparison: Comparison
) -> tuple[Reason, ...]:
    """A reason for each sysctl of the best setting."""
    changed = [n for n, v in best.setting.values.items() if present.setting.values.get(n) != v]
    effects = dict.fromkeys(changed[1:], f"measured together with {''.join(changed[:1])}")
    total = together(results, best.setting, comparison)
    return tuple(
        _explain(results, present, best, name, effects.get(name, total))
        for name in best.setting.values
    )


def _explain(results: Results, present: Side, best: Side, name: str, measured: str) -> Reason:
    value = best.setting.values[name]
    others = _others(results, best.setting, name)
    peak_bytes = price_of(results, best.setting).at_risk_bytes
    if present.setting.values.get(name) == value:
        effect = others or "not changed, since the combination is what was measured"
        return Reason(name, str(value), KEEP, "", _now(name, best), effect)
    is_extra = name not in THRESHOLDS
    measured = _own_effect(results, best.setting, name) if is_extra else measured
    effect = "; ".join(part for part in (measured, others) if part)
    return Reason(
        name=name,
        value=str(value),
        action=SET,
        before=_before(present.setting, name),
        mechanism=_change(name, present, best),
        effect=effect,
        risk=BY_NAME[name].risk if _is_riskier(name, present, best) else "",
        undo=_undo(name, peak_bytes),
    )


def together(results: Results, setting: Setting, comparison: Comparison) -> str:
    """The measured effect of a whole setting: its time beside the present one's."""
    changes = "this change" if change_count(results, setting) == 1 else "all changes together"
    return f"with {changes} the pull took {share_text(comparison.interval)}"


def share_text(interval: Interval | None) -> str:
    """`17.3% of the present time (95% interval 15.2% to 21.1%, 3 pairs)`."""
    if interval is None:
        return "a time that no pair tells"
    span = f"95% interval {share(interval.low)} to {share(interval.high)}, "
    bounds = span * (interval.count > 1)
    count = counted(interval.count, "pair")
    return f"{share(interval.estimate)} of the present time ({bounds}{count})"


def share(part: float, decimals: int = 1) -> str:
    """`17.3%`; of `LARGEST_SHARE` and more only that it is more."""
    if part > LARGEST_SHARE:
        return f"more than {LARGEST_SHARE:,.0%}"
    return f"{part:.{decimals}%}"


def explain_device(results: Results, best: Setting) -> list[Reason]:
    """A reason for each knob of the destination's disk that the best setting changes."""
    before = results.circumstances.node_class.present_device
    return [
        Reason(
            name=name,
            value=value,
            action=SET,
            before=before.get(name, "as found"),
            mechanism=DEVICE_BY_NAME[name].what,
            effect=_own_effect(results, best, name),
            risk=DEVICE_BY_NAME[name].risk,
            undo="when the volume is replaced by one of another kind; a restart undoes it, unless "
            "a udev rule sets it again",
        )
        for name, value in best.device
        if before.get(name) != value
    ]


def explain_transfer(results: Results, best: Setting, comparison: Comparison) -> list[Reason]:
    """A reason for each of the pull's own settings that was varied."""
    changed = changed_transfer(results, best)
    before = dict(results.of_role(PRESENT)[0].setting.transfer)
    return [
        Reason(
            name=name,
            value=knob.text(value),
            action=SET if name in changed else KEEP,
            before=knob.text(before[name]) if name in changed and name in before else "",
            mechanism=knob.what,
            effect=together(results, best, comparison)
            if name in changed
            else "not changed, since the combination is what was measured",
            undo="by a pull without it: nothing on the host is changed" if name in changed else "",
        )
        for name, value in best.transfer
        for knob in [TRANSFER_BY_NAME[name]]
    ]


def _before(present: Setting, name: str) -> str:
    """What the value replaces: of a ratio/bytes pair the member in force."""
    counterpart = BY_NAME[name].counterpart
    if name in present.values:
        return str(present.values[name])
    if counterpart in present.values:
        return f"{counterpart} = {present.values[str(counterpart)]}"
    return ""


def _change(name: str, present: Side, best: Side) -> str:
    """What the value does to this pull, in figures of before and now."""
    old, new = present.thresholds, best.thresholds
    if name in BACKGROUND_PAIR:
        return (
            f"write-back starts at {format_size(new.background_bytes)} of dirty pages instead of "
            f"{format_size(old.background_bytes)}"
        )
    if name not in DIRTY_PAIR:
        return BY_NAME[name].what
    return (
        f"writers waited from {format_size(old.freerun_bytes)} of dirty pages on, "
        f"{_stall(present)} of their time; with it they wait from "
        f"{format_size(new.freerun_bytes)} on, {_stall(best)} of their time"
    )


def _now(name: str, best: Side) -> str:
    """The same for a value that stays."""
    if name in BACKGROUND_PAIR:
        return (
            f"write-back starts at {format_size(best.thresholds.background_bytes)} of dirty pages"
        )
    if name not in DIRTY_PAIR:
        return BY_NAME[name].what
    freerun = format_size(best.thresholds.freerun_bytes)
    return f"writers wait from {freerun} of dirty pages on, {_stall(best)} of their time"


def _stall(side: Side) -> str:
    return f"{side.observation.throttled_share:.0%}"


def _is_riskier(name: str, present: Side, best: Side) -> bool:
    """A lowered threshold leaves less in memory; of other sysctls the value itself decides."""
    old, new = present.thresholds, best.thresholds
    if name in DIRTY_PAIR:
        return new.dirty_bytes > old.dirty_bytes
    if name in BACKGROUND_PAIR:
        return new.background_bytes > old.background_bytes
    before = present.setting.values.get(name, BY_NAME[name].kernel_default)
    return _in_memory_for(name, best.setting.values[name]) > _in_memory_for(name, before)


def _in_memory_for(name: str, value: int) -> float:
    """A value as the time that data stays in memory."""
    return math.inf if name == _OFF_AT_0 and value == 0 else value


def _undo(name: str, peak_bytes: int) -> str:
    if name in DIRTY_PAIR:
        return (
            "when what is written cannot be fetched again, or when programs come to need the "
            f"{format_size(peak_bytes)} of memory that it holds"
        )
    if name in BACKGROUND_PAIR:
        return f"when {DIRTY_PAIR[0]} or {DIRTY_PAIR[1]} is: the two were measured together"
    return "when data must be on the device sooner than this leaves it in memory"


def _others(results: Results, chosen: Setting, name: str) -> str:
    """The times of the settings that differ from the chosen one in this sysctl alone."""
    times = {
        trial.setting.values[name]: trial.valid.return_s
        for trial in results.of_role(CANDIDATE)
        if trial.valid and _without(trial.setting, name) == _without(chosen, name)
    }
    if len(times) < 2:
        return ""
    shown = ", ".join(f"{value}: {format_seconds(time)}" for value, time in sorted(times.items()))
    return f"in the search, one run each with this value alone changed: {shown}"


def _without(setting: Setting, name: str) -> tuple[object, ...]:
    others = {other: value for other, value in setting.values.items() if other != name}
    rest = (setting.mount_options, setting.device, setting.transfer)
    return (name in setting.values, tuple(sorted(others.items())), rest)


def explain_mount(results: Results, best: Setting) -> list[Reason]:
    """A reason for the mount options of the best setting, where they are not the present ones."""
    if not changed_options(results, best):
        return []
    known = _known_options(results, best.mount_options or "")
    return [
        Reason(
            name=MOUNT_OPTIONS,
            value=best.mount_options or "defaults",
            action=SET,
            before=",".join(results.circumstances.node_class.mount_words) or "defaults",
            mechanism=_mount_mechanism(known),
            effect=_own_effect(results, best, MOUNT),
            risk="; ".join(option.risk for option in known if option.risk),
            undo="if you cannot accept that risk: mount with the old options",
        )
    ]


def explain_left_out(results: Results, best: Setting) -> list[Reason]:
    """A reason for each extra that was compared and that the best setting does not have."""
    return [
        Reason(
            name=MOUNT_OPTIONS if name == MOUNT else name,
            value=value or "defaults",
            action=LEAVE_OUT,
            mechanism=_mechanism(results, name, value),
            effect=_own_effect(results, setting, name),
        )
        for (name, value), setting in compared_extras(results).items()
        if not Extra(name, value).is_in(best)
    ]


def _mechanism(results: Results, name: str, value: str) -> str:
    if name == MOUNT:
        return _mount_mechanism(_known_options(results, value))
    return DEVICE_BY_NAME[name].what if name in DEVICE_BY_NAME else BY_NAME[name].what


def _known_options(results: Results, text: str) -> list[MountOption]:
    words = [find(word, results.circumstances.node_class.fstype) for word in split_options(text)]
    return [option for option in words if option]


def _mount_mechanism(options: list[MountOption]) -> str:
    return "; ".join(f"{option.name}: {option.note}" for option in options)


def _own_effect(results: Results, setting: Setting, name: str) -> str:
    """What the pairs with and without an extra show."""
    interval = own_interval(results, setting, name)
    if interval is None:
        problems = [trial.problem for trial in results.of_setting(setting) if trial.problem]
        why = f": {printable(problems[-1])}" if problems else ""
        return f"was not compared with the same settings without it{why}"
    return (
        f"with it the pull took {share(interval.estimate)} of the time without it (95% interval "
        f"{share(interval.low)} to {share(interval.high)}, {counted(interval.count, 'pair')})"
    )
