# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL of a test's own: in memory, reached by a Unix socket, gone when its starter ends."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

OWNER = "writewise"
DATABASE = "study"
REMEDY = "PostgreSQL's server programs are missing: tools/setup test"


def programs() -> Path | None:
    """Return the folder of the newest server programs; None without any."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: p.parts[4])
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


class Server:
    """One cluster. It runs as a child that the kernel stops when the starting thread ends."""

    listens, port = "", 5432

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self.folder, self._bin = folder, bin_folder
        self._process: subprocess.Popen | None = None
        user = pwd.getpwnam("postgres" if os.geteuid() == 0 else pwd.getpwuid(os.getuid()).pw_name)
        self._as_user: Sequence[str] = ()
        if os.geteuid() == 0:
            ids = f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"
            self._as_user = ("setpriv", *ids, "--clear-groups")
            os.chown(folder, user.pw_uid, user.pw_gid)
        folder.chmod(0o755)

    @property
    def socket(self) -> Path:
        return self.folder

    def url(self, user: str = OWNER, host: Path | None = None) -> str:
        return f"postgresql://{user}@/{DATABASE}?host={host or self.socket}"

    def make(self) -> None:
        options = ["-U", OWNER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        self._run("initdb", "-D", f"{self.folder}/d", *options)
        self.configure()
        self.start()
        self._run("createdb", *self._at_socket, "-U", OWNER, DATABASE)

    def configure(self) -> None:
        """Change files of the cluster before its first start."""

    @property
    def _at_socket(self) -> tuple[str, ...]:
        return "-h", str(self.folder), "-p", str(self.port)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            dies_with_us = ["--pdeathsig", "QUIT"] if self._as_user else []
            listens = ["-c", f"listen_addresses={self.listens}", "-p", str(self.port)]
            options = [*listens, "-k", str(self.folder), "-c", "fsync=off"]
            program = [str(self._bin / "postgres"), "-D", f"{self.folder}/d", *options]
            self._process = subprocess.Popen(
                [*self._as_user, *dies_with_us, *program], stdout=log, stderr=log, cwd="/"
            )
        self._wait()

    def _wait(self) -> None:
        for _ in range(300):
            ready = subprocess.run(
                [self._bin / "pg_isready", "-q", *self._at_socket, "-d", "postgres"], check=False
            )
            if ready.returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def crash(self) -> None:
        """Do what `pg_ctl -m immediate stop` does: no checkpoint, recovery at the next start."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def _end(self, by: int) -> None:
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(timeout=30)
            self._process = None

    def sql(self, text: str, user: str = OWNER, database: str = DATABASE) -> str:
        """Run statements; return what psql prints, one row a line."""
        command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        where = [*self._at_socket, "-U", user, "-d", database]
        return self._run(*command, *where, given=text)

    def _run(self, program: str, *arguments: str, given: str | None = None) -> str:
        found = self._bin / program
        argv = [*self._as_user, str(found if found.exists() else program), *arguments]
        done = subprocess.run(
            argv, input=given, capture_output=True, text=True, check=False, cwd="/"
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()


@contextlib.contextmanager
def running(make: type[Server] = Server) -> Iterator[Server]:
    """Yield a server; skip the test where its programs are missing."""
    found = programs()
    if found is None:
        pytest.skip(REMEDY)
    folder = Path(tempfile.mkdtemp(prefix="writewise-pg-", dir="/dev/shm"))
    server = make(folder, found)
    try:
        server.make()
        yield server
    finally:
        server.crash()
        shutil.rmtree(folder, ignore_errors=True)
