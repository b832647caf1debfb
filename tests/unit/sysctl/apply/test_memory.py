# SPDX-License-Identifier: Apache-2.0
"""A ratio on a host with other memory: the measured amount is kept, shown and confirmed."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from profiler import requirements
from profiler.cli import main
from profiler.report.applying import print_plan
from sysctl.apply.amount import fit
from sysctl.apply.plan import plan_of
from sysctl.change.forms import CONTAINERS
from sysctl.change.recommendation import DiskAdvice, KnobAdvice, SysctlAdvice
from sysctl.host.host import state_directory
from sysctl.host.sysctls import dirtyable_bytes, read_total_bytes
from sysctl.host.system import HostError
from tests.unit.applied_hosts import FilesHost, in_place_of_this_host
from tests.unit.sysctl.apply.test_apply import SYSCTLS

GIB = 2**30
#: 60 % and 5 % of the 4 GiB (4,294,963,200 bytes) with which the recommendation was measured.
DIRTY, BACKGROUND = 2576982016, 214749184
BYTES = {"vm.dirty_bytes": DIRTY, "vm.dirty_background_bytes": BACKGROUND}
WARNING = f"bytes are {CONTAINERS}"
UNMEASURED = (
    "measured with 4.00 GiB of dirtyable memory, but this host has 20.0 GiB: nothing was measured "
    "on such a host"
)


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A host with five times the memory, in place of this one."""
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    files = FilesHost(tmp_path / "root").set_memory(20 * GIB)
    in_place_of_this_host(monkeypatch, files)
    monkeypatch.setattr(requirements, "require", lambda *_: None)
    return files


@pytest.fixture
def recommendation(tmp_path):
    path = tmp_path / "recommendation.json"
    path.write_text(json.dumps(SYSCTLS.to_json()))
    path.chmod(0o600)
    return str(path)


def limited(system, limit_bytes=2 * GIB, groups="0::/"):
    """A container with a memory limit."""
    table = system.read("/proc/self/mountinfo")
    system.put("/proc/self/mountinfo", f"{table}\n50 22 0:26 / /cg rw - cgroup2 cgroup2 rw")
    system.put("/proc/self/cgroup", groups)
    system.put("/cg/task/cgroup.events", "populated 1\nfrozen 0")
    system.put("/cg/task/memory.max", limit_bytes)


def values(plan):
    return plan.fitted.change.sysctl_values


@pytest.mark.parametrize("memory_bytes", [int(3.3 * GIB), 4 * GIB, int(4.8 * GIB)])
def test_a_host_with_the_same_memory_gets_the_ratio(system, memory_bytes):
    plan = plan_of(system.set_memory(memory_bytes), SYSCTLS)
    assert values(plan) == SYSCTLS.sysctl_values
    assert (plan.fitted.amounts, plan.fitted.unmeasured, plan.notes) == ((), "", ())


@pytest.mark.parametrize("memory_bytes", [int(2.9 * GIB), 20 * GIB, 400 * GIB])
def test_a_host_with_other_memory_gets_the_measured_bytes(system, memory_bytes):
    plan = plan_of(system.set_memory(memory_bytes), SYSCTLS)
    assert values(plan) == BYTES
    dirty, background = plan.sysctls
    assert (dirty.new_bytes, background.new_bytes) == (DIRTY, BACKGROUND)
    assert plan.fitted.unmeasured.startswith("measured with 4.00 GiB of dirtyable memory, but")


def test_a_host_with_limited_containers_gets_the_ratio_nearest_to_the_amount(system):
    limited(system)
    plan = plan_of(system, SYSCTLS)
    assert values(plan) == {"vm.dirty_ratio": 12, "vm.dirty_background_ratio": 1}
    assert plan.notes[0] == (
        "control groups on this host have memory limits; in the smallest, /task (2.00 GiB), "
        "writers wait at 133 MiB of dirty pages or earlier"
    )


def test_a_background_threshold_too_small_for_a_ratio_stays_in_bytes(system):
    limited(system)
    plan = plan_of(system.set_memory(100 * GIB), SYSCTLS)
    assert values(plan) == {"vm.dirty_ratio": 2, "vm.dirty_background_bytes": BACKGROUND}


