"""What a tuning writes: each file read back by who is meant to read it."""

from __future__ import annotations

import configparser
import csv
import errno
import io
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

from contracts.shared.errors import RequirementError, UsageError
from profiler.pull.errors import PullError
from profiler.pull.settings import TransferSettings, parse_settings
from profiler.report.tuning import conclusion, print_trial, print_tuning
from profiler.tune import results
from profiler.tune.budget import Budget
from profiler.tune.folder import prepare
from profiler.tune.outputs import aws_config, write_outputs
from profiler.tune.results import csv_text
from profiler.tune.space import POST_AXES, point_of
from profiler.tune.trial import State, Trial
from profiler.tune.tuner import Tuning
from sysctl.render.transfer import python_code
from tests.unit.tunes import FakeBench, Listed, tuner

FOUND = TransferSettings(339, 400619332, 15096201, 122)
DEFAULT, BEST = (point_of(settings, POST_AXES) for settings in (TransferSettings(), FOUND))
SETTINGS_FILES = {"transfer.json", "transfer_config.py", "aws_config"}


def tuning(best_s: float = 4.9, slow_s: float = 30.0) -> Tuning:
    times = {10: 8.3, 339: best_s, 500: slow_s}
    slow = {**BEST, "max_concurrency": 500}
    bench = FakeBench(lambda point, number: times[point["max_concurrency"]])
    return tuner(bench, Listed([DEFAULT, BEST, slow]), budget=Budget(1e6, trials=3)).run()


def test_the_transfer_file_is_what_pull_reads(tmp_path: Path) -> None:
    written, _ = write_outputs(tuning(), tmp_path / "new" / "folder")
    assert set(written) >= SETTINGS_FILES
    assert parse_settings(str(tmp_path / "new" / "folder" / "transfer.json")) == FOUND


def test_the_code_makes_the_transfer_config() -> None:
    names: dict[str, object] = {}
    exec(python_code(asdict(FOUND)), names)
    config, ours = names["config"], FOUND.to_transfer_config()
    assert vars(config) == vars(ours)
    code = python_code(asdict(FOUND))
    assert "max_pool_connections=339" in code
    assert "those below the threshold take longer" in code


def test_the_aws_section_is_read_by_botocore(tmp_path: Path) -> None:
    from botocore.configloader import load_config

    path = tmp_path / "config"
    path.write_text(aws_config(FOUND))
    section = load_config(str(path))["profiles"]["default"]["s3"]
    assert {name: int(value) for name, value in section.items()} == {
        "max_concurrent_requests": 339,
        "multipart_threshold": 8 * 2**20,
        "multipart_chunksize": 400619332,
        "io_chunksize": 15096201,
    }
    assert "max_io_queue (122)" in path.read_text()
    assert configparser.ConfigParser().read(path) == [str(path)]


def test_the_csv_has_a_row_for_each_trial(tmp_path: Path) -> None:
    write_outputs(tuning(), tmp_path)
    table = list(csv.DictReader(io.StringIO((tmp_path / "trials.csv").read_text())))
    assert [row["state"] for row in table] == ["complete", "complete", "slower"]
    assert [row["max_concurrency"] for row in table] == ["10", "339", "500"]
    assert [float(row["best_s"]) for row in table] == pytest.approx([8.3, 4.9, 4.9])
    assert table[0]["pulls_s"] == "8.300 8.300 8.300"


def test_the_document_holds_the_evidence(tmp_path: Path) -> None:
    write_outputs(tuning(), tmp_path)
    document = json.loads((tmp_path / "tuning.json").read_text())
    assert len(document["recheck"]["best"]) == 6
    assert document["recheck"]["interval"]["estimate"] == pytest.approx(4.9 / 8.3)
    assert document["recommended"]["multipart_chunksize"] == 400619332


