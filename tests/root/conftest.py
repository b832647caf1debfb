"""Root tests need root, BPF, BTF and bcc; a host that lacks one skips them with the remedy.

With WRITEWISE_REQUIRE_ROOT_TESTS set (CI sets it) every such skip is a failure.
"""

from __future__ import annotations

import os

import pytest

from contracts.errors import RequirementError


@pytest.fixture(scope="session", autouse=True)
def root_host() -> None:
    from profiler.requirements import require

    try:
        require("root", "bcc", "btf", "bpf")
    except RequirementError as error:
        reason = f"{error.message}; {error.hint}"
        if os.environ.get("WRITEWISE_REQUIRE_ROOT_TESTS"):
            pytest.fail(reason)
        pytest.skip(reason)