def test_less_than_one_percent_becomes_one_within_the_limit_or_is_refused(system):
    limited(system)
    system.set_memory(400 * GIB)
    for too_low in (None, 3 * GIB):
        with pytest.raises(HostError, match=r"smallest, 1%, is 4.00 GiB: .* measured 2.40 GiB"):
            plan_of(system, SYSCTLS, max_at_risk_bytes=too_low)
    plan = plan_of(system, SYSCTLS, max_at_risk_bytes=4 * GIB)
    assert values(plan) == {"vm.dirty_ratio": 1, "vm.dirty_background_bytes": BACKGROUND}


def test_more_at_risk_than_allowed_is_refused_in_every_form(system):
    with pytest.raises(HostError, match=r"up to 12.0 GiB would be at risk .* than 3.00 GiB"):
        plan_of(system, SYSCTLS, as_ratio=True, max_at_risk_bytes=3 * GIB)
    assert values(plan_of(system, SYSCTLS, max_at_risk_bytes=3 * GIB)) == BYTES


def test_an_amount_that_the_host_does_not_have_is_refused(system):
    with pytest.raises(HostError, match=r"threshold of 2.40 GiB exceeds .* of 2.00 GiB"):
        plan_of(system.set_memory(2 * GIB), SYSCTLS)


def test_unknown_memory_does_not_select_the_ratio(system):
    change = replace(SYSCTLS, evidence=replace(SYSCTLS.evidence, dirtyable_bytes=0))
    with pytest.raises(HostError, match="does not include the memory of the measured host"):
        plan_of(system, change)


def test_bytes_are_the_same_amount_on_every_host(system):
    advices = tuple(SysctlAdvice(name, value, 0, "measured") for name, value in BYTES.items())
    evidence = replace(SYSCTLS.evidence, dirtyable_bytes=0)
    plan = plan_of(system, replace(SYSCTLS, sysctls=advices, evidence=evidence))
    assert values(plan) == BYTES
    assert plan.fitted.unmeasured.startswith("measured with an unknown amount of")


def test_a_busy_host_of_the_same_size_counts_as_the_same(system):
    """Dirtyable memory varies from moment to moment, the size of the memory does not."""
    evidence = replace(SYSCTLS.evidence, memory_bytes=read_total_bytes(system))
    change = replace(SYSCTLS, evidence=evidence)
    assert evidence.dirtyable_bytes < 0.5 * dirtyable_bytes(system)
    plan = plan_of(system, change)
    assert (values(plan), plan.fitted.unmeasured) == (SYSCTLS.sysctl_values, "")
    assert plan.notes == (
        "vm.dirty_ratio = 60 was 2.40 GiB when it was measured with 4.00 GiB of dirtyable memory; "
        "this host now has 20.0 GiB of dirtyable memory, so it is 12.0 GiB",
    )
    larger = replace(change, evidence=replace(evidence, memory_bytes=2 * evidence.memory_bytes))
    assert plan_of(system, larger).fitted.unmeasured == UNMEASURED


def test_reserved_huge_pages_do_not_count_as_memory(system):
    """The lab's, for example, leave a host of 40 GiB the 8 GiB of a smaller one."""
    meminfo = system.read("/proc/meminfo")
    system.put("/proc/meminfo", f"{meminfo}\nHugetlb: {32 * GIB // 1024} kB")
    assert read_total_bytes(system) == 8 * GIB
    change = replace(SYSCTLS, evidence=replace(SYSCTLS.evidence, memory_bytes=8 * GIB))
    assert plan_of(system, change).fitted.unmeasured == ""
    system.put("/proc/meminfo", meminfo)
    assert plan_of(system, change).fitted.unmeasured == UNMEASURED


def test_an_amount_below_the_current_threshold_is_reported(system):
    assert plan_of(system, SYSCTLS).notes == (
        WARNING,
        "vm.dirty_bytes: the measured 2.40 GiB is less than the current 4.00 GiB of this host, so "
        "writers would be throttled sooner than now",
    )
    assert plan_of(system.set_memory(6 * GIB), SYSCTLS).notes == (WARNING,)


def test_as_ratio_uses_the_percentage_and_stays_unmeasured(system):
    plan = plan_of(system, SYSCTLS, as_ratio=True)
    assert values(plan) == SYSCTLS.sysctl_values and plan.fitted.unmeasured == UNMEASURED
    assert plan.sysctls[0].new_bytes == pytest.approx(12 * GIB, rel=1e-6)