def test_settings_of_an_earlier_tuning_do_not_outlive_no_change(tmp_path: Path) -> None:
    write_outputs(tuning(), tmp_path)
    written, _ = write_outputs(tuning(best_s=8.2), tmp_path)
    assert SETTINGS_FILES.isdisjoint(written)
    assert SETTINGS_FILES.isdisjoint(path.name for path in tmp_path.iterdir())


def test_another_client_has_no_transfer_config(tmp_path: Path) -> None:
    write_outputs(tuning(), tmp_path)
    points = [{**DEFAULT, "client": "boto3"}, {**BEST, "client": "obstore"}]
    bench = FakeBench(lambda point, number: 4.9 if point["client"] == "obstore" else 8.3)
    found = tuner(bench, Listed(points), budget=Budget(1e6, trials=2)).run()
    written, _ = write_outputs(found, tmp_path)
    assert SETTINGS_FILES & set(written) == {"transfer.json"}
    assert not (tmp_path / "transfer_config.py").exists()
    assert json.loads((tmp_path / "transfer.json").read_text())["client"] == "obstore"
    assert parse_settings(str(tmp_path / "transfer.json")) == FOUND
    assert conclusion(found)[-1].startswith("Recommended: --client obstore --transfer ")


def test_a_recheck_that_fails_does_not_lose_the_trials(tmp_path: Path) -> None:
    def seconds(point, number: int) -> float:
        if number == 8:
            raise PullError("the network is gone")
        return 8.3 if point == DEFAULT else 4.9

    found = tuner(FakeBench(seconds), Listed([DEFAULT, BEST]), budget=Budget(trials=2)).run()
    written, _ = write_outputs(found, tmp_path)
    assert SETTINGS_FILES.isdisjoint(written)
    assert len(json.loads((tmp_path / "tuning.json").read_text())["trials"]) == 2
    assert conclusion(found)[-1] == (
        "Nothing is recommended: the recheck failed. the network is gone"
    )


