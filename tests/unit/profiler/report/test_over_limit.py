# SPDX-License-Identifier: Apache-2.0
"""The time over the limits of EBS in the report of a profile, of a pull and of a sweep."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from contracts.stats import CallStats
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.ec2.log_page import parse, since
from profiler.ec2.node import AttachedVolume
from profiler.pull.evidence import Limit, advise, gathered
from profiler.pull.measured import PullMeasurement
from profiler.pull.result import PullResult, RequestTimes, Verification
from profiler.report.over_limit import volume_lines
from profiler.report.pulls import print_pull, pull_document
from profiler.report.sweep_view import SweepView, sweep_bar
from profiler.report.timeline import timeline_document
from profiler.report.verdict import print_verdict
from profiler.report.why import explain, look_lines
from profiler.watch.causes import WhyInputs
from profiler.watch.timeline import Sample, Timeline
from profiler.watch.verdict import Answer, WriteBackVerdict
from profiler.watch.volumes import Reading, VolumeUse
from sysctl.evidence.over_limit import OverLimit
from sysctl.evidence.results import PRESENT, Trial
from sysctl.knobs.writeback import Thresholds
from tests.log_pages import page
from tests.places import REPOSITORY
from tests.unit.studies import observed
from tests.unit.sweeps import PRESENT as NOW

MIB, SECOND_NS = 2**20, 10**9
VOLUME = AttachedVolume("vol-0123456789abcdef0", "nvme1n1", 2**30)
STATS = CallStats(count=2, bytes=300 * MIB)
TAKEN = Sample(0, 0, 0, Thresholds(1, 2))
TIMELINE = Timeline((TAKEN, replace(TAKEN, time_ns=10 * SECOND_NS)), TAKEN, None)
SCHEMA = json.loads(REPOSITORY.joinpath("docs/reference/profile.schema.json").read_text())


def used(seconds=10, **over_share):
    """A volume that got 100 MiB/s in 400 I/Os a second, over these limits for these shares."""
    readings = tuple(
        Reading(
            second * SECOND_NS,
            since(
                parse(page()),
                parse(
                    page(
                        write_bytes=second * 100 * MIB,
                        write_ops=second * 400,
                        **{
                            f"{name}_exceeded_us": int(share * second * 10**6)
                            for name, share in over_share.items()
                        },
                    )
                ),
            ),
        )
        for second in range(seconds + 1)
    )
    return VolumeUse(VOLUME, readings)


FAILED = VolumeUse(VOLUME, (), "the volume's counters began again: it was attached anew")


def why_of(*uses):
    return WhyInputs(STATS, 10 * SECOND_NS, StallStats(), timeline=TIMELINE, volumes=uses)


def pulled(*uses, stalled_ns=0, **times_s):
    """A pull of 10 s by one worker; `times_s` are those of its connections."""
    spent = {"first_byte_s": 1.0, "body_s": 1.0, "write_s": 8.0, **times_s}
    requests = RequestTimes(3, spent["first_byte_s"], spent["body_s"], spent["write_s"], 0.0, 0)
    stall = StallStats(3, 2, stalled_ns)
    return PullMeasurement(
        result=PullResult(0, 10.0, 300 * MIB, (0, 1, 2), (), requests=requests),
        durable_s=None,
        verification=Verification({}, (), 0.0),
        snapshot=ProfileSnapshot((STATS,), Losses(), 0, stall, 10 * SECOND_NS),
        worker_count=1,
        why=why_of(*uses),
        writers_at_most=1,
    )


def printed(measured):
    output = io.StringIO()
    print_pull(measured, (), SECOND_NS, Console(file=output, width=200))
    return output.getvalue()


def documented(measured) -> dict[str, Any]:
    return pull_document(measured, ())


def test_limits_are_named_apart_with_time_and_share():
    [line] = volume_lines([used(volume_throughput=0.6, instance_iops=0.05)])
    assert line == (
        "nvme1n1 (vol-0123456789abcdef0): in 10.0 s it exceeded the volume throughput limit for "
        "6.00 s (60%), the instance IOPS limit for 500 ms (5%); at the limit it got 100 MiB/s and "
        "400 IOPS."
    )


def test_a_volume_below_its_limits():
    assert volume_lines([used()]) == [
        "nvme1n1 (vol-0123456789abcdef0): neither the volume nor the instance was over its EBS "
        "limits in 10.0 s."
    ]


def test_an_unknown_time_has_its_reason():
    assert volume_lines([FAILED]) == [
        "nvme1n1 (vol-0123456789abcdef0): the time over the limits of EBS is unknown: the volume's "
        "counters began again: it was attached anew."
    ]


def test_a_profile_and_a_first_look_have_the_lines():
    explanation = explain(why_of(used(volume_iops=1), FAILED))
    assert explanation.figures[-2:] == tuple(volume_lines([used(volume_iops=1), FAILED]))
    assert look_lines(explanation)[-1] == volume_lines([FAILED])[0]


def test_without_a_volume_nothing_is_said():
    assert explain(why_of()) == explain(replace(why_of(), volumes=()))
    assert not any("EBS" in line for line in explain(why_of()).figures)
    assert "limit" not in printed(pulled()).partition("held up by")[2].splitlines()[0]
    assert documented(pulled())["ebs_volumes"] == []
    assert documented(pulled())["evidence"]["ebs_limit"] is None


@pytest.mark.parametrize("use", [used(volume_throughput=0.6), used(), FAILED, used(seconds=0)])
def test_the_documents_keep_to_the_schema(use):
    part = {"$defs": SCHEMA["$defs"]}
    document = json.loads(json.dumps(timeline_document(TIMELINE, [use])))
    jsonschema.validate(document, {**part, "$ref": "#/$defs/timeline"})
    columns = document["ebs_volumes"][0]
    lengths = {len(column) for column in columns.values() if isinstance(column, list)}
    assert lengths == {len(use.readings)}


def test_a_pull_has_its_times_in_seconds():
    [volume] = documented(pulled(used(volume_throughput=0.6)))["ebs_volumes"]
    assert volume == {
        "disk": "nvme1n1",
        "volume_id": "vol-0123456789abcdef0",
        "observed_s": 10.0,
        "volume_iops_over_s": 0.0,
        "volume_throughput_over_s": 6.0,
        "instance_iops_over_s": 0.0,
        "instance_throughput_over_s": 0.0,
        "at_limit_s": 10.0,
        "at_limit_rate_bytes_per_s": 100 * MIB,
        "at_limit_ops_per_s": 400,
        "problem": None,
    }
    [unknown] = documented(pulled(FAILED))["ebs_volumes"]
    assert unknown["volume_throughput_over_s"] is None
    assert unknown["problem"] == FAILED.problem


@pytest.mark.parametrize(
    ("over", "name"),
    [
        ({"volume_iops": 0.3}, "volume IOPS"),
        ({"volume_throughput": 0.3}, "volume throughput"),
        ({"instance_iops": 0.3}, "instance IOPS"),
        ({"instance_throughput": 0.3, "volume_throughput": 0.2}, "instance throughput"),
    ],
)
@pytest.mark.parametrize("stalled_ns", [0, 9 * SECOND_NS], ids=["writes", "write-back"])
def test_a_pull_held_up_by_the_disk_names_the_limit(over, name, stalled_ns):
    measured = pulled(used(**over), stalled_ns=stalled_ns)
    [line] = [line for line in printed(measured).splitlines() if line.startswith("held up by")]
    assert line.endswith(f"; the {name} limit was exceeded 30% of the time")
    assert documented(measured)["evidence"]["ebs_limit"] == {
        "name": name,
        "share": pytest.approx(0.3),
    }
    helps = "an instance with a higher EBS limit" if "instance" in name else "a faster volume"
    assert helps in advise(gathered(measured))


def test_a_limit_that_was_hardly_exceeded_is_not_named():
    assert "exceeded" not in printed(pulled(used(volume_iops=0.09))).partition("held up by")[2][:90]


def test_a_pull_that_waits_for_s3_is_not_held_up_by_a_limit():
    measured = pulled(used(volume_iops=0.5), first_byte_s=9.0, write_s=0.0)
    assert gathered(measured).limit is Limit.LATENCY
    assert gathered(measured).ebs_limit is None


def next_step(answer, *uses):
    output = io.StringIO()
    verdict = WriteBackVerdict(answer, SECOND_NS, SECOND_NS, None)
    print_verdict(verdict, why_of(*uses), Console(file=output, width=200))
    return output.getvalue().partition("Next")[2]


def test_writers_that_wait_for_a_limited_volume_are_sent_to_plan():
    text = next_step(Answer.DEVICE, used(volume_iops=0.7))
    assert "writewise plan" in text
    assert "The volume IOPS limit was exceeded 70% of the time." in text
    assert "iostat" not in text


@pytest.mark.parametrize("uses", [(), (used(),), (FAILED,)], ids=["no volume", "below", "unknown"])
def test_others_look_for_the_limit_themselves(uses):
    assert "iostat" in next_step(Answer.DEVICE, *uses)


def shown(*trials):
    output = io.StringIO()
    console = Console(file=output, width=200)
    view = SweepView(console, sweep_bar(console))
    for each in trials:
        view.trial(each)
    return output.getvalue()


def trial(**fields):
    return Trial(PRESENT, NOW, "2026-11-21T10:00:00", observed(20.0, **fields))


def test_a_sweep_shows_the_longest_limit_of_a_trial():
    over = OverLimit(20.0, volume_throughput_s=12.0, instance_iops_s=1.0)
    assert " · volume throughput limit 60%" in shown(trial(over_limit=over))
    assert "limit" not in shown(trial(over_limit=OverLimit(20.0)), trial())


def test_a_sweep_says_once_why_it_is_unknown():
    problem = "nvme1n1: the log page cannot be read (Permission denied)"
    text = shown(*[trial(over_limit_problem=problem)] * 3)
    assert text.count(f"The time over the limits of EBS is unknown: {problem}.") == 1
