# SPDX-License-Identifier: Apache-2.0
"""Wrong inputs get a good answer: what is wrong, what to do, and the exit code; nothing is done."""

from __future__ import annotations

import shlex

import pytest

from profiler import requirements
from profiler.cli.main import main

SWEEP = "sweep s3://b/p /data"
ST1_UP = "lab up --volume-type st1 --volume-size 500GiB"
#: What is typed, what the first line says, and what the second says.
ROWS = (
    # commands and actions
    ("advice", "unknown command 'advice'", "did you mean 'advise'? See `writewise --help`"),
    ("swep s3://b/p /data", "unknown command 'swep'", "did you mean 'sweep'?"),
    ("xyzzy", "unknown command 'xyzzy'", "commands are doctor, demo, profile"),
    ("help swep", "unknown command 'swep'", "did you mean 'sweep'?"),
    ("help contract chek", "unknown action 'chek'", "did you mean 'check'?"),
    ("contract chek x", "unknown action 'chek'", "See `writewise contract --help`"),
    ("transfer tun", "unknown action 'tun'", "did you mean 'tune'?"),
    ("lab upp", "unknown action 'upp'", "did you mean 'up'?"),
    ("contract", "ACTION is missing", "see `writewise contract --help`"),
    ("transfer", "ACTION is missing", "see `writewise transfer --help`"),
    ("lab", "ACTION is missing", "see `writewise lab --help`"),
    ("--quiet", "COMMAND is missing", "see `writewise --help`"),
    ("\x1b[31m", "unknown command '\\x1b[31m'", "commands are"),
    ("run", "COMMAND is missing", "writewise run --dirty-ratio 80 -- COMMAND"),
    # options
    ("--versoin", "unknown option '--versoin'", "did you mean '--version'?"),
    ("-x", "unknown option '-x'", "see `writewise --help`"),
    (f"{SWEEP} --dirty-rato 20", "unknown option '--dirty-rato'", "did you mean '--dirty-ratio'?"),
    (f"{SWEEP} --dirty 20", "unknown option '--dirty'", "see `writewise sweep --help`"),
    ("status --jason", "unknown option '--jason'", "did you mean '--json'?"),
    ("lab down --memory 4GiB", "unknown option '--memory'", "see `writewise lab down --help`"),
    (f"{SWEEP} --budget", "--budget needs a value", "write --budget BUDGET"),
    (f"{SWEEP} --budget --resume", "--budget needs a value", "write --budget BUDGET"),
    (f"{SWEEP} --region", "--region needs a value", "write --region NAME"),
    (f"{SWEEP} --mount-options", "--mount-options needs a value", "write --mount-options OPTIONS"),
    (f"{SWEEP} --json=yes", "--json takes no value", "pass --json alone"),
    # positional arguments
    ("sweep", "s3://BUCKET/PREFIX is missing", "see `writewise sweep --help`"),
    ("sweep s3://b/p", "DEST is missing", "see `writewise sweep --help`"),
    ("sweep s3://b/p --mount-options noatime", "DEST is missing", "see `writewise sweep --help`"),
    (f"{SWEEP} /more", "unexpected argument '/more'", "see `writewise sweep --help`"),
    ("clients extra", "unexpected argument 'extra'", "see `writewise clients --help`"),
    ("contract check", "FILE is missing", "see `writewise contract check --help`"),
    ("contract convert a b", "unexpected argument 'b'", "see `writewise contract convert --help`"),
    ("bench-clients", "DEST is missing", "see `writewise bench-clients --help`"),
    ("pull s3://b/p ''", "DEST: the path is empty", "see `writewise pull --help`"),
    ("pull .", "needs either s3://BUCKET/PREFIX or --workload", "see `writewise pull --help`"),
    ("pull s3://b/p . --workload x", "needs either s3://BUCKET/PREFIX or --workload", "see"),
    ("verify", "needs either RECOMMENDATION or --applied", "see `writewise verify --help`"),
    ("verify x --applied", "cannot be used together", "pass one of them, not both"),
    ("help sweep profile", "unexpected argument 'profile': sweep has no actions", "help sweep`"),
    ("help transfer tuna", "unknown action 'tuna'", "did you mean 'tune'?"),
    ("--region x pull", "--region is an option of pull", "after the command: writewise pull --re"),
    ("transfer --seed 1 tune", "--seed is an option of tune", "writewise transfer tune --seed N"),
    ("sweep --minutes 3 s3://a/b /tmp", "unknown option '--minutes'", "see `writewise sweep"),
    ("sweep --budget 99999999 s3://a/b /tmp", "use at most 999999 trials", "see"),
    ("profile --duration 99999999h", "is too long; use at most 24d", "see"),
    ("contract check /nope", "cannot read the contract /nope", "in YAML or Mistral's syntax"),
    ("sweep /data s3://b/p", "DEST: 's3://b/p' is an S3 address", "see `writewise sweep --help`"),
    ("sweep data .", "invalid S3 address 'data'", "use s3://BUCKET/PREFIX"),
    ("sweep s3:// /data", "invalid S3 address 's3://'", "use s3://BUCKET/PREFIX"),
    ("sweep https://b/p /data", "invalid S3 address 'https://b/p'", "use s3://BUCKET/PREFIX"),
    ("pull s3://b/p", "'s3://b/p' is an S3 address; DEST, a directory, must follow", "see"),
    ("sweep s3://b/p s3://b/q", "'s3://b/q' is an S3 address", "see `writewise sweep --help`"),
    ("pull s3://b/p none", "the destination none cannot be used: No such", "create the directory"),
    ("sweep s3://b/p none", "the destination none cannot be used", "create the directory, or"),
    ("transfer tune s3://b/p none", "the destination none cannot be used", "mount the volume"),
    ("bench-clients none", "the destination none cannot be used", "create the directory, or"),
    (f"{SWEEP} --mount-options noatime,,foo", "invalid options 'noatime,,foo'", "see"),
    (f"{SWEEP} --transfer folder", "folder is a directory, not a transfer settings file", "create"),
    (f"{SWEEP} --transfer ./none", "cannot read the transfer settings ./none", "create one with"),
    (f"{SWEEP} --transfer max_concurrency", "=VALUE is missing after max_concurrency", "settings"),
    ("sweep s3://b/p . -o folder", "folder is a directory", "name a file in it with --output"),
    ("profile --duration 1 -o folder", "folder is a directory", "name a new file in it"),
    ("advise x.json --format systemd,", "invalid list 'systemd,'; a name is empty", "see"),
    ("lab up --memory 1MiB", "--memory must be at least 256MiB", "use --memory 256MiB or more"),
    ("lab up --volume-type st2", "unknown volume type 'st2'", "did you mean 'st1'?"),
    ("lab up --volume-type st1", "the rate of st1 depends on its size", "add --volume-size"),
    (f"{ST1_UP} --rate 9", "--rate and --volume-type exclude each other", "omit --rate"),
    ("lab up --time-scale 60", "--time-scale needs --volume-type", "add --volume-type"),
    ("lab up --volume-size 9", "--volume-size needs --volume-type", "add --volume-type"),
    ("lab up --throughput 9", "--throughput needs --volume-type", "add --volume-type"),
    ("lab up --credits full", "--credits needs --volume-type", "add --volume-type"),
    ("lab up --instance-type m5.large", "--instance-type needs --volume-type", "add --volume-type"),
    (f"{ST1_UP} --time-scale 0.5", "invalid time scale '0.5'", "see `writewise lab up --help`"),
    (f"{ST1_UP} --time-scale -1", "invalid time scale '-1'", "see `writewise lab up --help`"),
    (f"{ST1_UP} --time-scale nan", "invalid time scale 'nan'; use a number from 1 on", "see"),
    (f"{ST1_UP} --time-scale 1e5", "credits for less than 1 s of burst", "--time-scale 4993 or"),
    (f"{ST1_UP} --credits 101", "invalid credits '101'", "see `writewise lab up --help`"),
    (f"{ST1_UP} --iops 900", "the number of IOPS of st1 cannot be chosen", "omit --iops"),
    (f"{ST1_UP} --instance-type m5.larg", "unknown instance type 'm5.larg'", "'m5.large'?"),
    (f"{ST1_UP} --instance-credits 9", "--instance-credits needs --instance-type", "add --ins"),
    ("lab up --volume-type st1 --volume-size 50", "st1 of 50 GiB is too small", "at least 125"),
    ("lab up --volume 0B", "--volume must be more than 0", "use --volume 1MiB or more"),
    # sizes
    (f"{SWEEP} --max-at-risk -1GB", "invalid size '-1GB'; it must not be negative", "see"),
    (f"{SWEEP} --max-at-risk 1gb", "invalid size '1gb'; did you mean 1GB?", "see"),
    (f"{SWEEP} --max-at-risk 500", "500 without a unit is bytes; did you mean 500MiB", "see"),
    (f"{SWEEP} --max-at-risk lots", "invalid size 'lots'; use a number with a unit, such", "see"),
    (f"{SWEEP} --dirty-bytes 1furlong", "--dirty-bytes: invalid size '1furlong'", "see"),
    ("lab up --memory 4", "4 without a unit is bytes; did you mean 4MiB or 4GiB?", "see"),
    ("lab up --rate 0", "invalid throughput '0'; it must be more than 0", "see"),
    ("predict x.json --memory 1", "1 without a unit is bytes", "see `writewise predict --help`"),
    # durations and budgets
    (f"{SWEEP} --max-durable 1x", "invalid duration '1x'; use a number with a unit", "see"),
    (f"{SWEEP} --max-durable -1m", "invalid duration '-1m'; it must not be negative", "see"),
    (f"{SWEEP} --max-durable 25d", "duration '25d' is too long; use at most 24d", "see"),
    ("profile --duration 0", "invalid duration '0'; it must be longer than 0", "see"),
    ("apply x.json --for 8d", "invalid duration '8d'; use 1s to 7d", "see"),
    ("apply x.json --for soon", "invalid duration 'soon'; use a number with a unit", "see"),
    (f"{SWEEP} --budget 5x", "invalid budget '5x'; use trials (12), time (20m) or both", "see"),
    (f"{SWEEP} --budget 12,13", "invalid budget '12,13'; use trials (12), time (20m)", "see"),
    (f"{SWEEP} --budget -5", "invalid budget '-5'", "see"),
    (f"{SWEEP} --budget 3", "a comparison needs at least 8 trials, not 3", "see"),
    (f"{SWEEP} --budget 0s", "a budget must be more than 0", "see"),
    # numbers, lists and names
    (f"{SWEEP} --dirty-ratio ten", "invalid list 'ten'; use whole numbers such as 10,20", "see"),
    (f"{SWEEP} --dirty-ratio 20,", "invalid list '20,'; use whole numbers such as", "see"),
    (f"{SWEEP} --dirty-ratio 120", "--dirty-ratio: 120 is out of range", "use 1 to 100 %"),
    (f"{SWEEP} --nr-requests 1", "--nr-requests: 1 is out of range", "use 4 to 10240"),
    (f"{SWEEP} --dirty-ratio 9 --dirty-bytes 1G", "set the same threshold", "pass one of them"),
    (f"{SWEEP} --workers 0", "--workers: invalid count '0'; it must be 1 or more", "see"),
    (f"{SWEEP} --workers two", "invalid count 'two'; use a whole number", "see"),
    (f"{SWEEP} --seed -1", "invalid seed '-1'; use 0 to 2147483647", "see"),
    (f"{SWEEP} --space everything", "unknown space 'everything'; use vm, wide or transfer", "see"),
    (f"{SWEEP} --space vmm", "unknown space 'vmm'; did you mean 'vm'?", "see"),
    (f"{SWEEP} --strategy gridd", "invalid value 'gridd'; did you mean 'grid'?", "see"),
    (f"{SWEEP} --client s4cmd", "'s4cmd'", "did you mean 's5cmd'?"),
    (f"{SWEEP} --transfer max_concurency=2", "did you mean 'max_concurrency'?", "settings are"),
    (f"{SWEEP} --output ''", "--output: the path is empty", "see"),
    ("pull s3://b/p . --verify fast", "invalid value 'fast'; use checksum, full, size", "see"),
    ("pull --workload nothing .", "'nothing'", "workloads are"),
    ("pull --workload x . --endpoint-url http://h", "has its own server", "omit --endpoint"),
    ("pull s3://b/p . --endpoint-url http://u:p@h", "a user name or password", "use http://HOST"),
    ("profile --pid 0", "invalid process id '0'; use 1 to 4194303", "see"),
    ("profile --user nobody", "--user needs a command", "profile --user NAME -- COMMAND"),
    ("transfer tune s3://b/p . --strategy edge", "invalid value 'edge'; use grid, random", "see"),
    ("transfer tune s3://b/p . --vary speed", "'speed'", "use some of max_concurrency"),
    ("contract convert x --to json", "invalid value 'json'; use mistral, yaml", "see"),
    ("bench-clients --clients a,,b .", "invalid list 'a,,b'; use names with commas", "see"),
    ("bench-clients s3://b/p . --workload x", "cannot be used together", "pass only one"),
    ("bench-clients . --json --markdown -", "cannot both print", "write one of them to a file"),
    # files
    (
        "advise nothing.json",
        "cannot read the results nothing.json: No such file",
        "writewise sweep",
    ),
    ("advise x.json --format yaml", "unknown format 'yaml'; use sysctl.d, fstab", "see"),
    ("apply nothing.json", "cannot read the recommendation nothing.json", "writewise advise"),
    ("apply x.json --persist --for 30m", "cannot be used together", "pass only one"),
    ("contract check nothing.yaml", "cannot read the contract nothing.yaml", "contract"),
    ("verify nothing.json", "cannot read the recommendation nothing.json", "writewise advise"),
)


