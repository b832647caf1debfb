# SPDX-License-Identifier: Apache-2.0
"""Paths that others could have changed: Writewise does not write through them or trust them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from contracts.loading import LIBRARY, load_contract
from contracts.shared import writing
from contracts.shared.errors import UsageError
from contracts.shared.files import FileKind
from contracts.shared.trust import UntrustedError, trusted_owners, walk
from profiler.cli.main import main
from profiler.recording.append_only import open_to_append
from profiler.report.destination import new_file
from profiler.study.circumstances_here import resumed_results
from sysctl.evidence.results import load
from tests.unit.sweeps import CIRCUMSTANCES
from tests.unit.sysctl.evidence.test_damaged_results import SHORTENED

NOBODY = 65534
KIND = FileKind("contract", 1 << 20, "name one")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    path.write_text("text")
    path.chmod(0o644)
    return path


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like /tmp: everybody may write, and delete only their own files."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o1777)
    return path


def group_may_write_the_folder(path: Path) -> None:
    path.parent.chmod(0o775)


def all_may_write_the_folder(path: Path) -> None:
    path.parent.chmod(0o777)


def give_the_file_away(path: Path) -> None:
    os.chown(path, NOBODY, -1)


def give_the_folder_away(path: Path) -> None:
    os.chown(path.parent, NOBODY, -1)


def give_the_folder_above_away(path: Path) -> None:
    os.chown(path.parent.parent, NOBODY, -1)


def test_a_file_of_ones_own_is_trusted(file: Path) -> None:
    assert KIND.read_text(str(file), trusted=True) == "text"


def test_a_file_of_ones_own_in_tmp_is_trusted(shared: Path) -> None:
    (shared / "file").write_text("text")
    assert KIND.read_text(str(shared / "file"), trusted=True) == "text"


@pytest.mark.parametrize(
    ("change", "problem", "remedy"),
    [
        (lambda path: path.chmod(0o664), "others can write to ", "chmod go-w "),
        (lambda path: path.chmod(0o646), "others can write to ", "chmod go-w "),
        (group_may_write_the_folder, "others can write to ", "chmod go-w "),
        (all_may_write_the_folder, "others can write to ", "chmod go-w "),
        pytest.param(give_the_file_away, "belongs to ", "chown root: ", marks=needs_root),
        pytest.param(give_the_folder_away, "belongs to ", "chown root: ", marks=needs_root),
        pytest.param(give_the_folder_above_away, "belongs to ", "chown root: ", marks=needs_root),
    ],
)
def test_a_file_that_others_could_have_changed_is_not_trusted(
    file, change, problem, remedy
) -> None:
    change(file)
    with pytest.raises(UntrustedError) as raised:
        KIND.read_text(str(file), trusted=True)
    assert "could have been changed by others" in raised.value.message
    assert problem in raised.value.message
    assert remedy in raised.value.hint
    assert KIND.read_text(str(file)) == "text"  # a command that only reads reports what is in it


@needs_root
def test_the_invoking_users_file_is_trusted_under_sudo(file: Path, monkeypatch) -> None:
    give_the_file_away(file)
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert KIND.read_text(str(file), trusted=True) == "text"


@pytest.mark.parametrize("uid", ["", "-1", "4294967295", "1e3", "²", "٣", "0x10", " 5", "9" * 5000])
def test_an_invalid_user_id_is_nobodys(uid: str) -> None:
    assert trusted_owners({"SUDO_UID": uid}) == trusted_owners({})


def test_a_symlink_of_ones_own_is_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "absolute").symlink_to(tmp_path / "link")
    assert KIND.read_text(str(tmp_path / "absolute" / ".." / "folder/file"), trusted=True) == "text"


def test_a_loop_of_symlinks_ends(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        walk(str(tmp_path / "one"))


def test_a_walk_leaves_no_descriptor_open(file: Path, shared: Path) -> None:
    (shared / "link").symlink_to(file)
    before = os.listdir("/proc/self/fd")
    for path in (file, file / "below", file.parent / "none", shared / "link"):
        try:
            os.close(walk(str(path)))
        except (OSError, UntrustedError):
            continue
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("at_the_end", [True, False])
def test_a_symlink_that_others_could_have_made_is_not_read(file, shared, at_the_end) -> None:
    (shared / "link").symlink_to(file if at_the_end else file.parent)
    path = shared / "link" if at_the_end else shared / "link" / "file"
    with pytest.raises(UntrustedError, match=r"leads through the symlink .*link, which is in a"):
        KIND.read_text(str(path), trusted=True)


def test_contracts_and_results_are_read_with_the_same_care(tmp_path: Path) -> None:
    contract, results = tmp_path / "contract.yaml", tmp_path / "results.json"
    contract.write_text((LIBRARY / "case-study.yaml").read_text())
    results.write_text("{}")
    for path, read in ((contract, load_contract), (results, lambda p, **how: load(Path(p), **how))):
        path.chmod(0o666)
        with pytest.raises(UntrustedError, match="others can write to"):
            read(str(path), trusted=True)
    assert load_contract(str(contract)).rules


def write_report(path: Path) -> None:
    with new_file(str(path)) as file:
        file.write("report")


def append_to_log(path: Path) -> None:
    open_to_append(str(path), lambda _: True).close()


def write_results(path: Path) -> None:
    writing.write_atomically(path, "results")


WRITERS = [write_report, append_to_log, write_results]


@pytest.mark.parametrize("write", WRITERS)
def test_nothing_is_written_through_another_users_directory_link(write, tmp_path, shared) -> None:
    (tmp_path / "private").mkdir()
    (shared / "link").symlink_to(tmp_path / "private")
    with pytest.raises(UntrustedError, match="which is in a directory that others can write"):
        write(shared / "link" / "file")
    assert list((tmp_path / "private").iterdir()) == []


PLANTED = {
    "symlink": lambda path, target: path.symlink_to(target),
    "dangling symlink": lambda path, target: path.symlink_to(target.with_name("none")),
    "hard link": lambda path, target: os.link(target, path),
    "FIFO": lambda path, target: os.mkfifo(path),
    "directory": lambda path, target: path.mkdir(),
}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_nothing_is_written_to_a_planted_file(write, plant, file: Path, shared: Path) -> None:
    """A rename may put a new file in its place; the file it points to stays unchanged."""
    plant(shared / "out", file)
    try:
        write(shared / "out")
    except UsageError:
        assert write is not write_results or (shared / "out").is_dir()
    else:
        assert write is write_results
        assert (shared / "out").read_text() == "results"
        assert not (shared / "out").is_symlink()
    assert file.read_text() == "text"
    assert os.listdir(file.parent) == ["file"]
    assert os.listdir(shared) == ["out"]  # no temporary file remains


def test_missing_directories_are_made(tmp_path: Path, monkeypatch) -> None:
    writing.make_directories(tmp_path / "a" / "b" / "c")
    writing.make_directories(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    monkeypatch.chdir(tmp_path)
    writing.make_directories(Path("d/e"))
    assert (tmp_path / "d" / "e").is_dir()


def test_directories_are_not_made_through_another_users_link(tmp_path: Path, shared: Path) -> None:
    (shared / "link").symlink_to(tmp_path)
    with pytest.raises(UntrustedError):
        writing.make_directories(shared / "link" / "new")
    assert not (tmp_path / "new").exists()


def test_a_file_is_refused_as_a_directory(file: Path) -> None:
    for path in (file, file / "below"):
        with pytest.raises(UsageError, match="Not a directory"):
            writing.make_directories(path)


def test_nothing_is_removed_through_another_users_link(file: Path, shared: Path) -> None:
    (shared / "link").symlink_to(file.parent)
    with pytest.raises(UntrustedError):
        writing.remove(shared / "link" / "file")
    assert file.exists()
    writing.remove(file)
    writing.remove(file)
    assert not file.exists()


# The same through the commands.


def test_advice_is_not_written_through_another_users_link(tmp_path, shared, capsys) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps(SHORTENED))
    (tmp_path / "private").mkdir()
    (shared / "link").symlink_to(tmp_path / "private")
    assert main(["advise", str(results), "--output-dir", str(shared / "link")]) == 2
    assert "which is in a directory that others can write" in capsys.readouterr().err
    assert list((tmp_path / "private").iterdir()) == []
    assert main(["advise", str(results), "--output-dir", str(tmp_path / "private")]) == 0
    assert "recommendation.json" in os.listdir(tmp_path / "private")


def test_links_named_like_advice_are_neither_followed_nor_replaced(
    tmp_path: Path, shared: Path
) -> None:
    results, victim = tmp_path / "results.json", tmp_path / "victim"
    results.write_text(json.dumps(SHORTENED))
    victim.write_text("victim")
    (shared / "recommendation.json").symlink_to(victim)
    os.link(victim, shared / "90-writewise.conf")
    assert main(["advise", str(results), "--output-dir", str(shared)]) == 2
    assert victim.read_text() == "victim"
    assert sorted(os.listdir(shared)) == ["90-writewise.conf", "recommendation.json"]


def test_a_sweep_does_not_trust_another_users_contract(tmp_path: Path, capsys) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text((LIBRARY / "case-study.yaml").read_text())
    contract.chmod(0o666)
    arguments = ["sweep", "s3://bucket/prefix", str(tmp_path), "--contract", str(contract)]
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "could have been changed by others: others can write to " in said
    assert "chmod go-w " in said
    assert main(["contract", "check", str(contract)]) == 0  # a command that only reads accepts it


def test_a_sweep_does_not_resume_from_another_users_results(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps(SHORTENED))
    results.chmod(0o666)
    with pytest.raises(UntrustedError, match="others can write to"):
        resumed_results(results, {}, CIRCUMSTANCES)
    assert main(["advise", str(results), "--output-dir", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize("command", ["apply"])
def test_commands_that_change_the_host_do_not_trust_another_users_results(
    tmp_path: Path, command: str, capsys
) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps(SHORTENED))
    results.chmod(0o666)
    assert main([command, str(results)]) == 2
    assert "could have been changed by others" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "new", "new/deep"])
def test_a_directory_that_cannot_be_made_is_found_beforehand(tmp_path, below):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot use the directory .*: Not a directory") as error:
        writing.check_directory(tmp_path / "file" / below)
    assert error.value.hint == "name another directory"
    writing.check_directory(tmp_path / below)
    assert not (tmp_path / "new").exists()
