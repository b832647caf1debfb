# SPDX-License-Identifier: Apache-2.0
"""The history of a host whose settings a run really changes: who did it, and whose file it is."""

from __future__ import annotations

import json
import os
import stat

from sysctl.host.host import state_directory
from sysctl.host.sysctls import read_writeback
from tests.root.labs import SYSTEM, guarded, writewise


def test_a_run_is_remembered_with_the_caller_of_sudo(tmp_path, monkeypatch):
    monkeypatch.delenv("WRITEWISE_HISTORY")
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    before = read_writeback(SYSTEM)
    with guarded(tmp_path):
        words = ("run", "--dirty-ratio", "61", "--", "env", "API_TOKEN=hunter2", "false")
        ran = writewise(*words)
        assert (ran.returncode, read_writeback(SYSTEM)) == (1, before), ran.stderr
        shown = json.loads(writewise("history", "--json").stdout)
        path = state_directory() / "history.jsonl"
        status = os.stat(path)
        content = path.read_text()
    (entry,) = shown["entries"]
    assert entry["user"] == "nobody (uid 65534)" and entry["exit_code"] == 1
    assert entry["outcome"][0].startswith(f"vm.dirty_ratio {before.get('vm.dirty_ratio', 0)} → 61")
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o600)
    assert "hunter2" not in content and "API_TOKEN=***" in content
