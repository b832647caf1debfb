# SPDX-License-Identifier: Apache-2.0
"""An S3 endpoint on localhost that emulates S3's first-byte latency and rate per connection.

Other servers do not emulate these, or spend so much CPU per byte that the ranking of transfer
settings changes (`docs/development/architecture.md`). This read-only server uses `sendfile` in
forked worker processes, so it needs little CPU.

Run `python -m profiler.lab.s3_server --root DIR` to serve until SIGTERM, or use `S3Server`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from socketserver import ThreadingTCPServer

from contracts.shared.environment import for_programs
from contracts.shared.errors import WritewiseError
from contracts.shared.own_module import own_module
from contracts.shared.processes import die_with_parent
from profiler.lab.s3_faults import Fault, FaultPlan, FaultyHandler, dump_faults, load_faults
from profiler.lab.s3_objects import ObjectStore, load_index
from profiler.lab.s3_protocol import S3Handler, Service, Shape

HOST = "127.0.0.1"
_BACKLOG = 1024
_ENDS = frozenset({signal.SIGTERM, signal.SIGCHLD})
_START_TIMEOUT_S = 60.0  # before it listens, all objects are read for their checksums


class S3Server:
    """The server as a separate process, within the block.

    `root` contains the buckets. `index` (bucket → key → path below `root`) adds objects whose keys
    are not safe file names. None for latency or rate means as fast as possible. Raises
    WritewiseError if the server does not start.
    """

    def __init__(
        self,
        root: Path,
        *,
        port: int = 0,
        first_byte_latency_s: float | None = 0.020,
        rate_bytes_per_s: float | None = 90_000_000,
        worker_processes: int = 2,
        index: Mapping[str, Mapping[str, str]] | None = None,
        faults: Sequence[Fault] = (),
    ) -> None:
        self._arguments = [
            f"--root={root}",
            f"--port={port}",
            f"--first-byte-latency={first_byte_latency_s or 0}",
            f"--rate={rate_bytes_per_s or 0}",
            f"--workers={worker_processes}",
        ]
        self._index = index
        self._faults = faults
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint_url(self) -> str:
        """Its address, within the block."""
        return f"http://{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        """The process whose children serve, for measuring and ending it."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def __enter__(self) -> S3Server:
        with tempfile.TemporaryDirectory(prefix="writewise-s3-") as folder:
            port_file, index_file = Path(folder, "port"), Path(folder, "index.json")
            index_file.write_text(json.dumps(self._index or {}), encoding="utf-8")
            faults_file = Path(folder, "faults.json")
            faults_file.write_text(dump_faults(self._faults), encoding="utf-8")
            command = [sys.executable, *own_module("profiler.lab.s3_server"), *self._arguments]
            command += [f"--port-file={port_file}", f"--index={index_file}"]
            command += [f"--faults={faults_file}", f"--parent={os.getpid()}"]
            # In its own session, so that Ctrl-C ends the pull first, which needs its server.
            self._process = subprocess.Popen(command, env=for_programs(), start_new_session=True)
            try:
                self._port = _wait_for_port(port_file, self._process)
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and its workers."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


def _wait_for_port(port_file: Path, process: subprocess.Popen[bytes]) -> int:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            return int(port_file.read_text(encoding="ascii"))
        time.sleep(0.005)
    raise WritewiseError(
        "the lab's S3 server did not start",
        "see its message above; the port may be in use, or the folder of buckets missing",
    )


class _Worker(ThreadingTCPServer):
    """The connections of one process; all processes accept from one socket.

    The kernel wakes processes in `accept` in turn, so connections spread evenly. With a separate
    SO_REUSEPORT socket each, a hash would place them, and twenty connections might split 14 to 6.
    """

    daemon_threads = True

    def __init__(self, listener: socket.socket, handler: type[S3Handler]) -> None:
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def serve(self) -> None:
        """Accept forever; `serve_forever` would wake all processes for each connection."""
        while True:
            with contextlib.suppress(ConnectionAbortedError):
                self.process_request(*self.get_request())

    def handle_error(self, request: object, client_address: object) -> None:
        """Print a defect's traceback, but nothing for a client that closed its connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def serve(
    listener: socket.socket,
    service: Service,
    worker_processes: int,
    faults: Sequence[Fault] = (),
) -> None:
    """Serve until SIGTERM or until a worker dies, then end all workers.

    Call it in a process with a single thread, because it forks. The signals stay blocked: one that
    came just before os.wait() would be seen only after it.
    """
    handler = type("Handler", (S3Handler,), {"service": service})
    if faults:
        attributes = {"service": service, "plan": FaultPlan(faults)}
        handler = type("Handler", (FaultyHandler,), attributes)
    parent_pid = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    workers = [_fork_worker(listener, handler, parent_pid) for _ in range(worker_processes)]
    signal.sigwait(_ENDS)
    _end(workers)


def _fork_worker(listener: socket.socket, handler: type[S3Handler], parent_pid: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    die_with_parent(parent_pid)
    try:
        _Worker(listener, handler).serve()
    finally:
        os._exit(1)


def _end(workers: Sequence[int]) -> None:
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # they have nothing to clean up
    for pid in workers:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
        yield listener


def _write_port_file(path: Path, port: int) -> None:
    """Write the file atomically; an existing name is replaced, not followed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with open(partial, "x", encoding="ascii") as file:  # noqa: PTH123 - Path.open is the same
        file.write(str(port))
    partial.replace(path)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m profiler.lab.s3_server", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder with the buckets")
    parser.add_argument("--port", type=int, default=0, help="0 selects a free port")
    parser.add_argument("--port-file", type=Path, help="file to write the port to")
    parser.add_argument("--first-byte-latency", type=float, default=0.020, help="s; 0: none")
    parser.add_argument("--rate", type=float, default=90e6, help="bytes/s/connection; 0: no limit")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--index", type=Path, help="JSON: bucket → key → path below root")
    parser.add_argument("--faults", type=Path, help="JSON: list of faults")
    parser.add_argument("--parent", type=int, help="end when this parent process ends")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve from the command line until SIGTERM; return 1 if it cannot start."""
    arguments = _parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if arguments.parent:
        die_with_parent(arguments.parent, signal.SIGTERM)
    try:
        index = load_index(arguments.index) if arguments.index else {}
        faults = load_faults(arguments.faults) if arguments.faults else ()
        store = ObjectStore(arguments.root, index)
        store.warm()
        shape = Shape(arguments.first_byte_latency or None, arguments.rate or None)
        with _listening(arguments.port) as listener:
            if arguments.port_file:
                _write_port_file(arguments.port_file, listener.getsockname()[1])
            serve(listener, Service(store, shape), arguments.workers, faults)
    except (OSError, ValueError, OverflowError) as error:
        print(f"S3 server: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
