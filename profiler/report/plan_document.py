# SPDX-License-Identifier: Apache-2.0
"""A plan as a document for JSON."""

from __future__ import annotations

from typing import Any

from profiler.report.cheapest import verdict_text
from profiler.report.plan import Question, verdict_lines
from sysctl.evidence.circumstances import KnownVolume
from sysctl.volume import instances, volume_types
from sysctl.volume.cheapest import CheapestVolumes, VolumeSearch
from sysctl.volume.limits import LimitedBy
from sysctl.volume.planning import MeasuredDevice, Plan
from sysctl.volume.timeline import Course
from sysctl.volume.volume_types import EbsVolume
from sysctl.volume.write_back import Return


def plan_document(plan: Plan, asked: Question) -> dict[str, object]:
    """Return one plan, and how the options were read."""
    return {
        "verdict": list(verdict_lines(plan, asked)),
        **_plan(plan),
        "pull": _pull(plan),
        "instance": plan.node.instance.name if plan.node.instance else None,
        "source": _source(plan),
        "phases": _phases(plan, plan.course),
        "write_back": _write_back(plan),
        **_asked(asked, plan.slowest_s),
        "tables": _tables(plan, asked),
    }


def cheapest_document(
    found: CheapestVolumes, wanted: VolumeSearch, asked: Question
) -> dict[str, object]:
    """Return the plans found, cheapest first, and the missing types."""
    return {
        "verdict": verdict_text(found, wanted),
        "volumes": [_plan(plan) for plan in found.plans],
        "left_out": {
            "too_slow": list(found.too_slow),
            "too_small": list(found.too_small),
            "unpriced": list(found.unpriced),
        },
        "capacity_gib": wanted.capacity_gib,
        **_asked(asked, None),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    """Return the results of a pull on a volume."""
    course, repeated = plan.course, plan.repeated
    empty = plan.without_credits(LimitedBy.VOLUME)
    return {
        "volume": _volume(plan),
        "monthly_usd": rounded_usd(plan.monthly_usd),
        "durable_s": course.durable_s,
        "return_s": plan.return_s,
        "limited_by": course.limited_by.value,
        "credits_end_s": course.falls_at_s,
        "balance_after": _percent(plan, LimitedBy.VOLUME, course),
        "instance_balance_after": _percent(plan, LimitedBy.INSTANCE, course),
        "empty_durable_s": empty.durable_s if empty else None,
        "margin_durable_s": plan.with_margin.durable_s if plan.with_margin else None,
        "pulls_per_day": plan.pulls_per_day,
        "guaranteed_pulls_per_day": plan.guaranteed_pulls_per_day,
        "first_slow_pull": repeated.first_slow_pull if repeated else None,
        "steady_durable_s": repeated.steady.durable_s if repeated else None,
    }


def _volume(plan: Plan) -> dict[str, object] | None:
    return None if isinstance(plan.volume, MeasuredDevice) else ebs_volume(plan.volume)


def ebs_volume(volume: EbsVolume | KnownVolume) -> dict[str, object]:
    """Return a volume's figures; null: unknown, or none of this type."""
    return {
        "type": volume.type,
        "size_gib": volume.size_gib,
        "iops": volume.iops,
        "throughput_mib_per_s": volume.mib_per_s,
    }


def rounded_usd(usd: float | None) -> float | None:
    """Return an amount of money in whole cents."""
    return None if usd is None else round(usd, 2)


def _percent(plan: Plan, owner: LimitedBy, course: Course) -> float | None:
    share = plan.balance(owner, course.levels_after)
    return None if share is None else 100 * share


def _pull(plan: Plan) -> dict[str, object]:
    return {
        "size_bytes": plan.pull.size_bytes,
        "io_bytes": plan.pull.io_bytes,
        "idle_s": plan.pull.idle_s,
    }


def _source(plan: Plan) -> dict[str, object] | None:
    source = plan.node.source
    return {"kind": source.owner.value, "bytes_per_s": source.bytes_per_s} if source else None


def _phases(plan: Plan, course: Course) -> list[dict[str, object]]:
    def percent(levels: tuple[float, ...]) -> float | None:
        share = plan.balance(LimitedBy.VOLUME, levels)
        return None if share is None else 100 * share

    return [
        {
            "begins_s": phase.begins_s,
            "ends_s": phase.ends_s,
            "bytes_per_s": phase.bytes_per_s,
            "limited_by": phase.limited_by.value,
            "balance_before": percent(phase.levels_before),
            "balance_after": percent(phase.levels_after),
        }
        for phase in course.phases
    ]


def _write_back(plan: Plan) -> dict[str, object] | None:
    write_back = plan.write_back
    if write_back is None:
        return None
    return {
        "helps": write_back.best is not None,
        "writers_wait": write_back.makes_writers_wait,
        "unthrottled_s": write_back.unthrottled_s,
        "current": _returns(write_back.current),
        "best": _returns(write_back.best) if write_back.best else None,
        "settings": [_returns(each) for each in write_back.candidates],
    }


def _returns(each: Return) -> dict[str, object]:
    return {
        "sysctls": each.setting.values,
        "return_s": each.return_s,
        "write_back_begins_s": each.begins_s,
        "writers_wait_from_s": each.waits_from_s,
    }


def _asked(asked: Question, slowest_s: float | None) -> dict[str, object]:
    deadline_s = asked.deadline_s
    is_met = None if deadline_s is None or slowest_s is None else slowest_s <= deadline_s
    return {
        "deadline_s": deadline_s,
        "meets_deadline": is_met,
        "assumed": list(asked.assumed),
        "warnings": list(asked.warnings),
        "sources": list(asked.sources),
    }


def _tables(plan: Plan, asked: Question) -> dict[str, object]:
    return {
        "volumes": volume_types.table()["as_of"],
        "instances": None if asked.is_instance_live else instances.table().as_of,
        "prices": plan.prices.origin,
    }
