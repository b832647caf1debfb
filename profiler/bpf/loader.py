# SPDX-License-Identifier: Apache-2.0
"""Compiles, loads and attaches probes, gives access to their maps, and detaches them.

The compiler is a separate process (`compiler.py`) that hands over the descriptors of maps, programs
and attachments. This process holds nothing else, so when it ends, in whatever way, the kernel
detaches and frees everything.
"""

from __future__ import annotations

import array
import contextlib
import errno
import json
import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import IO, Any, Literal

from contracts.shared.environment import for_programs
from contracts.shared.errors import RequirementError, WritewiseError
from profiler.bpf import compiler, maps
from profiler.bpf.btf import VMLINUX, parsed_btf
from profiler.bpf.casts import cast_of
from profiler.bpf.descriptors import (
    close,
    close_attachments,
    descriptors_left,
    too_many_open_files,
)
from profiler.bpf.functions import functions_of
from profiler.bpf.layouts import is_supported, offsets
from profiler.bpf.probe import PROBES_FOLDER, Probe
from sysctl.host.signals import signals_held_back

#: Without debug information compiling takes 10 % less time.
_COMPILER_FLAGS = ("-w", "-g0")
#: BCC optimises again what clang has optimised. For simple programs, once gives the same code in
#: 25 % less time; for others the verifier would have to follow eight times as many paths.
_OPTIMISED_ONCE = ("-Xclang", "-disable-llvm-passes")
_ANSWER_BYTES = 1 << 16
_CHATTER_CHARACTERS = 400
_DOCTOR = "run `writewise doctor` to see what this host lacks"
_PRIVILEGES = "run as root with CAP_SYS_ADMIN, outside a container that drops it"
_TRACEPOINTS = "use a kernel with CONFIG_FTRACE_SYSCALLS and event tracing"
_MEMORY = "raise the memory limit (cgroup, ulimit -v): the compiler needs about 200 MiB"

#: The failure after which the probes attach to tracepoints.
_FUNCTION = "function"
#: Kinds of failures of `compiler.py` → message and hint.
_FAILURES = {
    "tracefs": ("tracefs cannot be accessed: {}", _PRIVILEGES),
    "tracepoint": ("this kernel has no tracepoint {}", _TRACEPOINTS),
    "bcc": ("BCC's Python binding cannot be used: {}", _DOCTOR),
    "attach": ("some probes could not be attached: {}", _DOCTOR),
    _FUNCTION: ("the kernel refuses a program on the function of {}", _DOCTOR),
}
#: How the kernel, C++, LLVM, Python and the dynamic linker report a lack of memory.
_NO_MEMORY = (
    *(os.strerror(errno.ENOMEM), "bad_alloc", "out of memory", "MemoryError"),
    "failed to map segment",
)


def load(
    probes: Sequence[Probe],
    numbers: Mapping[str, int],
    compiler: Compiler | None = None,
    *,
    simple: bool = False,
    functions: bool = True,
) -> Module:
    """Compile the probes into one module, load it and attach it to all their tracepoints.

    `numbers` define macros, in addition to the offsets that the probes need. A `compiler` serves
    once. `simple` probes, with few branches in their loops, compile faster. With `functions`,
    programs of system calls attach to kernel functions if all of them can; if the kernel then
    refuses one, another compiler attaches all of them to tracepoints. Raises RequirementError if
    the host lacks BTF, bcc, a tracepoint, memory or the privilege to load programs.
    """
    try:
        return _load(probes, numbers, compiler, simple=simple, functions=functions)
    except FunctionRefusedError as error:
        module = _load(probes, numbers, None, simple=simple, functions=False)
        module.functions_refused = error.message
        return module


class FunctionRefusedError(RequirementError):
    """The kernel refused a program on a function, though it took another one for a trial."""


def _load(
    probes: Sequence[Probe],
    numbers: Mapping[str, int],
    compiler: Compiler | None,
    *,
    simple: bool,
    functions: bool,
) -> Module:
    with contextlib.ExitStack() as on_failure, descriptors_left(), signals_held_back():
        with compiler or Compiler() as process:  # it starts while this process finds the offsets
            btf = parsed_btf(VMLINUX) if any(probe.members for probe in probes) else None
            parsed_btf.cache_clear()
            here = [probe for probe in probes if is_supported(probe, btf)]
            flags = (*_COMPILER_FLAGS, *(_OPTIMISED_ONCE if simple else ()))
            behind, cast = functions_of(here, btf if functions else None), cast_of(btf)
            macros = {**numbers, **offsets(here, btf), **behind.macros, **cast.macros}
            process.ask(
                {**_request(here, macros, flags), "traced": behind.traced, "cast": cast.calls}
            )
            module = on_failure.enter_context(Module(by_functions=bool(behind.traced)))
            process.while_compiling()
            for kind, names, descriptors in process.answers():
                module.take(kind, names, descriptors)
        on_failure.pop_all()
    return module