def test_thresholds_that_the_recommendation_does_not_change_are_not_written(system):
    """They belonged to the measured host: here they would be another amount."""
    knob = KnobAdvice("queue/read_ahead_kb", "4096", "128", "why")
    disk = DiskAdvice("/data", "/dev/vda", (knob,))
    change = replace(SYSCTLS, originals=SYSCTLS.sysctl_values, disk=disk)
    assert fit(system, change).change.sysctls == ()


def test_bytes_become_ratios_on_the_same_memory_if_containers_have_limits(system):
    """A sweep on a bare node must not starve the containers of an equal one."""
    limited(system.set_memory(4 * GIB))
    advices = tuple(SysctlAdvice(name, value, 0, "measured") for name, value in BYTES.items())
    change = replace(SYSCTLS, sysctls=advices)
    for as_ratio in (False, True):
        fitted = fit(system, change, as_ratio=as_ratio)
        assert fitted.change.sysctl_values == SYSCTLS.sysctl_values
        assert fitted.unmeasured == ""
        in_group, later = fitted.notes
        assert in_group.startswith("control groups on this host")
        assert later.startswith("60% is of the 4.00 GiB")


def test_one_percent_is_used_for_an_amount_that_rounds_to_it(system):
    limited(system.set_memory(100 * DIRTY + 50 * 2**20))
    assert values(plan_of(system, SYSCTLS))["vm.dirty_ratio"] == 1


def test_no_percentage_is_offered_if_bytes_were_recommended(system):
    limited(system.set_memory(GIB))
    advices = tuple(SysctlAdvice(name, value, 0, "measured") for name, value in BYTES.items())
    with pytest.raises(HostError) as refused:
        plan_of(system, replace(SYSCTLS, sysctls=advices))
    assert refused.value.hint == "run a sweep on this host"


def test_a_percentage_never_rounds_up_to_more_at_risk(system):
    limited(system.set_memory(160 * GIB))  # 2.4 GiB are 1.5 %
    assert values(plan_of(system, SYSCTLS))["vm.dirty_ratio"] == 1


def test_a_note_on_groups_uses_the_current_background_threshold(system):
    limited(system)
    [dirty, _] = SYSCTLS.sysctls
    change = replace(SYSCTLS, sysctls=(dirty,))
    assert "225 MiB" in plan_of(system, change).notes[0]  # (12 % + the present 10 %) / 2 of 2 GiB


def shown(plan):
    console = Console(width=100, record=True, file=io.StringIO())
    print_plan(plan, console, remounts=False)
    return console.export_text()


def test_amount_and_ratio_are_shown_here_and_where_they_were_measured(system):
    text = shown(plan_of(system, SYSCTLS))
    assert UNMEASURED in text
    assert "2.40 GiB (60%)  12.0 GiB (60%)   2.40 GiB (12%)" in text
    assert "205 MiB (5%)    1.00 GiB (5%)    205 MiB (1%)" in text


def test_the_tables_fit_into_100_columns_on_a_large_host(system):
    system.set_memory(700 * GIB)
    for name, value in (("dirty_ratio", 100), ("dirty_background_ratio", 99)):
        system.write(f"/proc/sys/vm/{name}", str(value))
    change = replace(SYSCTLS, evidence=replace(SYSCTLS.evidence, dirtyable_bytes=500 * GIB))
    table = [line for line in shown(plan_of(system, change)).splitlines() if "→" in line]
    assert len(table) == 2 and all("GiB)" in line.partition("→")[2] for line in table)


# --- the command ----------------------------------------------------------------------------------


def test_values_never_measured_on_such_a_host_need_a_separate_yes(system, recommendation, capsys):
    before = system.state()
    assert main.main(["apply", recommendation, "--yes"]) == 2
    refused = capsys.readouterr()
    assert UNMEASURED in refused.err and "--yes-unmeasured" in refused.err
    assert system.state() == before
    assert main.main(["apply", recommendation, "--yes", "--yes-unmeasured"]) == 0
    assert system.values()["dirty_bytes"] == DIRTY


@pytest.mark.parametrize(("answers", "code"), [("n", 1), ("yn", 1), ("yy", 0)])
def test_a_terminal_asks_for_the_separate_yes(system, recommendation, monkeypatch, answers, code):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal("\n".join(answers) + "\n"))
    assert main.main(["apply", recommendation]) == code
    assert (system.values()["dirty_bytes"] == DIRTY) is (code == 0)


