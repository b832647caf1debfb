"""Root tests need root, BPF, BTF and bcc; a host that lacks one skips them with the remedy.

With WRITEWISE_REQUIRE_ROOT_TESTS set (CI sets it) every skip in this folder is a failure, but for
what only another host could run (`hosts.cannot_run_here`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest

from contracts.shared.errors import RequirementError
from profiler.requirements import require
from tests.root.hosts import CANNOT_RUN_HERE


@pytest.fixture(scope="session", autouse=True)
def root_host() -> None:
    try:
        require("root", "bcc", "btf", "bpf")
    except RequirementError as error:
        pytest.skip(f"{error.message}; {error.hint}")


@pytest.fixture(scope="session", autouse=True)
def sigint_ends_programs() -> None:
    """Programs started here can be interrupted: one started by `&` in a shell ignores SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _no_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    is_skip = report.outcome == "skipped" and not hasattr(report, "wasxfail")
    if CANNOT_RUN_HERE in str(report.longrepr):
        return
    if is_skip and os.environ.get("WRITEWISE_REQUIRE_ROOT_TESTS"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and WRITEWISE_REQUIRE_ROOT_TESTS forbids it: {report.longrepr}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    _no_skip((yield).get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, None]:
    _no_skip((yield).get_result())
