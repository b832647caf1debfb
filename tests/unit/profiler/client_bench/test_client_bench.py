# SPDX-License-Identifier: Apache-2.0
"""A comparison of pull clients on a bench of figures: order, pairs, verdicts and the forms."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from contracts.shared.errors import UsageError
from profiler.cli import bench_clients
from profiler.cli.common import measuring_alone
from profiler.cli.main import build_parser, main
from profiler.client_bench import pulling
from profiler.client_bench.client_comparison import (
    Cell,
    ClientComparison,
    ClientRun,
    Row,
    ServerShape,
    order_of,
)
from profiler.client_bench.context import context_of
from profiler.client_bench.pulling import ClientBench
from profiler.client_bench.run import DEFAULT_PULLS, compare
from profiler.client_bench.sources import check_space
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import DEFAULT, by_name
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError
from profiler.pull.result import PullResult, Verification
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan
from profiler.report import client_bench as report
from profiler.workloads.catalogue import Workload
from sysctl.host.host import WRITER, Host
from sysctl.host.system import HostError, System

MIB = 2**20
CONTEXT: dict[str, Any] = {
    "measured_at": "2026-01-01T00:00:00+00:00",
    "pulls": 3,
    "kernel": "6.1",
    "machine": "x86_64",
    "cpus": 2,
    "memory_bytes": 8 * 2**30,
    "python": "3.9.1",
    "file_system": "xfs",
    "dirty_threshold_bytes": 50 * MIB,
    "clients": {"direct": "boto3 1.2", "s5cmd": "v2 | \x1b[31m"},
    "no_stalls": None,
    "reported_block_bytes": None,
}


SHAPE = ServerShape(first_byte_latency_ns=20_000_000, rate_bytes_per_s=90_000_000)


def sample(seconds: float, number: int = 1, **others: float | None) -> ClientRun:
    given: dict[str, Any] = {"cpu_s": 0.5, "peak_rss_bytes": 100 * MIB, "start_s": 0.4, **others}
    return ClientRun(round=number, time_s=seconds, objects=64, bytes=64 * MIB, **given)


def cell(client: str, *seconds: float, problem: str = "") -> Cell:
    pulls = (sample(each, number) for number, each in enumerate(seconds, 1))
    return Cell(client, tuple(pulls), problem)


def row(*cells: Cell) -> Row:
    return Row("rows-64x1MiB", 64, 64 * MIB, cells, workers=2, shape=SHAPE)


FASTER = row(
    cell("direct", 2.0, 2.2, 2.1), cell("s5cmd", 1.0, 1.1, 1.05), cell("aws-sync", 4.0, 4.4, 4.3)
)


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_two_clients_follow_each_other_equally_often(count: int) -> None:
    rounds = [order_of(range(count), number) for number in range(2 * count)]
    assert all(sorted(each) == list(range(count)) for each in rounds)
    for one, other in itertools.combinations(range(count), 2):
        before = sum(each.index(one) < each.index(other) for each in rounds)
        assert before == count
    assert {each[0] for each in rounds} == set(range(count))


def test_two_clients_are_pulled_with_abba() -> None:
    assert ["".join(order_of("AB", number)) for number in range(4)] == ["AB", "BA", "BA", "AB"]


# -- figures ---------------------------------------------------------------------------------------


def test_figures_are_medians_of_each_pull() -> None:
    found = Cell("s5cmd", (sample(1.0), sample(2.0, 2), sample(8.0, 3, server_cpu_s=0.25)))
    assert found.time_s == 2.0
    assert found.mib_per_s == 32.0
    assert found.objects_per_s == 32.0
    assert found.cpu_s_per_gib == 8.0
    assert found.server_cpu_s_per_gib == 4.0
    assert found.stalled_share is None
    assert Cell("s5cmd", ()).mib_per_s is None


def test_ratios_are_of_the_same_round() -> None:
    slow_first = row(cell("direct", 8.0, 2.0), Cell("s5cmd", (sample(1.0, 2), sample(9.0, 3))))
    ratio = slow_first.ratio("s5cmd", "direct")
    assert ratio is not None
    assert (ratio.estimate, ratio.count) == (0.5, 1)
    assert slow_first.ratio("s5cmd", "aws-sync") is None


def test_the_yardstick_is_the_aws_cli_else_the_default() -> None:
    assert FASTER.yardstick == "aws-sync"
    failed = cell("aws-sync", problem="it is gone")
    assert row(cell("direct", 1.0), failed).yardstick == "direct"
    assert row(cell("s5cmd", 1.0)).yardstick is None


def test_a_faster_client_is_recommended_only_if_significant() -> None:
    (name, ratio), *_ = FASTER.faster_than_default
    assert (name, round(ratio.estimate, 2)) == ("s5cmd", 0.5)
    assert report.verdict(FASTER).startswith("rows-64x1MiB: pull --client s5cmd; it takes 0.50 of")
    once = row(cell("direct", 2.0), cell("s5cmd", 1.0))
    assert "no change" in report.verdict(once)  # one pair has no interval
    noisy = row(cell("direct", 1.0, 3.0, 1.0), cell("s5cmd", 2.0, 1.0, 0.9))
    assert "no change" in report.verdict(noisy)
    assert "nothing is recommended" in report.verdict(row(cell("s5cmd", 1.0, 1.0)))


def test_a_gain_that_is_too_small_recommends_nothing() -> None:
    """0.5 % faster each time is significant, but not worth a change; 6 % is."""
    small, large = (
        row(cell("direct", 1.0, 1.0001, 1.0), cell("s5cmd", *[seconds] * 3))
        for seconds in (0.995, 0.94)
    )
    ratio = small.ratio("s5cmd", "direct")
    assert ratio is not None and ratio.high < 1
    assert small.faster_than_default == ()
    assert [name for name, _ in large.faster_than_default] == ["s5cmd"]


def test_one_of_many_clients_needs_more_evidence_than_a_single_one() -> None:
    default, lucky = cell("direct", 1.0, 1.0, 1.0), cell("s5cmd", 0.85, 0.8, 0.9)
    alone = row(default, lucky)
    assert [name for name, _ in alone.faster_than_default] == ["s5cmd"]
    others = [cell(f"other-{number}", 1.1, 1.2, 1.1) for number in range(8)]
    assert row(default, lucky, *others).faster_than_default == ()
    failed = [cell(each.client, 1.1, problem="gone") for each in others]
    assert row(default, lucky, *failed).faster_than_default  # those do not count as comparisons
    sure = row(default, cell("s5cmd", 0.5, 0.5, 0.5), *others)
    assert "95% confidence for all 9 clients together" in report.verdict(sure)


def test_a_client_that_failed_later_is_neither_shown_nor_recommended() -> None:
    failed = cell("s5cmd", 0.1, 0.1, problem="a key failed")
    found = row(cell("direct", 1.0, 1.0, 1.0), failed)
    assert found.faster_than_default == () and found.ratio("s5cmd", "direct") is None
    assert report.cells(found)[-1][:3] == ("s5cmd", "-", "-")
    default_failed = row(cell("direct", 1.0, problem="no"), cell("s5cmd", 0.5))
    assert default_failed.yardstick is None
    assert "direct was not measured" in report.verdict(default_failed)
    assert "direct alone was measured" in report.verdict(row(cell("direct", 1.0, 1.0)))


def test_objects_without_a_byte_have_no_cpu_time_for_each_gib() -> None:
    empty = replace(sample(1.0, server_cpu_s=0.1), bytes=0)
    found = Cell("direct", (empty,))
    assert found.cpu_s_per_gib is None and found.server_cpu_s_per_gib is None
    assert found.mib_per_s == 0.0 and found.objects_per_s == 64.0
    assert report.cells(row(found))[0][4:6] == ("-", "-")


def test_the_shape_of_a_bucket_is_not_known_and_a_rate_may_be_any() -> None:
    bucket = Row("s3://b", 1, MIB, (), workers=1)
    assert report.headline(bucket, comparison()).endswith("1.00 MiB; 1 worker")
    unshaped = replace(bucket, shape=ServerShape(0, 0))
    assert "0 ns to the first byte, any rate per" in report.headline(unshaped, comparison())


# -- the run ---------------------------------------------------------------------------------------


class FigureBench:
    """Pulls as the script says: seconds, or an exception to raise, by client."""

    objects, bytes = 64, 64 * MIB
    worker_count, shape = 2, SHAPE
    name = "rows-64x1MiB"

    def __init__(self, **script: Any) -> None:
        self.script = script
        self.log: list[Any] = []

    @contextlib.contextmanager
    def opened(self) -> Iterator[FigureBench]:
        self.log.append("opened")
        try:
            yield self
        finally:
            self.log.append("closed")

    def pull(self, client, *, with_checksum: bool) -> ClientRun:
        self.log.append((client.name, with_checksum))
        answer = self.script[client.name]
        if isinstance(answer, BaseException) and not with_checksum:
            raise answer
        return sample(1.0 if isinstance(answer, BaseException) else answer)


def run(bench: FigureBench, *names: str, pulls: int = 2) -> ClientComparison:
    return compare([bench], [by_name(name) for name in names], lambda *_: None, pulls)


def test_a_first_round_is_verified_by_checksum_and_does_not_count() -> None:
    bench = FigureBench(direct=1.0, s5cmd=2.0)
    found = run(bench, "direct", "s5cmd").rows[0]
    pulled = [entry for entry in bench.log if isinstance(entry, tuple)]
    assert [checked for _, checked in pulled] == [True, True, False, False, False, False]
    assert "".join(name[0] for name, _ in pulled) == "dsdssd"
    assert [each.round for each in found.cells[1].samples] == [1, 2]


def test_by_default_each_client_counts_as_often_before_as_after_any_other() -> None:
    pulls = build_parser().parse_args(["bench-clients", "/data"]).pulls
    assert pulls == DEFAULT_PULLS
    bench = FigureBench(direct=1.0, s5cmd=1.0, rclone=1.0)
    run(bench, *bench.script, pulls=pulls)
    counted = [name for name, is_first in bench.log[1:-1] if not is_first]
    rounds = [counted[start : start + 3] for start in range(0, len(counted), 3)]
    for one, other in itertools.combinations(bench.script, 2):
        assert sum(each.index(one) < each.index(other) for each in rounds) == pulls / 2


def test_a_client_that_fails_is_left_out_and_reported() -> None:
    bench = FigureBench(direct=1.0, s5cmd=PullError("it took it for a pattern"))
    found = run(bench, "direct", "s5cmd")
    assert found.problems == ("rows-64x1MiB: s5cmd: it took it for a pattern",)
    assert bench.log.count(("s5cmd", False)) == 1
    assert len(found.rows[0].cells[0].samples) == 2


@pytest.mark.parametrize("signal", [KeyboardInterrupt(), SystemExit(143)])
def test_a_signal_keeps_what_was_measured(signal: BaseException) -> None:
    bench = FigureBench(direct=1.0, s5cmd=signal)
    found = run(bench, "direct", "s5cmd")
    assert found.ended_by is signal
    assert bench.log[-1] == "closed"
    assert found.rows[0].cell("direct")
    found = run(FigureBench(direct=1.0, s5cmd=signal), "s5cmd", "direct")
    assert found.rows[0].cell("direct") is None


class GoneSource:
    """A source that nothing can be had from."""

    name = "gone"

    @contextlib.contextmanager
    def opened(self) -> Iterator[FigureBench]:
        raise PullError("the disk is full", "free space")
        yield


def test_a_row_that_fails_keeps_those_that_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client, bench = by_name("direct"), FigureBench(direct=1.0)
    found = compare([bench, GoneSource(), bench], [client], lambda *_: None, 1)
    assert [len(row.cells[0].samples) for row in found.rows] == [1, 1]
    assert found.problems == ("gone: the disk is full",)
    monkeypatch.setattr(
        bench_clients, "compare_clients", lambda *_: replace(found, context=CONTEXT)
    )
    assert main(["bench-clients", str(tmp_path)]) == 1
    assert "gone: the disk is full" in capsys.readouterr().out
    output = tmp_path / "out.json"
    assert main(["bench-clients", str(tmp_path), "--json", "--output", str(output)]) == 1
    assert capsys.readouterr().out == ""
    document = json.loads(output.read_text())
    assert document["failed_sources"] == ["gone: the disk is full"]
    assert document["complete"] is False and len(document["rows"]) == 2


def test_without_any_row_the_error_is_reported_with_its_hint() -> None:
    with pytest.raises(PullError) as error:
        compare([GoneSource()], [by_name("direct")], lambda *_: None, 1)
    assert error.value.hint == "free space"


def spin(*_: object) -> None:
    """Take CPU time of this thread."""
    end_s = time.thread_time() + 0.05
    while time.thread_time() < end_s:
        pass


class SpinningPool:
    """A pool without workers whose run takes CPU time of this thread."""

    pids: tuple[int, ...] = ()
    writers_at_most = None

    def __init__(self, *_: object) -> None:
        """As WorkerPool is made."""

    def __enter__(self) -> SpinningPool:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""

    def start(self) -> None:
        """There is nothing to start."""

    def run(self, *_: object) -> PullResult:
        spin()
        return PullResult(0, return_s=1.0, bytes=10, arrived=(0,), failures=())

    def verify(self, *_: object, **__: object) -> Verification:
        return Verification({}, (), 0.0)


def test_cpu_time_of_this_process_in_a_pull_counts_for_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "WorkerPool", SpinningPool)
    monkeypatch.setattr(pulling, "list_again", spin)
    location, access = Location("b", ""), S3Access("http://127.0.0.1:1", sign_requests=False)
    plan, destination = PullPlan(location, ()), Destination(tmp_path)
    bench = ClientBench(access, location, plan, destination, TransferSettings())
    found = bench.pull(by_name("direct"), with_checksum=False)
    assert 1.05 <= found.time_s < 2
    assert 0.1 <= found.cpu_s < 0.3


# -- forms -----------------------------------------------------------------------------------------


def comparison(*rows: Row, **context: object) -> ClientComparison:
    return ClientComparison(rows, {**CONTEXT, **context})


def printed(found: ClientComparison) -> str:
    stream = io.StringIO()
    report.print_comparison(found, Console(file=stream, width=200, markup=False))
    return stream.getvalue()


def test_the_table_has_every_figure_and_the_verdict() -> None:
    text = printed(comparison(FASTER))
    assert (
        "rows-64x1MiB: 64 objects, 64.0 MiB, more than the dirty threshold; 2 workers; server on "
        "the same cores: 20.0 ms to the first byte, 90MB/s per connection"
    ) in text
    lines = [line.split() for line in text.splitlines()]
    clients = [words[0] for words in lines if words[:1] and words[0] in CONTEXT["clients"]]
    assert clients == ["s5cmd", "direct"]  # the fastest first
    assert ["s5cmd", "1.05", "s", "61", "61", "8.00", "-", "100", "MiB", "-", "0.25"] in [
        words[:11] for words in lines
    ]
    assert "time relative to aws-sync" in text
    assert text.rstrip().splitlines()[-1].startswith("rows-64x1MiB: pull --client s5cmd")


def test_limits_of_the_figures_are_reported() -> None:
    text = printed(comparison(row(cell("direct", 1.0)), file_system="tmpfs", no_stalls="no root"))
    assert "in memory" in text and "Stalls are not seen: no root." in text
    assert "time relative to direct" in text
    assert "\x1b[31m" not in text


def test_markdown_is_tables_that_no_version_can_break() -> None:
    failed = cell("rclone", problem="a | b")
    text = report.markdown(comparison(Row("rows", 1, MIB, (*FASTER.cells, failed), workers=1)))
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 4
    assert {line.replace("\\|", "").count("|") for line in table} == {10}
    assert "- rows: rclone: a \\| b" in text and "\x1b" not in text


def test_json_has_each_pull_and_no_infinity() -> None:
    found = comparison(row(cell("direct", 1.0), cell("s5cmd", 0.5)))
    document = json.loads(json.dumps(report.comparison_document(found), allow_nan=False))
    assert document["complete"] is True and document["context"]["kernel"] == "6.1"
    (line,) = document["rows"]
    assert line["workers"] == 2
    assert line["server_shape"]["first_byte_latency_ns"] == 20_000_000
    assert {"name", "objects", "bytes", "yardstick", "recommended_client"} < set(line)
    client = line["clients"][1]
    assert client["ratio_to_default"] == {"estimate": 0.5, "low": 0.0, "high": None, "pairs": 1}
    assert client["pulls"][0]["time_s"] == 0.5
    assert client["mib_per_s"] == 128.0 and client["problem"] is None


def test_the_context_is_of_this_host(tmp_path: Path) -> None:
    context: dict[str, Any] = context_of(
        tmp_path, TransferSettings(), 3, {"direct": "1"}, None, System()
    )
    assert set(CONTEXT) < set(context)
    assert context["cpus"] >= 1 and context["memory_bytes"] > 2**20
    json.dumps(context)


# -- the command -----------------------------------------------------------------------------------


def test_one_word_is_the_destination() -> None:
    parse = build_parser().parse_args
    assert parse(["bench-clients", "/data"]).source is None
    found = parse(["bench-clients", "s3://b/p", "/data", "--pulls", "1"])
    assert (found.source, str(found.destination)) == ("s3://b/p", "/data")


def test_the_rows_are_the_seven_of_the_table() -> None:
    assert len(bench_clients.workloads_asked_for(None)) == 7
    assert [
        each.name for each in bench_clients.workloads_asked_for(["case-study-40x48MiB"] * 2)
    ] == ["case-study-40x48MiB"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--clients s4cmd", "unknown pull client 's4cmd'"),
        ("--workload nothing", "unknown workload 'nothing'"),
        ("--endpoint-url http://h:1", "workloads have their own server"),
        ("--json --markdown -", "cannot both print to standard output"),
        ("--json - --markdown -", "cannot both print to standard output"),
        ("--pulls 0", "must be 1 or more"),
    ],
)
def test_a_wrong_input_is_reported(
    words: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench-clients", str(tmp_path), *words.split()]) == UsageError.exit_code
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ended_by", "exit_code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143), (None, 1)]
)
def test_measurements_are_printed_after_any_end(
    ended_by: BaseException | None,
    exit_code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = ClientComparison(
        (row(cell("direct", 1.0), cell("s5cmd", problem="no")),), CONTEXT, ended_by
    )
    monkeypatch.setattr(bench_clients, "compare_clients", lambda *_: found)
    try:
        words = ["--json", "--output", f"{tmp_path}/out.json", "--markdown", "-"]
        code: object = main(["bench-clients", str(tmp_path), *words])
    except SystemExit as ended:
        code = ended.code
    assert code == exit_code
    assert "rows-64x1MiB" in capsys.readouterr().out
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["complete"] is (ended_by is None)


def test_space_is_asked_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    small = Workload("small", "fits", objects=2, size_bytes=10)
    large = Workload("large", "does not", objects=10, size_bytes=2**50, distinct=2)
    assert (large.made_bytes, small.made_bytes) == (2**51, 4096)
    check_space([small], tmp_path)
    with pytest.raises(PullError, match="the largest workload needs 12"):
        check_space([small, large], tmp_path)


def test_the_clients_asked_for_come_once_and_with_their_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without an AWS CLI, which takes its time to start
    clients, versions = bench_clients.clients_asked_for([DEFAULT.name, DEFAULT.name])
    assert [each.name for each in clients] == [DEFAULT.name] == list(versions)
    assert versions[DEFAULT.name].startswith("boto3 ")
    assert versions[DEFAULT.name].endswith(" (own)")


def test_leftovers_of_a_killed_run_are_not_measured_as_the_hosts_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setattr("profiler.cli.common.os", SimpleNamespace(geteuid=lambda: 0))
    with measuring_alone("bench-clients"):
        pass
    with Host.lasting(WRITER, "a sweep that is killed") as host:
        host.make_directory(tmp_path / "trial")
    with pytest.raises(HostError, match="a killed run left") as error, measuring_alone("again"):
        pytest.fail("it was measured")
    assert "writewise rollback" in error.value.hint
    with Host.lasting(WRITER, "rollback") as host:
        host.restore()
    with measuring_alone("after it"):
        pass