def test_yes_is_enough_on_a_host_like_the_measured_one(system, recommendation):
    system.set_memory(4 * GIB)
    assert main.main(["apply", recommendation, "--yes"]) == 0
    assert system.values()["dirty_ratio"] == 60


def test_a_dry_run_shows_the_values_and_asks_nothing(system, recommendation, capsys):
    assert main.main(["apply", recommendation, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "vm.dirty_bytes" in printed and "--yes-unmeasured" in printed


def apply(recommendation, *options):
    assert main.main(["apply", recommendation, "--yes", "--yes-unmeasured", *options]) == 0


def verified(capsys, *arguments):
    capsys.readouterr()
    code = main.main(["verify", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("options", [(), ("--as-ratio",), ("--persist",)])
def test_verify_and_status_know_the_values_that_replace_the_ratio(
    system, recommendation, capsys, options
):
    apply(recommendation, *options)
    for wanted in (recommendation, "--applied"):
        code, document = verified(capsys, wanted)
        assert (code, document["compliant"]) == (0, True), document
    name = "vm.dirty_ratio" if options == ("--as-ratio",) else "vm.dirty_bytes"
    assert document["settings"][0]["name"] == name
    assert main.main(["status"]) == 0
    printed = capsys.readouterr().out
    expected = "(instead of vm.dirty_ratio = 60, vm.dirty_background_ratio = 5)"
    assert (expected in printed) is (name == "vm.dirty_bytes")


def test_memory_that_changes_after_apply_is_not_drift(system, recommendation, capsys):
    """`apply` would choose another form now, but its earlier choice counts."""
    apply(recommendation)
    limited(system)
    assert verified(capsys, recommendation)[0] == 0


def test_verify_without_a_journal_expects_what_apply_would_set(system, recommendation, capsys):
    code, document = verified(capsys, recommendation)
    wanted = {each["name"]: each["wanted"] for each in document["settings"]}
    assert code == 1 and wanted == {name: str(value) for name, value in BYTES.items()}
    system.write("/proc/sys/vm/dirty_ratio", "60")
    system.write("/proc/sys/vm/dirty_background_ratio", "5")
    code, document = verified(capsys, recommendation)
    assert (code, document["notes"]) == (0, [UNMEASURED])


def test_the_file_for_boots_has_the_same_values_and_explains_them(system, recommendation):
    apply(recommendation, "--persist")
    text = system.files()["sysctl.d/90-writewise.conf"]
    assert f"\nvm.dirty_bytes = {DIRTY}\n" in text and "\nvm.dirty_ratio" not in text
    assert "vm.dirty_ratio=20" in text
    words = " ".join(text.replace("# ", "").split())
    assert "the same amount as vm.dirty_ratio = 60 with 4.00 GiB of memory" in words


@pytest.mark.parametrize("memory_bytes", [20 * GIB, 40 * GIB])
def test_verify_reports_a_boot_with_other_memory(
    system, recommendation, capsys, monkeypatch, memory_bytes
):
    apply(recommendation, "--persist")
    booted = system.reboot().set_memory(memory_bytes)
    in_place_of_this_host(monkeypatch, booted)
    notes = (
        [
            "this host had 40.0 GiB of memory when the sysctls were applied, and now has 80.0 GiB: "
            "apply the recommendation again"
        ]
        if memory_bytes == 40 * GIB
        else []
    )
    for wanted in (recommendation, "--applied"):
        code, document = verified(capsys, wanted)
        assert (code, document["notes"]) == (0, notes)


def test_a_journal_of_an_earlier_version_is_still_read(system, recommendation, capsys):
    apply(recommendation)
    journal = state_directory() / "applied.journal"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        if line.get("change", {}).get("kind") == "applied-sysctls":
            del line["change"]["stands_for"], line["change"]["memory_bytes"]
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert verified(capsys, "--applied")[0] == 0
    assert main.main(["rollback"]) == 0 and system.values()["dirty_ratio"] == 20


def test_a_repeated_apply_writes_nothing_to_the_journal(system, recommendation):
    apply(recommendation)
    before = (state_directory() / "applied.journal").read_text()
    apply(recommendation)
    after = (state_directory() / "applied.journal").read_text()
    assert after.count('"change"') == before.count('"change"')


def test_a_rollback_restores_the_ratio(system, recommendation):
    before = system.state()
    apply(recommendation, "--persist")
    assert main.main(["rollback"]) == 0
    assert system.state() == before and system.invalid == []