def test_a_symlink_of_that_name_is_neither_followed_nor_replaced(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "out"
    victim.write_text("as it was")
    folder.mkdir()
    (folder / "tuning.json").symlink_to(victim)
    with pytest.raises(UsageError, match="was not written by Writewise"):
        write_outputs(tuning(), folder)
    assert victim.read_text() == "as it was"
    assert [path.name for path in folder.iterdir()] == ["tuning.json"]


@pytest.mark.parametrize("name", [*sorted(SETTINGS_FILES), "trials.csv", "best.svg"])
@pytest.mark.parametrize("best_s", [4.9, 8.2])
def test_a_file_of_others_is_neither_replaced_nor_removed(
    tmp_path: Path, name: str, best_s: float
) -> None:
    (tmp_path / name).write_text("max_concurrency: mine\n")
    with pytest.raises(UsageError, match="was not written by Writewise; nothing was written"):
        prepare(tmp_path)
    with pytest.raises(UsageError, match="was not written by Writewise"):
        write_outputs(tuning(best_s=best_s), tmp_path)
    assert (tmp_path / name).read_text() == "max_concurrency: mine\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_takes_no_file_is_refused_before_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(directory: int, name: str) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("profiler.tune.folder.create", read_only)
    with pytest.raises(UsageError) as error:
        prepare(tmp_path)
    assert error.value.message == f"cannot write {tmp_path}: Read-only file system"


def test_all_files_of_a_tuning_are_known_as_its_own(tmp_path: Path) -> None:
    first, _ = write_outputs(tuning(), tmp_path)
    prepare(tmp_path)
    again, _ = write_outputs(tuning(), tmp_path)
    assert set(again) == set(first) == {path.name for path in tmp_path.iterdir()}


def test_a_tuning_without_a_verdict_leaves_the_settings_of_an_earlier_one(tmp_path: Path) -> None:
    write_outputs(tuning(), tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in SETTINGS_FILES}
    for unfinished in (
        replace(tuning(best_s=8.2), ended_by=KeyboardInterrupt()),
        replace(tuning(), problem="the network is gone"),
    ):
        written, _ = write_outputs(unfinished, tmp_path)
        assert SETTINGS_FILES.isdisjoint(written)
        assert {name: (tmp_path / name).read_bytes() for name in SETTINGS_FILES} == before


def test_the_interval_of_a_single_pair_is_json_too(tmp_path: Path) -> None:
    found = tuning()
    single = replace(found.recheck, default=found.recheck.default[:1], best=found.recheck.best[:1])
    write_outputs(replace(found, recheck=single), tmp_path)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    text = (tmp_path / "tuning.json").read_text()
    assert json.loads(text, parse_constant=refuse)["recheck"]["interval"]["high"] is None


def test_no_cell_of_the_csv_is_a_formula() -> None:
    found = tuning()
    failed = replace(found.trials[2], state=State.FAILED, problem="=cmd|'/c calc': denied")
    table = csv.DictReader(io.StringIO(csv_text(replace(found, trials=(*found.trials, failed)))))
    assert [row["problem"] for row in table] == ["", "", "", "'=cmd|'/c calc': denied"]


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        write_outputs(tuning(), tmp_path / "file")
    (tmp_path / "tuning.json").mkdir()
    with pytest.raises(UsageError, match="was not written by Writewise"):
        write_outputs(tuning(), tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_parquet_and_data_frame_hold_the_same_rows() -> None:
    pandas = pytest.importorskip("pandas", reason="pip install -e .[tune]")
    pytest.importorskip("pyarrow", reason="pip install -e .[tune]")
    found = tuning()
    read = pandas.read_parquet(io.BytesIO(results.parquet_bytes(found)))
    frame = results.data_frame(found)
    assert list(read.columns) == list(frame.columns)
    assert read["max_concurrency"].tolist() == frame["max_concurrency"].tolist() == [10, 339, 500]
    assert frame["mean_s"].isna().tolist() == [False, False, True]


def test_the_image_is_an_svg_of_the_course() -> None:
    pytest.importorskip("matplotlib", reason="pip install -e .[tune]")
    image = results.image_bytes(tuning())
    assert image.startswith(b"<?xml")
    assert b"<svg" in image


def test_what_is_not_installed_is_left_out_by_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(results, "is_installed", lambda package: False)
    _, left_out = write_outputs(tuning(), tmp_path)
    assert left_out == ["trials.parquet needs pyarrow", "best.svg needs matplotlib"]
    for make in (results.data_frame, results.parquet_bytes, results.image_bytes):
        with pytest.raises(RequirementError, match="which is not installed"):
            make(tuning())


# -- the terminal ------------------------------------------------------------------------------


def shown(found: Tuning, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_tuning(found, console)
    return console.file.getvalue()


def test_the_recommendation_can_be_typed() -> None:
    line = next(line for line in conclusion(tuning()) if line.startswith("Recommended"))
    assert parse_settings(line.split("--transfer ")[1]) == FOUND


def test_the_terminal_has_table_plot_and_verdict() -> None:
    text = shown(tuning())
    assert "max_concurrency=339" in text
    assert "best mean" in text
    assert "0.59 of the time" in text
    assert "41% less" in text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_width_breaks_it(width: int) -> None:
    assert "Recommended" in shown(tuning(), width)


def test_a_course_without_improvement_is_drawn_too() -> None:
    bench = FakeBench(lambda point, number: 4.0)
    found = tuner(bench, Listed([DEFAULT]), budget=Budget(trials=1)).run()
    assert "No change: what holds the defaults back is" in shown(found)


def test_a_problem_moves_no_cursor() -> None:
    console = Console(file=io.StringIO(), width=200)
    print_trial(Trial(3, DEFAULT, State.FAILED, 1.0, problem="a\x1b[2Jb [bold]c"), console)
    assert "\x1b" not in console.file.getvalue()
    assert "[bold]c" in console.file.getvalue()
