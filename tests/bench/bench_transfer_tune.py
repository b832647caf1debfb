"""Optuna, Syne Tune and random search on the same trial function and the same budget.

One object behind the shaped server (20 ms, 90 MB/s per connection), pulled to memory. For each
strategy: the best mean found against boto3's defaults of the same search, the trials made, when
the best was found, and whether the goal is reached: 41 % less time, which the AWS Open Source
Blog's post found in 125 s at 3 GiB. `--size`, `--budget` and `--seeds` scale it. Strategies that
are not installed are said to be left out.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from profiler.cli import argument_types as types
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.settings import TransferSettings
from profiler.pull.source import list_plan, parse_location
from profiler.report.tuning import conclusion, point_text
from profiler.tune.bench import TransferBench
from profiler.tune.budget import Budget
from profiler.tune.space import POST_AXES, fitted
from profiler.tune.strategies import ALL, make_strategy
from profiler.tune.trial import TrialRunner
from profiler.tune.tuner import Tuner, Tuning, first_points

_BLOCK_BYTES = 2**20
#: The part of the defaults' time that the post saved: 8.3 s became 4.9 s.
GOAL = 0.41
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=types.size, default=3 * 2**30)
    parser.add_argument("--budget", type=types.duration, default=125 * 10**9)
    parser.add_argument("--seeds", type=types.count, default=1)
    parser.add_argument("--pairs", type=types.count, default=6)
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root, destination = Path(folder, "root"), Path(folder, "destination")
        (root / "bench").mkdir(parents=True)
        destination.mkdir()
        _write(root / "bench" / "object", arguments.size)
        with S3Server(root) as server:
            access = S3Access(server.endpoint_url)
            plan = list_plan(access, parse_location("s3://bench/object"))
            bench = TransferBench(access, plan, Destination(destination))
            print("\n".join(f"{name}: {value}" for name, value in bench.context().items()))
            print(f"optuna: {_version('optuna')}  syne-tune: {_version('syne-tune')}")
            for kind in ALL:
                for seed in range(arguments.seeds) if kind.is_here else ():
                    _tell(kind.name, seed, _tune(kind.name, seed, bench, arguments))
                if not kind.is_here:
                    print(f"{kind.name}: left out, {kind.needs} is not installed")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _write(path: Path, size_bytes: int) -> None:
    block = os.urandom(_BLOCK_BYTES)
    with path.open("wb") as file:
        for _ in range(size_bytes // _BLOCK_BYTES):
            file.write(block)


def _tune(name: str, seed: int, bench: TransferBench, arguments: argparse.Namespace) -> Tuning:
    axes = fitted(POST_AXES, bench.largest_object_bytes)
    return Tuner(
        runner=TrialRunner(bench),
        strategy=make_strategy(name, axes, first_points(TransferSettings(), axes), seed),
        budget=Budget(arguments.budget / 1e9),
        base=bench.base,
        load=bench.load,
        pairs=arguments.pairs,
    ).run()


def _tell(name: str, seed: int, tuning: Tuning) -> None:
    default_s, best = tuning.default.mean_s or 0.0, tuning.best
    print(
        f"{name} seed {seed}: defaults {default_s:.2f} s, best {best.mean_s:.2f} s "
        f"after {best.ended_s:.0f} s of search, {len(tuning.trials)} trials: "
        f"{point_text(best.point)}"
    )
    for line in conclusion(tuning):
        print(f"  {line}")
    if tuning.recheck is not None:
        less = 1 - tuning.recheck.interval.estimate
        verdict = "reached" if less >= GOAL else "not reached"
        print(f"  goal, {GOAL:.0%} of the time saved: {verdict}, {less:+.0%} in the recheck")


if __name__ == "__main__":
    main()