@pytest.fixture(autouse=True)
def anywhere(tmp_path, monkeypatch):
    """An empty directory, and a host that lacks nothing: only what is typed is wrong."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(requirements, "require", lambda *_, **__: None)


def test_there_are_enough():
    assert len(ROWS) >= 80 and len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("typed", "wrong", "remedy"), ROWS, ids=[repr(row[0]) for row in ROWS])
def test_a_wrong_input_is_answered(typed, wrong, remedy, capsys):
    assert main(shlex.split(typed)) == 2
    printed = capsys.readouterr()
    first, second = printed.err.splitlines()
    assert first.startswith("writewise: ") and wrong in first
    assert second.startswith("  → ") and remedy in second
    assert printed.out == ""
    assert all(line.isprintable() for line in (first, second))


@pytest.mark.parametrize(
    ("typed", "wrong", "remedy"),
    [
        ("profile --pid 1 -- true", "cannot be used with a command", "omit them"),
        ("profile --", "COMMAND is missing after --", "see `writewise profile --help`"),
        ("profile --json --", "COMMAND is missing after --", "see `writewise profile --help`"),
        ("profile --jsn -- true", "unknown option '--jsn'", "did you mean '--json'?"),
        ("profile --contract no.yaml -- true", "cannot read the contract no.yaml", "contract"),
        ("run -- true", "the settings are missing", "pass --auto, --settings FILE, or as in"),
        ("run --on / --dirty-ratio 80 -- true", "--on is an option of --auto", "pass --auto, too"),
        ("run --on / -- true", "--on is an option of --auto", "pass --auto, too"),
        (
            "run --auto --dirty-ratio 80 -- true",
            "--auto and --dirty-ratio cannot be used together",
            "pass one of them",
        ),
        (
            "run --auto --settings x.json -- true",
            "--auto and --settings cannot be used together",
            "pass one of them",
        ),
        ("run --dirty-ratio 80 --", "COMMAND is missing after --", "see `writewise run --help`"),
        ("run --dirty-ratio 80% -- true", "invalid number '80%'", "see `writewise run --help`"),
        ("run --dirty-ratio 101 -- true", "--dirty-ratio: 101 is out of range", "use 1 to 100"),
        ("run --dirty-ratio 0 -- true", "--dirty-ratio: 0 is out of range", "use 1 to 100"),
        ("run --dirty-bytes 4KiB -- true", "--dirty-bytes: 4096 is out of range", "use 8192 to"),
        (
            "run --dirty-bytes 1GiB --dirty-ratio 9 -- true",
            "--dirty-ratio and --dirty-bytes set the same threshold",
            "pass one of them",
        ),
        (
            "run --settings x.json --dirty-ratio 80 -- true",
            "--settings and --dirty-ratio cannot be used together",
            "pass one of them",
        ),
        ("run --settings no.json -- true", "cannot read the recommendation no.json", "advise"),
        ("run --settings folder -- true", "folder is a directory", "advise"),
        ("run --dirty-ratio 80 --user no -- true", "there is no user 'no'", "pass --user"),
        ("run --drain -- true", "unknown option '--drain'", "did you mean '--no-drain'?"),
    ],
)
def test_a_failure_of_writewise_is_not_taken_for_the_command_s(typed, wrong, remedy, capsys):
    assert main(shlex.split(typed)) == 125
    first, second = capsys.readouterr().err.splitlines()
    assert wrong in first and remedy in second


OLD = (
    ("advise x.json --output-directory d", "--output-directory is now --output-dir"),
    ("demo --output-directory ''", "--output-directory is now --output-dir"),
    ("transfer tune s3://b/p . --output d --vary x", "--output is now --output-dir"),
    ("transfer tune s3://b/p . --space x", "--space is now --vary"),
    ("bench-clients . --json out.json --pulls 0", "is now --json --output out.json"),
    ("bench-clients . --json - --pulls 0", "--json - is now --json"),
    ("pull nothing . --workload", "--workload now takes the name: --workload nothing"),
    (f"{SWEEP} --mount-options noatime logbsize=256k --seed x", "pass --mount-options once for"),
)


@pytest.mark.parametrize(("typed", "notice"), OLD)
def test_an_old_form_works_and_names_the_new_one(typed, notice, capsys):
    assert main(shlex.split(typed)) == 2  # for what is wrong besides
    lines = capsys.readouterr().err.splitlines()
    notices = [line for line in lines if notice in line]
    assert len(notices) == 1 and notices[0].startswith("writewise: ")
    assert "unknown option" not in "".join(lines)
