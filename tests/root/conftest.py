"""Root tests need root, BPF, BTF and bcc; a host that lacks one skips them with the remedy.

With WRITEWISE_REQUIRE_ROOT_TESTS set (CI sets it) every skip in this folder is a failure, but for
what only another host could run (`hosts.cannot_run_here`).

They run one after the other, since they change the host or compare it with what it was before. A
file of the mark `side_by_side` does neither: it counts calls of its own, and what it mounts is in a
mount namespace of its process. `make test` runs these files side by side, but for tests that are
marked `alone`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from contracts.shared.errors import RequirementError
from profiler.bpf.compiler import system_call
from profiler.requirements import require
from tests.root.hosts import CANNOT_RUN_HERE

CLONE_NEWNS = 0x20000  # include/uapi/linux/sched.h


@pytest.fixture(scope="session", autouse=True)
def root_host() -> None:
    try:
        require("root", "bcc", "btf", "bpf")
    except RequirementError as error:
        pytest.skip(f"{error.message}; {error.hint}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what must run alone: all that is not marked otherwise."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("side_by_side") is None:
            item.add_marker("alone")


@pytest.fixture(scope="session", autouse=True)
def own_mounts(root_host: None) -> None:
    """A mount namespace for each process that runs tests beside others (xdist)."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    system_call("unshare", CLONE_NEWNS)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


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
