"""Has probes compiled, loaded and attached, reads and writes their maps, detaches them.

The compiler runs in a process of its own (`compiler.py`), which hands over the descriptors of maps,
programs and attachments. They are all that this process keeps: when it ends, however it does, the
kernel detaches and frees everything.
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
from profiler.bpf.descriptors import (
    close,
    close_attachments,
    descriptors_left,
    too_many_open_files,
)
from profiler.bpf.layouts import is_supported, offsets
from profiler.bpf.probe import PROBES_FOLDER, Probe
from sysctl.host.signals import signals_held_back

#: Nobody debugs the programs: without that, compiling takes a tenth less.
_COMPILER_FLAGS = ("-w", "-g0")
#: BCC optimises what clang has optimised already. Once yields the same code for simple programs and
#: takes a quarter less; of others the verifier would have to follow eight times as many paths.
_OPTIMISED_ONCE = ("-Xclang", "-disable-llvm-passes")
_ANSWER_BYTES = 1 << 16
_CHATTER_CHARACTERS = 400
_DOCTOR = "run `writewise doctor` to see what this host lacks"
_PRIVILEGES = "run as root with CAP_SYS_ADMIN, outside a container that holds it back"
_TRACEPOINTS = "Writewise needs a kernel with CONFIG_FTRACE_SYSCALLS and event tracing"
_MEMORY = "the compiler needs about 200 MiB; raise the limit of memory (cgroup, ulimit -v)"

#: What `compiler.py` fails of → the sentence, and what to do.
_FAILURES = {
    "tracefs": ("tracefs cannot be reached: {}", _PRIVILEGES),
    "tracepoint": ("this kernel has no tracepoint {}", _TRACEPOINTS),
    "bcc": ("BCC's Python binding is not usable: {}", _DOCTOR),
    "attach": ("the probes did not attach as they should: {}", _DOCTOR),
}
#: As the kernel, C++, LLVM, Python and the dynamic linker say it.
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
) -> Module:
    """Compile the probes into one module, load it and attach it to all their tracepoints.

    `numbers` become the C's macros of that name, beside the offsets that the probes ask for. A
    `compiler` serves once. `simple` ones, with few branches for each turn of their loops, compile
    faster. Raises RequirementError when the host lacks BTF, bcc, a tracepoint, memory or the right
    to load.
    """
    with contextlib.ExitStack() as on_failure, descriptors_left(), signals_held_back():
        with compiler or Compiler() as process:  # it starts while we look up the offsets
            btf = parsed_btf(VMLINUX) if any(probe.members for probe in probes) else None
            parsed_btf.cache_clear()
            here = [probe for probe in probes if is_supported(probe, btf)]
            flags = (*_COMPILER_FLAGS, *(_OPTIMISED_ONCE if simple else ()))
            process.ask(_request(here, {**numbers, **offsets(here, btf)}, flags))
            module = on_failure.enter_context(Module())
            process.meanwhile()
            for kind, names, descriptors in process.answers():
                module.take(kind, names, descriptors)
        on_failure.pop_all()
    return module


class Module:
    """Probes at work, until `close`, which may be called twice; a context manager."""

    def __init__(self) -> None:
        self._descriptors: dict[str, dict[str, int]] = {"map": {}, "program": {}, "event": {}}
        self._views: list[tuple[mmap.mmap, memoryview[int]]] = []

    def has_map(self, name: str) -> bool:
        """Whether a probe that brings this map is among those loaded."""
        return name in self._descriptors["map"]

    def __enter__(self) -> Module:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, kind: str, names: Sequence[str], descriptors: Sequence[int]) -> None:
        """Own descriptors of a kind: `map`, `program` or `event`, which is an attachment."""
        self._descriptors[kind].update(zip(names, descriptors))

    def map_words(self, name: str, word_format: Literal["Q", "I"] = "Q") -> memoryview[int]:
        """A mappable array as words (`Q` 64 bits, `I` 32), the kernel's own memory, to write too.

        It is valid until `close`.
        """
        descriptor = self._map(name)
        with descriptors_left():  # mmap keeps a duplicate of the map's
            mapped = mmap.mmap(descriptor, maps.size_bytes(descriptor), mmap.MAP_SHARED)
        words: memoryview[int] = memoryview(mapped).cast(word_format)
        self._views.append((mapped, words))
        return words

    def insert(self, name: str, key: bytes, leaf: bytes) -> bool:
        """Add an entry to a hash; False when it is there already. Raises OSError (E2BIG: full)."""
        return maps.insert(self._map(name), key, leaf)

    def remove(self, name: str, key: bytes) -> None:
        """Take an entry out of a hash; nothing happens when it is not there."""
        maps.remove(self._map(name), key)

    def size(self, name: str) -> int:
        """Number of entries of a hash now. It walks the keys, which keeps no probe from running."""
        return len(maps.keys(self._map(name)))

    def _map(self, name: str) -> int:
        return self._descriptors["map"][name]

    def runs_missed(self, but_of: Collection[str] = ()) -> int:
        """Runs that the kernel left out because a BPF program was active on the CPU.

        `but_of` are the functions whose runs are no loss. A kernel before about 6.7 does not tell
        (`scope.Losses`).
        """
        programs = self._descriptors["program"].items()
        counted = (descriptor for name, descriptor in programs if name not in but_of)
        return sum(int(maps.information(each).get("recursion_misses", "0")) for each in counted)

    def close(self) -> None:
        """Detach everything and give all descriptors back, to the end even if signals come.

        The kernel detaches a little later (`close_attachments`): counters that were read are final.
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
    """`compiler.py` at work; a context manager, which ends it, and may be left twice.

    It starts in 0.1 s, in the background. Compiling takes longer: `meanwhile` runs at that time.
    `start` gets its end of the socket and the file for what it prints.
    Raises WritewiseError when it cannot start.
    """

    def __init__(
        self,
        meanwhile: Callable[[], object] = lambda: None,
        start: Callable[[socket.socket, IO[bytes]], subprocess.Popen[bytes]] | None = None,
    ) -> None:
        self.meanwhile = meanwhile
        with descriptors_left(), signals_held_back(), contextlib.ExitStack() as resources:
            self._chatter: IO[bytes] = resources.enter_context(tempfile.TemporaryFile())
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._connection, its_end = map(resources.enter_context, pair)
            self._process = resources.enter_context(
                (start or _start_compiler)(its_end, self._chatter)
            )
            its_end.close()  # its end is then seen
            self._resources = resources.pop_all()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it has said all, or nobody listens
        self._connection.close()
        self._resources.close()

    def ask(self, request: Mapping[str, object]) -> None:
        """Say what to compile."""
        with contextlib.suppress(BrokenPipeError):  # it has died: told by the answers
            self._connection.send(json.dumps(request).encode())

    def answers(self) -> Iterator[tuple[str, list[str], list[int]]]:
        """Kind, names and descriptors, until it is done. Raises RequirementError."""
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
        except ConnectionResetError:  # it died before it had read the request
            return {}, []
        descriptors = array.array("i")
        for _level, _type, content in extra:
            descriptors.frombytes(content)
        if flags & socket.MSG_CTRUNC:  # the kernel hands over those that there is room for
            close(descriptors)
            raise too_many_open_files()
        return json.loads(message) if message else {}, list(descriptors)

    def _error(self, answer: Mapping[str, str]) -> WritewiseError:
        failure, about = answer.get("failure", ""), answer.get("about", "")
        if failure in _FAILURES and not any(words in about for words in _NO_MEMORY):
            message, hint = _FAILURES[failure]
            return RequirementError(message.format(about), hint)
        code = 0 if answer else self._process.wait()
        self._chatter.seek(0)
        return load_error(about, self._chatter.read().decode(errors="replace"), code)


def _start_compiler(its_end: socket.socket, chatter: IO[bytes]) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C does not tear what is held back from it here."""
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
    functions: dict[str, list[str]] = {}  # of different probes together
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
    """Return what BCC said in one sentence, with the end of what the compiler or verifier said.

    `exit_code` is the compiler's if it ended without a reason, negative for a signal.
    """
    everything = f"{reason} {chatter}"
    if os.strerror(errno.EMFILE) in everything:
        return too_many_open_files()
    if any(words in everything for words in _NO_MEMORY) or exit_code == -signal.SIGKILL:
        return RequirementError("there is not enough memory to load the probes", _MEMORY)
    if "Operation not permitted" in everything or "super-user" in everything:
        message = "the kernel does not let this process load BPF programs"
        return RequirementError(message, _PRIVILEGES)
    said = " ".join(chatter.split())[-_CHATTER_CHARACTERS:]
    if exit_code:
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        reason = f"the compiler ended with {how}"
    reason = re.sub(r"\bb'([^']*)'", r"\1", reason)  # BCC shows bytes as Python writes them
    return RequirementError(f"the probes could not be loaded: {reason}", said or _DOCTOR)
