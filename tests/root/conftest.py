# SPDX-License-Identifier: Apache-2.0
"""Root tests need root, BPF, BTF and bcc; if one is missing, they skip and print the remedy.

With WRITEWISE_REQUIRE_ROOT_TESTS set (CI sets it) every skip in this folder is a failure, except
for tests that only another host could run (`hosts.cannot_run_here`).

A test that leaves something on the host fails, and the failure names it. If a session is killed,
its guard (`guard.py`) cleans up after it.

The tests run one after the other, since they change the host or compare it with its state before.
A file with the mark `side_by_side` does neither: it counts its own calls, and it mounts only in a
mount namespace of its process. `make test` runs these files in parallel, except for tests that
are marked `alone`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.shared.errors import RequirementError
from profiler.bpf.compiler import system_call
from profiler.requirements import require
from tests.root.guard import Session
from tests.root.hosts import CANNOT_RUN_HERE

CLONE_NEWNS = 0x20000  # include/uapi/linux/sched.h


@pytest.fixture(scope="session", autouse=True)
def root_host() -> None:
    try:
        require("root", "bcc", "btf", "bpf")
    except RequirementError as error:
        pytest.skip(f"{error.message}; {error.hint}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that must run alone: all without another mark."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("side_by_side") is None:
            item.add_marker("alone")


@pytest.fixture(scope="session", autouse=True)
def own_mounts(root_host: None) -> None:
    """Give each process that runs tests in parallel (xdist) its own mount namespace."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    system_call("unshare", CLONE_NEWNS)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.fixture(scope="session", autouse=True)
def root_session(
    own_mounts: None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Session]:
    """Record what the tests start and make; nothing of it may be left at the end."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    is_shown = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
    with is_shown:  # the guard reports what it could not clean up
        session = Session(tmp_path_factory.getbasetemp())
    yield session
    if request.session.exitstatus == pytest.ExitCode.INTERRUPTED:
        return  # a fixture's teardown may have left a journal: the guard cleans up everything
    left = session.end()
    if left:
        pytest.fail("the root tests left:\n" + "\n".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest, root_session: Session) -> Iterator[None]:
    """Fail a test that leaves something, other than what module-scoped fixtures hold."""
    before = root_session.record()
    yield
    left = root_session.left_by(request.node.nodeid, before)
    if left:
        pytest.fail("this test left:\n" + "\n".join(left), pytrace=False)


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