class Module:
    """Attached probes, until `close`, which may be called twice; a context manager.

    `by_functions` is whether programs of system calls attach to functions, not to tracepoints.
    `functions_refused` is why they do not, if the kernel refused one of them.
    """

    def __init__(self, *, by_functions: bool = False) -> None:
        self.by_functions = by_functions
        self.functions_refused: str | None = None
        self._descriptors: dict[str, dict[str, int]] = {"map": {}, "program": {}, "event": {}}
        self._views: list[tuple[mmap.mmap, memoryview[int]]] = []

    def has_map(self, name: str) -> bool:
        """Return whether a loaded probe defines this map."""
        return name in self._descriptors["map"]

    def __enter__(self) -> Module:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, kind: str, names: Sequence[str], descriptors: Sequence[int]) -> None:
        """Take ownership of descriptors of a kind: `map`, `program` or `event` (attachment)."""
        self._descriptors[kind].update(zip(names, descriptors))

    def map_words(self, name: str, word_format: Literal["Q", "I"] = "Q") -> memoryview[int]:
        """Return a mappable array as words (`Q` 64 bits, `I` 32), writable kernel memory.

        It is valid until `close`.
        """
        descriptor = self._map(name)
        with descriptors_left():  # mmap keeps a duplicate of the descriptor
            mapped = mmap.mmap(descriptor, maps.size_bytes(descriptor), mmap.MAP_SHARED)
        words: memoryview[int] = memoryview(mapped).cast(word_format)
        self._views.append((mapped, words))
        return words

    def insert(self, name: str, key: bytes, leaf: bytes) -> bool:
        """Add an entry to a hash; return False if it exists. Raises OSError (E2BIG: full)."""
        return maps.insert(self._map(name), key, leaf)

    def remove(self, name: str, key: bytes) -> None:
        """Remove an entry from a hash, if it exists."""
        maps.remove(self._map(name), key)

    def size(self, name: str) -> int:
        """Return the number of entries of a hash, by walking its keys, which stops no probe."""
        return len(maps.keys(self._map(name)))

    def entries(self, name: str) -> dict[bytes, bytes]:
        """Return the entries of a hash now."""
        return maps.entries(self._map(name))

    def _map(self, name: str) -> int:
        return self._descriptors["map"][name]

    def runs_missed(self, but_of: Collection[str] = ()) -> int:
        """Return how many runs the kernel skipped because a BPF program was active on the CPU.

        Runs of the functions `but_of` are not counted, because they lose no data. Kernels before
        about 6.7 do not report skipped runs (`scope.Losses`).
        """
        programs = self._descriptors["program"].items()
        counted = (descriptor for name, descriptor in programs if name not in but_of)
        return sum(int(maps.information(each).get("recursion_misses", "0")) for each in counted)

    def close(self) -> None:
        """Detach everything and close all descriptors, also when signals arrive.

        The kernel detaches a little later (`close_attachments`); counters already read are final.
        """
        with signals_held_back():
            for mapped, words in self._views:
                words.release()
                mapped.close()
            self._views = []
            close_attachments(self._descriptors.pop("event", {}).values())
            for kind in ("program", "map"):
                close(self._descriptors.pop(kind, {}).values())


