# SPDX-License-Identifier: Apache-2.0
"""What a sweep would do, as `--dry-run` shows it: from a made-up listing on this host."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from contracts.loading import load_contract
from contracts.shared.errors import UsageError
from profiler.cli.json_documents import DOCUMENTS
from profiler.cli.main import main
from profiler.pull.access import S3Access
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, RemoteObject
from profiler.report.dry_run import dry_run_document, print_dry_run
from profiler.study import circumstances_here, node_here, study
from profiler.study import space as space_module
from profiler.study.dry_run import dry_run
from profiler.study.request import StudyRequest
from profiler.study.space import Space
from sysctl.evidence.price import Limits
from sysctl.evidence.results import CANDIDATE, PRESENT, PRICE
from sysctl.host.devices import Disk
from sysctl.host.host import Host
from sysctl.host.mount_table import parse_mountinfo
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.writeback import Thresholds
from sysctl.sweep.budget import Budget

MIB = 2**20
DEFAULTS = {
    "vm.dirty_ratio": 20,
    "vm.dirty_bytes": 0,
    "vm.dirty_background_ratio": 10,
    "vm.dirty_background_bytes": 0,
}
PLAN = PullPlan(
    Location("bucket", "images"),
    tuple(RemoteObject(f"images/{n}", str(n), 48 * MIB, "") for n in range(40)),
)


@pytest.fixture
def request_of(tmp_path, monkeypatch) -> StudyRequest:
    monkeypatch.setattr(study, "list_plan", lambda access, location: PLAN)
    monkeypatch.setattr(node_here, "read_available_bytes", lambda _: 8 * 2**30)
    # a sweep may run on this host at the same time
    in_force = {**read_writeback(System()), **DEFAULTS}
    for module in (study, space_module):
        monkeypatch.setattr(module, "read_writeback", lambda _: dict(in_force))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a dry run takes no lock and changes nothing")

    monkeypatch.setattr(Host, "exclusive", refuse)
    monkeypatch.setattr(Host, "lasting", refuse)
    return StudyRequest(
        location=PLAN.location,
        destination=tmp_path,
        access=S3Access("http://127.0.0.1:1", sign_requests=False),
        transfer=TransferSettings(),
        contract=load_contract(None),
        output=tmp_path / "results.json",
    )


@pytest.fixture
def own_volume(request_of, monkeypatch) -> StudyRequest:
    """DEST on an ext4 volume of its own, on a disk that offers two schedulers."""
    (mount,) = parse_mountinfo("40 22 7:0 / /data rw - ext4 /dev/loop0 rw")
    offers = {"queue/scheduler": ("none", "mq-deadline")}
    monkeypatch.setattr(study, "mount_of", lambda *_: mount)
    monkeypatch.setattr(study, "disk_of", lambda *_: Disk("loop0", "7:0", "1"))
    monkeypatch.setattr(circumstances_here, "steady_values", lambda *_: {})
    monkeypatch.setattr(circumstances_here, "disk_identity", lambda *_: None)
    monkeypatch.setattr(space_module, "present_values", lambda *_: {})
    monkeypatch.setattr(space_module, "check_sweepable", lambda *_: mount)
    monkeypatch.setattr(
        space_module,
        "unavailable",
        lambda _, __, name, value: None if value in offers[name] else "it offers none, mq-deadline",
    )
    return request_of


def printed(found, width=80):
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    print_dry_run(found, console)
    return file.getvalue()


def test_the_default_sweep_begins_with_the_current_settings_and_the_top_of_the_ladder(request_of):
    found = dry_run(request_of)
    assert [role for role, _ in found.first] == [PRICE, PRESENT, CANDIDATE]
    assert found.first[0][1] == found.first[1][1] != found.first[2][1]
    assert 8 <= found.trials < found.most
    assert found.changes[:1] in (("vm.dirty_ratio",), ("vm.dirty_bytes",))
    assert found.pull_s == pytest.approx(40 * 48 / 125)
    assert not Path(request_of.output).exists()
    assert list(request_of.destination.iterdir()) == []


def test_requested_values_are_shown_with_their_changes(own_volume):
    space = Space(
        values={"vm.dirty_ratio": (40, 60), "vm.dirty_expire_centisecs": (17,)},
        mount_options=("noatime,nodiratime",),
    )
    found = dry_run(replace(own_volume, space=space))
    assert [setting.values["vm.dirty_ratio"] for _, setting in found.first[2:]] == [40, 60]
    assert "vm.dirty_expire_centisecs" in found.changes
    assert "mount options noatime,nodiratime" in found.changes


def test_a_sweep_of_mount_options_alone_has_no_thresholds_to_change(own_volume):
    found = dry_run(replace(own_volume, space=Space(mount_options=("noatime,nodiratime",))))
    assert found.changes == ("mount options noatime,nodiratime",)


def test_settings_of_the_pull_change_nothing_on_the_host(request_of):
    space = Space(vm=False, transfer=("max_concurrency",), strategy="grid")
    found = dry_run(replace(request_of, space=space, changes_host=False))
    assert found.changes == ()
    assert "nothing on this host" in printed(found)
    assert len(found.first) > 2


@pytest.mark.parametrize(
    ("budget", "most", "limit_s"), [(Budget(trials=9), 9, None), (Budget(time_s=60.0), None, 60.0)]
)
def test_the_budget_bounds_trials_and_time(budget, most, limit_s, request_of):
    found = dry_run(replace(request_of, budget=budget))
    assert most is None or found.most == most >= found.trials
    assert found.limit_s == limit_s
    assert limit_s is None or found.about_s == limit_s
    assert (limit_s is None) is ("The budget ends it" not in printed(found))


def test_a_sample_below_freerun_is_warned_of(request_of):
    found = dry_run(replace(request_of, max_bytes=500 * MIB))
    assert (len(found.plan.objects), found.plan.whole_objects) == (10, 40)
    low = replace(found, thresholds=Thresholds(0, 2000 * MIB))
    text = " ".join(printed(low).split())
    assert "This is a sample: the prefix has 40 objects, 1.88 GiB." in text
    assert "fits below the 1000 MiB from which" in text and "--max-bytes 2GiB" in text
    high = replace(found, thresholds=Thresholds(0, 9000 * MIB))
    assert "fits below" not in printed(high)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_fits_the_terminal_and_is_short(width, request_of):
    found = dry_run(request_of)
    found = replace(found, request=replace(request_of, destination=Path("/data")))
    lines = printed(found, width).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert len(lines) <= 24
    assert lines[-1] == "Nothing was pulled or changed (--dry-run)."


def test_the_command_prints_it_for_every_user_and_as_json(request_of, tmp_path, capsys):
    words = ["sweep", "s3://bucket/images", str(tmp_path), "--dry-run"]
    output = ["--output", str(tmp_path / "none.json")]
    assert main([*words, *output]) == 0
    assert "about" in capsys.readouterr().out
    assert main([*words, *output, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (table,) = (each for each in DOCUMENTS if each.command == "sweep --dry-run")
    assert set(document) == {"schema", "version", *table.keys}
    assert (document["command"], document["schema"]) == ("sweep", "writewise-sweep-dry-run")
    assert document["bytes"] == PLAN.bytes
    folder = ["--output-dir", str(tmp_path / "none")]
    tune = ["transfer", "tune", *words[1:], *folder, "--json"]
    assert main(tune) == 0
    assert json.loads(capsys.readouterr().out)["command"] == "transfer tune"
    assert not (tmp_path / "none").exists()


def test_an_error_in_the_request_is_reported(request_of):
    Path(request_of.output).write_text("{}")
    with pytest.raises(UsageError, match="exist"):
        dry_run(request_of)


def test_the_document_is_json(request_of):
    json.dumps(dry_run_document(dry_run(request_of)), allow_nan=False)


@pytest.mark.parametrize("allowed", [0, 4096])
def test_a_limit_that_no_threshold_keeps_is_refused(allowed, request_of):
    with pytest.raises(UsageError, match=r"no vm\.dirty_(ratio|bytes) keeps at most") as error:
        dry_run(replace(request_of, limits=Limits(max_at_risk_bytes=allowed)))
    assert error.value.hint == "raise --max-at-risk"


@pytest.fixture
def unasked_s3(request_of, monkeypatch) -> StudyRequest:
    def refuse(*_: object) -> None:
        raise AssertionError("S3 was asked")

    monkeypatch.setattr(study, "list_plan", refuse)
    return request_of


def test_mount_options_of_the_root_file_system_are_refused_before_s3_is_asked(
    unasked_s3, monkeypatch
):
    (mount,) = parse_mountinfo("22 1 259:1 / / rw - ext4 /dev/root rw")
    monkeypatch.setattr(study, "mount_of", lambda *_: mount)
    monkeypatch.setattr("sysctl.host.mounts.mount_of", lambda *_: mount)
    with pytest.raises(HostError, match="is on /, whose mount options are never changed"):
        dry_run(replace(unasked_s3, space=Space(mount_options=("noatime",))))


def test_the_default_space_leaves_the_mount_options_of_the_root_file_system_out(
    request_of, monkeypatch
):
    (mount,) = parse_mountinfo("22 1 259:1 / / rw - ext4 /dev/root rw")
    monkeypatch.setattr(study, "mount_of", lambda *_: mount)
    monkeypatch.setattr("sysctl.host.mounts.mount_of", lambda *_: mount)
    found = dry_run(request_of)
    assert found.changes and not any("mount" in name for name in found.changes)


def test_a_scheduler_that_the_disk_does_not_offer_is_refused(own_volume):
    space = Space(device={"queue/scheduler": ("nosuch",)})
    with pytest.raises(UsageError, match="nothing to try: queue/scheduler=nosuch: it offers none"):
        dry_run(replace(own_volume, space=space))
    space = Space(device={"queue/scheduler": ("nosuch", "none")})
    assert dry_run(replace(own_volume, space=space)).changes == ("queue/scheduler",)


def test_workers_and_the_results_file_are_checked_before_s3_is_asked(unasked_s3, tmp_path):
    with pytest.raises(UsageError, match="9999999 workers are out of range"):
        dry_run(replace(unasked_s3, workers=9999999))
    with pytest.raises(UsageError, match="none is not a directory"):
        dry_run(replace(unasked_s3, output=tmp_path / "none" / "x.json"))
    with pytest.raises(UsageError, match="is a directory") as error:
        dry_run(replace(unasked_s3, output=tmp_path))
    assert error.value.hint == "name a file in it with --output"


def test_a_sweep_of_the_pull_alone_as_root_says_that_no_setting_changes(request_of):
    space = Space(vm=False, transfer=("max_concurrency",), strategy="grid")
    text = printed(dry_run(replace(request_of, space=space)))
    assert "May change  no setting of the host\n" in text


def test_trials_bytes_and_time_have_a_maximum(request_of):
    found = dry_run(request_of)
    assert found.most_s == pytest.approx(found.about_s * found.most / found.trials)
    assert printed(found).count("at most") == 3
