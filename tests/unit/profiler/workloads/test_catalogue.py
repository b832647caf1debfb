# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from contracts.shared.errors import InvalidFileError, UsageError
from profiler.workloads.catalogue import (
    Workload,
    find_workload,
    load_workloads,
    shipped_workloads,
)
from profiler.workloads.serving import BUCKET, make_objects

GIB = 2**30


def test_shipped_workloads_have_names_of_their_own_that_say_what_they_are() -> None:
    shipped = shipped_workloads()
    assert len({workload.name for workload in shipped}) == len(shipped) == 10
    for workload in shipped:
        sizes = re.findall(r"([0-9]+)x([0-9]+)(KiB|MiB|GiB)", workload.name)
        unit = {"KiB": 2**10, "MiB": 2**20, "GiB": GIB}[sizes[-1][2]]
        assert (workload.objects, workload.size_bytes) == (
            int(sizes[-1][0]),
            int(sizes[-1][1]) * unit,
        )


def test_the_seven_rows_of_the_source_are_there() -> None:
    rows = [each for each in shipped_workloads() if each.name.startswith("synapse-")]
    names = [row.name.split("-")[1] for row in rows]
    assert sorted(names) == sorted(
        ["10x10GiB", "1x10GiB", "10x1GiB", "100x100MiB", "10x100MiB", "100x10MiB", "1000x1MiB"]
    )


def test_shards_have_the_same_files(tmp_path: Path) -> None:
    plain = Workload("plain", "x", objects=10, size_bytes=3000, distinct=3)
    sharded = Workload("sharded", "x", objects=10, size_bytes=3000, distinct=3, shards=4)
    make_objects(tmp_path / "plain", plain)
    make_objects(tmp_path / "sharded", sharded)
    wanted = {
        path.name: path.read_bytes() for path in (tmp_path / "plain/buckets" / BUCKET).iterdir()
    }
    found: dict[str, bytes] = {}
    shards = sorted((tmp_path / "sharded/buckets" / BUCKET).iterdir())
    for shard in shards:
        with tarfile.open(shard) as archive:
            for entry in archive:
                file = archive.extractfile(entry)
                assert file is not None
                found[entry.name] = file.read()
    assert len(shards) == 4
    assert len(wanted) == 10
    assert len(set(wanted.values())) == 3
    assert found == wanted


@pytest.mark.parametrize(("size", "shards"), [(1, 3), (512, 1), (513, 7), (3000, None)])
def test_what_it_takes_is_known_before(tmp_path: Path, size: int, shards: int | None) -> None:
    """To the block: headers, padding and the ends of TAR files are counted."""
    workload = Workload("w", "x", objects=45, size_bytes=size, distinct=2, shards=shards)
    make_objects(tmp_path, workload)

    def taken(folder: str) -> int:
        sizes = (path.stat().st_size for path in (tmp_path / folder).iterdir())
        return sum(-(-size // 4096) * 4096 for size in sizes)

    assert taken(f"buckets/{BUCKET}") == workload.pulled_bytes
    made = taken("contents") + (workload.pulled_bytes if shards else 0)
    assert made == workload.made_bytes


def test_no_file_has_more_names_than_file_systems_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Workload("w", "x", objects=100_000, size_bytes=1).contents == 2
    monkeypatch.setattr("profiler.workloads.catalogue.MAX_LINKS", 3)
    make_objects(tmp_path, Workload("w", "x", objects=10, size_bytes=1))
    made = sorted((tmp_path / "buckets" / BUCKET).iterdir())
    assert len(made) == 10
    assert max(path.stat().st_nlink for path in made) == 3 + 1  # and the content's own name


def test_content_has_its_size_and_is_the_same_each_time(tmp_path: Path) -> None:
    workload = Workload("w", "x", objects=1, size_bytes=2**20 + 7)
    for name in ("first", "second"):
        make_objects(tmp_path / name, workload)
    first, second = (
        (tmp_path / name / "buckets" / BUCKET / "000000.bin").read_bytes()
        for name in ("first", "second")
    )
    assert first == second
    assert len(first) == 2**20 + 7
    assert len(set(first)) == 256


def test_a_workload_is_found_by_name_or_in_a_file(tmp_path: Path) -> None:
    assert find_workload("synapse-1000x1MiB").bytes == 1000 * 2**20
    path = tmp_path / "own.yaml"
    path.write_text(
        "[{name: own, what: mine, objects: 8k, size: 1KiB, workers: 2,"
        " first_byte_latency: 5ms, rate_per_connection: 10MB}]"
    )
    assert find_workload(str(path)) == Workload(
        "own", "mine", 8000, 1024, 1, None, 2, 5_000_000, 10_000_000
    )
    with pytest.raises(UsageError, match="unknown workload 'synapse-1000x1Mib'") as unknown:
        find_workload("synapse-1000x1Mib")
    assert "case-study-40x48MiB" in unknown.value.hint


def test_every_error_of_a_file_is_reported_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "- {name: a, what: b, objects: 0, size: 1XB}\n"
        "- {name: a, objects: true, size: 1MiB, colour: red}\n"
        "- text\n"
    )
    with pytest.raises(InvalidFileError) as error:
        load_workloads(str(path))
    assert [problem.split(":")[0] for problem in error.value.problems] == [
        *("[0].objects", "[0].size"),
        *("[1].objects", "[1].colour", "[1].what"),
        "[2]",
    ]


def test_values_are_taken_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("[{name: yes, what: 2026-01-01, objects: 010, size: 1KiB}]")
    assert load_workloads(str(path)) == (Workload("yes", "2026-01-01", 10, 1024),)


def _bomb(levels: int) -> str:
    """A value that is 9 to the power of `levels` items once its aliases are expanded."""
    aliases = "\n".join(
        f"- &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, levels)
    )
    return f"- &a0 [x]\n{aliases}\n- {{name: a, what: b, objects: 1, size: *a{levels - 1}}}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(_bomb(30), "size: must be one value", id="aliases"),
        ("- &a {name: a, what: b, objects: 1, size: *a}", "size: must be one value"),
        ("- {name: !!bool x, what: b, objects: !!int '', size: 1KiB}", "objects: "),
        ("- {name: a, what: b, objects: 1, size: !!timestamp x}", "size: invalid size 'x'"),
        ("- {name: a, what: b, objects: 1, size: 0B}", "size: must be more than 0"),
        ("- {name: a, what: b, objects: 1, size: [1KiB]}", "size: must be one value"),
        ("- {name: a, what: b, objects: 1, size: }", "size: invalid size ''"),
        ("- {? [a, b] : c}", "a list or mapping: unknown field"),
        ("- {name: a, what: b, objects: 1, objects: 2, size: 1B}", "objects: appears twice"),
        ('- {name: "\\UFFFFFFFF"}', "invalid YAML"),
        pytest.param("[" * 1000, "invalid YAML", id="depth"),
    ],
)
def test_a_hostile_file_is_refused_in_a_moment(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InvalidFileError, match=re.escape(problem)):
        load_workloads(str(path))


@pytest.mark.parametrize("text", ["name: x", "[]", "'", "- !!python/object:os.system {}", "{a: [}"])
def test_a_file_that_is_not_a_list_of_workloads_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError):
        load_workloads(str(path))