class Compiler:
    """A running `compiler.py`; a context manager that ends it, and may be left twice.

    It starts in 0.1 s, in the background. `while_compiling` runs while it compiles. `start` gets
    its end of the socket and the file for its output. Raises WritewiseError if it cannot start.
    """

    def __init__(
        self,
        while_compiling: Callable[[], object] = lambda: None,
        start: Callable[[socket.socket, IO[bytes]], subprocess.Popen[bytes]] | None = None,
    ) -> None:
        self.while_compiling = while_compiling
        with descriptors_left(), signals_held_back(), contextlib.ExitStack() as resources:
            self._chatter: IO[bytes] = resources.enter_context(tempfile.TemporaryFile())
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._connection, its_end = map(resources.enter_context, pair)
            self._process = resources.enter_context(
                (start or _start_compiler)(its_end, self._chatter)
            )
            its_end.close()  # so that this process notices when the compiler ends
            self._resources = resources.pop_all()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # all answers have been read, or are no longer needed
        self._connection.close()
        self._resources.close()

    def ask(self, request: Mapping[str, object]) -> None:
        """Send what to compile."""
        with contextlib.suppress(BrokenPipeError):  # if it has died, `answers` reports it
            self._connection.send(json.dumps(request).encode())

    def answers(self) -> Iterator[tuple[str, list[str], list[int]]]:
        """Yield kind, names and descriptors until it is done. Raises RequirementError."""
        while True:
            answer, descriptors = self._receive()
            if not answer or answer["kind"] == "failed":
                raise self._error(answer)
            if answer["kind"] == "done":
                return
            yield answer["kind"], answer["names"], descriptors

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        size = array.array("i").itemsize * compiler.DESCRIPTORS_PER_MESSAGE
        try:
            message, extra, flags, _ = self._connection.recvmsg(
                _ANSWER_BYTES, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:  # it died before it read the request
            return {}, []
        descriptors = array.array("i")
        for _level, _type, content in extra:
            descriptors.frombytes(content)
        if flags & socket.MSG_CTRUNC:  # the kernel passed only as many as this process can open
            close(descriptors)
            raise too_many_open_files()
        return json.loads(message) if message else {}, list(descriptors)

    def _error(self, answer: Mapping[str, str]) -> WritewiseError:
        failure, about = answer.get("failure", ""), answer.get("about", "")
        if failure in _FAILURES and not any(words in about for words in _NO_MEMORY):
            message, hint = _FAILURES[failure]
            error = FunctionRefusedError if failure == _FUNCTION else RequirementError
            return error(message.format(about), hint)
        code = 0 if answer else self._process.wait()
        self._chatter.seek(0)
        return load_error(about, self._chatter.read().decode(errors="replace"), code)


def _start_compiler(its_end: socket.socket, chatter: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the compiler in its own session, because Ctrl-C must not interrupt loading."""
    command = [sys.executable, "-I", compiler.__file__, str(its_end.fileno())]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=chatter,
        stderr=chatter,
        pass_fds=[its_end.fileno()],
        env=for_programs(),
        start_new_session=True,
    )


def _request(
    probes: Sequence[Probe], macros: Mapping[str, int], flags: Sequence[str]
) -> dict[str, object]:
    functions: dict[str, list[str]] = {}  # probes may share one
    for probe in probes:
        for function, names in probe.functions.items():
            functions.setdefault(function, []).extend(names)
    files = dict.fromkeys(source for probe in probes for source in probe.sources)
    defined = {**macros, **{f"USE_{function}": 1 for function in functions}}
    return {
        "files": [str(PROBES_FOLDER / file) for file in files],
        "cflags": [*flags, *(f"-D{name}={value}" for name, value in defined.items())],
        "tracepoints": [name for probe in probes for name in probe.tracepoints],
        "raw_tracepoints": [name for probe in probes for name in probe.raw_tracepoints],
        "functions": functions,
        "optional": sorted({name for probe in probes for name in probe.optional}),
    }


def load_error(reason: str, chatter: str, exit_code: int = 0) -> WritewiseError:
    """Return BCC's error as one sentence, with the end of the compiler's or verifier's output.

    `exit_code` is that of a compiler that ended without an answer, negative for a signal.
    """
    everything = f"{reason} {chatter}"
    if os.strerror(errno.EMFILE) in everything:
        return too_many_open_files()
    if any(words in everything for words in _NO_MEMORY) or exit_code == -signal.SIGKILL:
        return RequirementError("not enough memory to load the probes", _MEMORY)
    if "Operation not permitted" in everything or "super-user" in everything:
        message = "the kernel does not allow this process to load BPF programs"
        return RequirementError(message, _PRIVILEGES)
    said = " ".join(chatter.split())[-_CHATTER_CHARACTERS:]
    if exit_code:
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        reason = f"the compiler ended with {how}"
    reason = re.sub(r"\bb'([^']*)'", r"\1", reason)  # BCC shows bytes as Python writes them
    return RequirementError(f"the probes could not be loaded: {reason}", said or _DOCTOR)
