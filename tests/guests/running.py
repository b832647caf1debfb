# SPDX-License-Identifier: Apache-2.0
"""Run the tests of features on guests, and read pytest's reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tests.guests.catalogue import Guest
from tests.guests.features import FEATURES, Feature, Where
from tests.guests.images import PROJECT
from tests.guests.machine import GuestError, Machine, booted, stop_machines

#: The variable that names the guest for the tests that run on the host.
GUEST_VARIABLE = "WRITEWISE_GUEST"
_FEATURE_TIMEOUT_S = 3600
_REPORT = "/tmp/report.xml"
#: pytest's exit codes after which its report has every test: all passed, or some failed.
_RAN = (0, 1)
_SSH_FAILED = 255
_PYTEST = ("-q", "-p", "no:cacheprovider", "--durations=10")


#: The pytest of each feature that runs on this host.
_on_this_host: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True)
class FeatureResult:
    """What pytest counted for a feature; `skipped` are the distinct reasons.

    `commit` is that of the code that ran, with the time of the run in UTC; empty if not recorded.
    """

    passed: int
    failed: int
    skipped: tuple[str, ...]
    seconds: float
    commit: str = ""


@dataclass(frozen=True)
class GuestResult:
    """The results on one guest, by the name of the feature."""

    guest: str
    kernel: str
    boot_s: float
    features: dict[str, FeatureResult] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        """Return whether a test failed, or a feature had no test that ran."""
        return any(each.failed or not each.passed for each in self.features.values())

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)


def run_tests(machine: Machine, tests: Sequence[str]) -> int:
    """Run tests in a guest, show their output, and return pytest's exit code."""
    required = "WRITEWISE_REQUIRE_ROOT_TESTS=1"
    with machine.start("env", required, "python", "-m", "pytest", *_PYTEST, *tests) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
    return process.returncode


def run_features(
    guest: Guest, only: Sequence[str], keep: Callable[[GuestResult], None]
) -> GuestResult:
    """Boot a guest and test every feature that applies to it.

    With `only`, test those whose name contains one of its texts. `keep` is called with the results
    so far after each feature.
    """
    wanted = [
        each
        for each in FEATURES
        if each.is_for(guest) and (not only or any(part in each.name for part in only))
    ]
    with booted(guest) as machine:
        kernel = machine.run("uname", "-r").stdout.strip()
        result = GuestResult(guest.name, kernel, round(machine.boot_s, 1))
        for feature in (each for each in wanted if each.where is Where.IN_GUEST):
            _add(result, feature, _in_guest(machine, feature))
            keep(result)
    for feature in (each for each in wanted if each.where is Where.ON_HOST):
        _add(result, feature, _on_host(guest, feature))
        keep(result)
    return result


def _add(result: GuestResult, feature: Feature, found: FeatureResult) -> None:
    result.features[feature.name] = replace(found, commit=_code())
    counted = f"{found.passed} passed, {found.failed} failed, {len(found.skipped)} skipped"
    print(f"{result.guest}: {feature.name}: {counted}, {found.seconds:.0f} s", flush=True)


def _code() -> str:
    """Return `2026-11-23 02:05 1a2b3c4`, with a `+` if the clone has uncommitted changes."""
    git = ("git", "-C", str(PROJECT), "describe", "--always", "--abbrev=7", "--exclude=*")
    described = subprocess.run((*git, "--dirty=+"), capture_output=True, text=True, check=True)
    return f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} {described.stdout.strip()}"


def _in_guest(machine: Machine, feature: Feature) -> FeatureResult:
    started_s = time.monotonic()
    report = f"--junitxml={_REPORT}"
    command = ("env", "WRITEWISE_REQUIRE_ROOT_TESTS=1", "python", "-m", "pytest", *_PYTEST, report)
    try:
        machine.run("rm", "-f", _REPORT)  # the previous feature's
        done = machine.run(*command, *feature.tests, check=False, timeout_s=_FEATURE_TIMEOUT_S)
        if done.returncode == _SSH_FAILED:
            raise GuestError(f"{machine.guest.name}: the connection was lost")
    except (GuestError, subprocess.CalledProcessError) as error:
        # it hangs or has crashed: boot it again for the next features
        print(error, flush=True)
        machine.power_cut()
        return FeatureResult(0, 1, (), round(time.monotonic() - started_s, 1))
    return _counted(done, lambda: machine.read(_REPORT), started_s)


def _on_host(guest: Guest, feature: Feature) -> FeatureResult:
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", *_PYTEST, f"--junitxml={report}", *feature.tests]
        environment = {**os.environ, GUEST_VARIABLE: guest.name}
        with subprocess.Popen(
            command,
            cwd=PROJECT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C reaches it only by `stop_all`, so once
        ) as process:
            _on_this_host.add(process)
            said = process.communicate()[0]
        _on_this_host.discard(process)
        done = subprocess.CompletedProcess(command, process.returncode, said, "")
        return _counted(done, report.read_text, started_s)


def stop_all() -> None:
    """End every guest, and the tests on this host, which end their guests."""
    stop_machines()
    for process in list(_on_this_host):
        process.send_signal(signal.SIGINT)


def _counted(
    done: subprocess.CompletedProcess[str], report: Callable[[], str], started_s: float
) -> FeatureResult:
    """Return what pytest counted; print its output if a test failed or none ran."""
    seconds = time.monotonic() - started_s
    print(done.stdout + done.stderr if done.returncode else "", end="", flush=True)
    if done.returncode not in _RAN:
        return FeatureResult(0, 1, (), round(seconds, 1))
    return read_report(report(), seconds)


def read_report(report: str, seconds: float) -> FeatureResult:
    """Return the counts of pytest's report in JUnit form."""
    cases = list(ElementTree.fromstring(report).iter("testcase"))
    failed = [case for case in cases if {"failure", "error"} & {child.tag for child in case}]
    skips = [each.get("message", "") for case in cases for each in case.iter("skipped")]
    passed = len(cases) - len(failed) - len(skips)
    return FeatureResult(passed, len(failed), tuple(dict.fromkeys(skips)), round(seconds, 1))
