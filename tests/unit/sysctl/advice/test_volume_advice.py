# SPDX-License-Identifier: Apache-2.0
"""The advice on the volume: what limits the device, and when another volume is the answer."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from sysctl.advice.advise import advise
from sysctl.advice.conclusions import Case
from sysctl.advice.device_rate import Fit
from sysctl.advice.other_volumes import rate_for_return
from sysctl.advice.volume_advice import Aim, Choice, OutOfReach
from sysctl.evidence.circumstances import KnownVolume
from sysctl.evidence.over_limit import OverLimit
from sysctl.evidence.price import Limits
from sysctl.evidence.results import load
from sysctl.knobs.setting import Setting
from sysctl.volume.limits import LimitedBy
from sysctl.volume.prices import Prices
from tests.places import DATA
from tests.unit.studies import MIB, Study, course
from tests.unit.sweeps import GIB, PRESENT
from tests.unit.volume_studies import FASTER, GP3, ST1, beyond_memory, gain, no_gain, study


def test_a_volume_of_an_earlier_file_is_unknown():
    advice = advise(load(DATA / "results-mounts-in-the-search.json")).volume
    assert (advice.volume, advice.instance, advice.current) == (None, None, None)
    assert advice.rate.fit is Fit.UNKNOWN
    assert advice.capacity_gib == 2, "that of the pull"
    assert not advice.is_capacity_known


def test_the_recorded_sweep_of_a_lab_ran_at_the_rate_of_the_volume_it_emulated():
    """A lab with a cap of 62.5 MiB/s: st1 of 256 GiB with credits."""
    results = load(DATA / "results-version-2.json")
    now = results.circumstances
    of_class = replace(now.node_class, volume=KnownVolume("st1", 256))
    results.circumstances = replace(now, node_class=of_class)
    rate = advise(results).volume.rate
    assert (rate.fit, rate.limited_by) == (Fit.WITH_CREDITS, LimitedBy.VOLUME)
    assert rate.bytes_per_s == pytest.approx(62.5 * MIB, rel=0.01)


def test_the_recorded_sweep_of_a_lab_that_knew_its_volume():
    """`writewise sweep --volume-type st1 --volume-size 256 --credits full`, capped at 62.5 MiB/s.

    Other work on the host made trials invalid; the device's rate and the two pairs are not of them.
    """
    recommendation = advise(load(DATA / "results-st1-in-a-lab.json"))
    advice = recommendation.volume
    rate, choice = advice.rate, advice.choice
    assert (rate.fit, rate.limited_by) == (Fit.WITH_CREDITS, LimitedBy.VOLUME)
    assert rate.bytes_per_s == pytest.approx(62.5 * MIB, rel=0.01)
    assert rate.state.bytes_per_s == 62.5 * MIB
    assert recommendation.case is Case.CHANGE
    assert (choice.aim, choice.is_recommended) == (Aim.SAME_RETURN, False)
    assert advice.current.monthly_usd == pytest.approx(256 * 0.045)
    assert choice.other.return_s < recommendation.present.return_s.median / 5


@pytest.mark.parametrize(
    ("volume", "instance", "fit", "limited_by"),
    [
        (None, None, Fit.UNKNOWN, None),
        (None, "m5.large", Fit.UNKNOWN, None),
        (ST1, None, Fit.WITH_CREDITS, LimitedBy.VOLUME),
        (KnownVolume("sc1", 800), None, Fit.WITH_CREDITS, LimitedBy.VOLUME),
        (KnownVolume("st1", 1600), None, Fit.WITHOUT_CREDITS, LimitedBy.VOLUME_CREDITS),
        (KnownVolume("st1", 1000), None, Fit.BETWEEN, None),
        (KnownVolume("gp3", 250, 3000, 250.0), "t3.nano", Fit.BETWEEN, LimitedBy.INSTANCE_CREDITS),
        (KnownVolume("gp2", 2000), "t3.medium", Fit.BETWEEN, LimitedBy.INSTANCE_CREDITS),
        (KnownVolume("st1", 1000), "m5.large", Fit.BETWEEN, None),
        (KnownVolume("st1", 125), None, Fit.ABOVE, None),
        (GP3, None, Fit.BELOW, None),
        (
            KnownVolume("gp3", 250, 3000, 250.0),
            "a1.large",
            Fit.WITHOUT_CREDITS,
            LimitedBy.INSTANCE_CREDITS,
        ),
        (KnownVolume("gp3", 250, 3000, 250.0), "c4.large", Fit.WITH_CREDITS, LimitedBy.INSTANCE),
        (ST1, "m5.large", Fit.WITH_CREDITS, LimitedBy.VOLUME),
        (ST1, "not-in-the-table", Fit.WITH_CREDITS, LimitedBy.VOLUME),
    ],
)
def test_what_the_rate_is_made_of(volume, instance, fit, limited_by):
    rate = gain(volume, instance).volume.rate
    assert rate.fit is fit
    assert rate.limited_by is limited_by


def test_no_volume_is_named_if_the_instance_ran_out_of_credits():
    """gp3 has none: a faster volume would not get more through the instance."""
    recommendation = gain(KnownVolume("gp3", 250, 3000, 250.0), "t3.nano")
    advice = recommendation.volume
    assert advice.rate.credits == {LimitedBy.INSTANCE: 0.0}
    assert not advice.rate.may_volume_help
    assert (advice.outcome, advice.others) == (None, ())
    of_volume = gain(KnownVolume("st1", 1000), "m5.large").volume
    assert of_volume.rate.credits == {LimitedBy.VOLUME: 0.0}
    assert of_volume.rate.may_volume_help
    over = OverLimit(observed_s=20.0, volume_throughput_s=15.0)
    counted = replace(advice.rate, over=over)
    assert counted.limited_by is LimitedBy.VOLUME, "the counters overrule"
    assert counted.credits == {LimitedBy.VOLUME: 0.0}


def test_a_volume_that_aws_would_refuse_is_unknown_and_said():
    rate = gain(KnownVolume("st1", 50)).volume.rate
    assert rate.problem == "st1 of 50 GiB is too small"
    assert rate.fit is Fit.UNKNOWN
    assert gain(KnownVolume("gp9", 50)).volume.rate.problem == "unknown volume type 'gp9'"


def test_a_device_as_fast_as_the_source_is_not_the_limit():
    calm = Study(stall_share=0.0, durable_s=21.0, context={"volume": asdict(GP3)})
    calm.present = {"stall_share": 0.0, "durable_s": 21.0}
    advice = advise(calm.candidate(FASTER, 20.0).results).volume
    assert (advice.rate.fit, advice.rate.limited_by) == (Fit.KEEPS_UP, LimitedBy.SOURCE)
    assert advice.outcome is None


def test_settings_come_first_and_the_volume_returns_as_fast_without_them():
    recommendation = gain()
    choice = recommendation.volume.choice
    assert recommendation.case is Case.CHANGE
    assert (choice.aim, choice.is_recommended) == (Aim.SAME_RETURN, False)
    assert choice.other.return_s == pytest.approx(4.0, rel=0.02)
    assert choice.other.durable_s < recommendation.price.durable_s / 3
    assert recommendation.volume.more_usd(choice.other) > 0


def test_the_cheapest_that_returns_as_fast_is_chosen():
    advice = gain().volume
    volume, model = advice.choice.other.plan.volume, gain().analysis.model
    assert volume.type == "gp3"
    slower = replace(model, device_bytes_per_s=(volume.mib_per_s - 1) * MIB).predict({})
    assert slower.return_s > gain().conclusion.best_s >= advice.choice.other.return_s


def test_where_no_setting_gains_the_volume_is_the_recommendation():
    recommendation = no_gain()
    choice = recommendation.volume.choice
    assert recommendation.case is Case.NO_DIFFERENCE
    assert (choice.aim, choice.is_recommended) == (Aim.WITHOUT_WAITS, True)
    model = recommendation.analysis.model
    assert choice.other.return_s <= model.unthrottled_s() * 1.03


def test_beyond_memory_the_volume_has_the_rate_that_the_report_names():
    recommendation = beyond_memory()
    assert recommendation.case is Case.BEYOND_MEMORY
    choice = recommendation.volume.choice
    assert (choice.aim, choice.is_recommended) == (Aim.BEST_THRESHOLDS, True)
    rate = recommendation.conclusion.device_bytes_per_s
    delivered = choice.other.plan.course.phases[0].bytes_per_s
    assert rate <= delivered <= rate + 2 * MIB


def test_what_is_durable_too_late_needs_a_volume_that_keeps_the_limit():
    choice = no_gain(limits=Limits(max_durable_s=12.0)).volume.choice
    assert choice.aim is Aim.WITHIN_LIMIT
    assert choice.other.durable_s <= 12.0
    assert choice.other.plan.volume.mib_per_s < no_gain().volume.choice.other.plan.volume.mib_per_s


@pytest.mark.parametrize(
    ("volume", "fit"), [(GP3, Fit.BELOW), (KnownVolume("st1", 125), Fit.ABOVE)]
)
def test_a_device_that_is_not_like_its_type_gets_no_other_volume(volume, fit):
    for recommendation in (gain(volume), no_gain(volume), beyond_memory(volume)):
        advice = recommendation.volume
        assert advice.rate.fit is fit
        assert (advice.outcome, advice.others) == (None, ())


def test_where_the_instance_is_the_limit_no_volume_helps():
    recommendation = no_gain(KnownVolume("gp3", 250, 3000, 250.0), "c4.large")
    assert recommendation.volume.outcome is None
    assert not recommendation.volume.is_recommendation


def test_an_aim_beyond_the_instance_is_out_of_reach():
    outcome = beyond_memory(ST1, "t3.micro").volume.outcome
    assert isinstance(outcome, OutOfReach)
    assert outcome.limited_by is LimitedBy.INSTANCE


def test_too_little_evidence_names_no_volume():
    unfinished = advise(study().results)
    assert unfinished.case is Case.UNFINISHED
    assert unfinished.volume.outcome is None
    assert unfinished.volume.others, "but the same pull on others is shown"
    noisy = advise(study().add("present", PRESENT, 40.0, **study().present).results)
    assert (noisy.case, noisy.volume.outcome) == (Case.NOISE, None)


def test_the_unknown_rate_of_the_device_is_reported():
    advice = advise(Study(context={"volume": asdict(ST1)}).tried(FASTER, 4.0).results).volume
    assert advice.rate is None
    assert advice.unknown.startswith("the runs do not show")
    assert advice.volume.type == "st1"


def test_where_credits_ran_out_other_volumes_are_planned_without():
    advice = no_gain(KnownVolume("st1", 1600)).volume
    assert advice.rate.credits[LimitedBy.VOLUME] == 0
    for other in advice.others:
        plan = other.plan
        assert plan.without_credits(LimitedBy.VOLUME) in (None, plan.course)


def test_other_volumes_are_few_and_each_is_faster_than_all_cheaper_ones():
    for recommendation in (gain(), gain(None), no_gain(), beyond_memory()):
        others = recommendation.volume.others
        prices = [each.plan.monthly_usd for each in others]
        times = [each.durable_s for each in others]
        assert 3 <= len(others) <= 6
        assert prices == sorted(prices)
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == len(times)
        choice = recommendation.volume.choice
        assert choice.other.plan.volume in [each.plan.volume for each in others]


def test_no_other_volume_is_smaller_than_the_present_one():
    sizes = [each.plan.volume.size_gib for each in gain(KnownVolume("st1", 300)).volume.others]
    assert min(sizes) >= 300


def over(**seconds):
    return OverLimit(20.0, **seconds)


def test_what_ebs_counted_decides():
    instance = gain(None, over_limit=over(instance_throughput_s=15.0))
    assert instance.volume.rate.limited_by is LimitedBy.INSTANCE
    assert instance.volume.outcome is None
    volume = gain(None, over_limit=over(volume_throughput_s=15.0))
    assert volume.volume.rate.limited_by is LimitedBy.VOLUME
    assert isinstance(volume.volume.outcome, Choice)
    without_credits = gain(KnownVolume("st1", 1600), over_limit=over(volume_throughput_s=15.0))
    assert without_credits.volume.rate.limited_by is LimitedBy.VOLUME_CREDITS


def test_where_ebs_counted_no_limit_no_volume_is_named():
    for counted in (over(), over(volume_throughput_s=0.2)):
        recommendation = no_gain(over_limit=counted)
        assert recommendation.volume.rate.is_never_over
        assert recommendation.volume.outcome is None


def test_prices_of_the_user_decide():
    dear = Prices("mine", {"st1": {"gib_month": 0.01}, "gp3": {}})
    advice = advise(study().tried(FASTER, 19.9).results, prices=dear).volume
    assert advice.prices.origin == "mine"
    assert {vars(each.plan.volume)["type"] for each in advice.others} == {"st1"}


def test_a_gain_of_other_settings_says_nothing_of_the_volume():
    setting = Setting((), "noatime")
    recommendation = advise(study().credited(setting, 15.0).results)
    assert recommendation.case is Case.CHANGE
    assert recommendation.volume.outcome is None


def test_the_aim_is_not_met_by_a_volume_that_gains_too_little():
    """Writers wait for 3 % of their time: without any wait the pull is hardly faster."""
    made = study(stall_share=0.03)
    made.results.trials.clear()
    trace = course(0.05, 600 * MIB, 560 * MIB, 614 * MIB, 3.0)
    made.present = {"durable_s": 3.9, "trace": trace, "stall_share": 0.03}
    for _ in range(2):
        made.add("present", PRESENT, 3.4, **made.present)
    made.recheck(FASTER, [3.4, 3.4, 3.4], [3.4, 3.4, 3.4])
    recommendation = advise(made.results)
    assert recommendation.case is Case.NO_DIFFERENCE
    assert recommendation.volume.outcome is None


def test_a_rate_for_a_return_exists_between_the_device_and_the_source():
    model = gain().analysis.model
    assert rate_for_return(model, 3600.0) is None, "the device is fast enough"
    assert rate_for_return(model, 0.1) is None, "the source is too slow"
    rates = [rate_for_return(model, goal_s) for goal_s in (4.0, 8.0, 16.0)]
    assert rates == sorted(rates, reverse=True)
    for goal_s, rate in zip((4.0, 8.0, 16.0), rates):
        returned_s = replace(model, device_bytes_per_s=rate).predict({}).return_s
        assert returned_s == pytest.approx(goal_s, rel=1e-3)


def test_the_capacity_is_at_least_the_whole_prefix():
    results = study(None).tried(FASTER, 4.0).results
    of_class = replace(results.circumstances.node_class, bytes=GIB, whole_bytes=90 * GIB)
    results.circumstances = replace(results.circumstances, node_class=of_class)
    assert advise(results).volume.capacity_gib == 90
