# SPDX-License-Identifier: Apache-2.0
"""Without the extra a study says how to install it; the help needs none of its libraries."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from profiler.cli.main import main
from tests.places import REPOSITORY

find_spec = importlib.util.find_spec


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch, capsys):
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "psycopg" else find_spec(name)
    )
    assert main(["study", "status", "postgresql:///studies?host=/run/postgresql"]) == 3
    printed = capsys.readouterr().err
    assert "psycopg" in printed
    assert "tools/setup study" in printed


def test_the_help_imports_no_library_of_the_extra():
    code = (
        "import sys\n"
        "from profiler.cli.main import main\n"
        "try: main(['study', 'join', '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('optuna', 'sqlalchemy', 'psycopg', 'numpy', 'boto3')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
