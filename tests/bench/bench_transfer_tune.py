# SPDX-License-Identifier: Apache-2.0
"""Optuna, Syne Tune and random search: the same sweep of transfer settings, the same budget.

One object is pulled to memory from the shaped server (20 ms, 90 MB/s per connection). For each
strategy it prints the time with the settings found, as a part of the time with boto3's defaults
(in pairs), and whether the goal is reached: 41 % less, which a post of the AWS Open Source Blog
reached in 125 s at 3 GiB. `--size`, `--budget` and `--seeds` scale it. It names the strategies that
are not installed and leaves them out.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console

from contracts.loading import load_contract
from contracts.shared.errors import RequirementError
from profiler.cli import argument_types as types
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import by_name
from profiler.pull.settings import TransferSettings
from profiler.pull.source import parse_location
from profiler.report.conclusions import verdict_text
from profiler.report.sweep_view import shown_sweep
from profiler.study.request import StudyRequest
from profiler.study.space import Space
from profiler.study.study import run_study
from sysctl.advice.advise import advise
from sysctl.evidence.results import CANDIDATE, Results
from sysctl.knobs.transfer import SWEPT_BY_DEFAULT, TRANSFER_CLIENT
from sysctl.search.strategies import BAYES, RANDOM, SYNE_TUNE

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
    parser.add_argument("--budget", type=types.budget, default="5m")
    parser.add_argument("--seeds", type=types.count, default=1)
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root, destination = Path(folder, "root"), Path(folder, "destination")
        (root / "bench").mkdir(parents=True)
        destination.mkdir()
        _write(root / "bench" / "object", arguments.size)
        print(f"optuna {_version('optuna')}, syne-tune {_version('syne-tune')}")
        with S3Server(root) as server:
            for strategy in (BAYES, SYNE_TUNE, RANDOM):
                for seed in range(arguments.seeds):
                    output = Path(folder, f"{strategy}-{seed}.json")
                    _report(strategy, seed, server.endpoint_url, destination, output, arguments)


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


def _report(
    strategy: str,
    seed: int,
    endpoint_url: str,
    destination: Path,
    output: Path,
    arguments: argparse.Namespace,
) -> None:
    request = StudyRequest(
        location=parse_location("s3://bench/object"),
        destination=destination,
        access=S3Access(endpoint_url),
        transfer=TransferSettings(),
        contract=load_contract(None),
        output=output,
        client=by_name(TRANSFER_CLIENT),
        space=Space(vm=False, transfer=SWEPT_BY_DEFAULT, strategy=strategy, seed=seed),
        budget=arguments.budget,
        changes_host=False,
    )
    try:
        with shown_sweep(Console(stderr=True)) as view:
            results = run_study(request, view)
    except RequirementError as error:
        print(f"{strategy}: left out, {error.message}")
        return
    _print(f"{strategy} seed {seed}", results)


def _print(name: str, results: Results) -> None:
    tried = {trial.setting for trial in results.trials if trial.role == CANDIDATE}
    print(f"{name}: {len(results.trials)} trials, {len(tried)} combinations")
    recommendation = advise(results)
    print(f"  {verdict_text(recommendation)}")
    if recommendation.best is not None and recommendation.interval is not None:
        less = 1 - recommendation.interval.estimate
        verdict = "reached" if less >= GOAL else "not reached"
        print(f"  {recommendation.best.setting}")
        print(f"  goal, {GOAL:.0%} of the time saved: {verdict}, {less:.0%}")


if __name__ == "__main__":
    main()
