"""Compiles, loads, attaches and detaches probes: the only module that imports bcc.

BCC wants kernel headers and a mounted tracefs. The headers are our own few (`headers/`). Where
tracefs is not mounted it is, in a mount namespace that one thread makes for itself, compiles and
attaches in, and takes with it when it ends: nobody else ever sees the mount, and none is left
behind however the process dies. What is attached lives on as file descriptors.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import itertools
import mmap
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from contracts.errors import RequirementError, WritewiseError
from profiler.bpf.btf import Btf
from profiler.bpf.probe import PROBES_FOLDER, Probe
from sysctl.host.signals import signals_held_back

HEADERS_FOLDER = Path(__file__).parent / "headers"
TRACEFS = Path("/sys/kernel/tracing")
#: The first one that is there is what BCC looks into (bcc 0.26, src/cc/common.cc, tracefs_path).
TRACEFS_OF_BCC = (Path("/sys/kernel/debug/tracing"), TRACEFS)

_CLONE_NEWNS = 0x20000  # include/uapi/linux/sched.h
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
_BPF_NOEXIST = 1  # include/uapi/linux/bpf.h
_CHATTER_CHARACTERS = 400
_DOCTOR = "run `writewise doctor` to see what this host lacks"
_PRIVILEGES = "run as root with CAP_SYS_ADMIN, outside a container that holds it back"

_T = TypeVar("_T")


def load(probes: Sequence[Probe], numbers: Mapping[str, int]) -> Module:
    """Compile the probes into one module, load it and attach it to all their tracepoints.

    `numbers` become the C's macros of that name, beside the offsets that the probes ask for.
    Raises RequirementError when the host lacks BTF, bcc, a tracepoint or the right to load.
    """
    macros = {**numbers, **_offsets(probes)}
    cflags = ["-w", *(f"-D{name}={value}" for name, value in macros.items())]
    files = dict.fromkeys(source for probe in probes for source in probe.sources)
    text = "\n".join((PROBES_FOLDER / file).read_text(encoding="utf-8") for file in files)
    with contextlib.ExitStack() as on_failure:
        with _descriptors_left(), signals_held_back():
            work = functools.partial(_compile_and_attach, text, cflags, probes)
            module = on_failure.enter_context(Module(_in_own_thread(work)))
        on_failure.pop_all()
    return module


class Module:
    """Probes at work, until `close`, which may be called twice; a context manager."""

    def __init__(self, bpf: Any) -> None:
        self._bpf = bpf
        self._views: list[tuple[mmap.mmap, memoryview[int]]] = []

    def __enter__(self) -> Module:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map_words(self, name: str, word_format: Literal["Q", "I"] = "Q") -> memoryview[int]:
        """A mappable array as words (`Q` 64 bits, `I` 32), the kernel's own memory, to write too.

        It is valid until `close`.
        """
        table = self._table(name)
        size_bytes = int(table.max_entries) * ctypes.sizeof(table.Leaf)
        with _descriptors_left():  # mmap keeps a duplicate of the map's
            mapped = mmap.mmap(table.map_fd, size_bytes, mmap.MAP_SHARED)
        words: memoryview[int] = memoryview(mapped).cast(word_format)
        self._views.append((mapped, words))
        return words

    def insert(self, name: str, key: bytes, leaf: bytes) -> bool:
        """Add an entry to a hash; False when it is there already. Raises OSError (E2BIG: full)."""
        from bcc import libbcc

        if libbcc.lib.bpf_update_elem(self._table(name).map_fd, key, leaf, _BPF_NOEXIST) == 0:
            return True
        number = ctypes.get_errno()
        with contextlib.suppress(FileExistsError):
            raise OSError(number, os.strerror(number))
        return False

    def remove(self, name: str, key: bytes) -> None:
        """Take an entry out of a hash; nothing happens when it is not there."""
        from bcc import libbcc

        libbcc.lib.bpf_delete_elem(self._table(name).map_fd, key)

    def size(self, name: str) -> int:
        """Number of entries of a hash now. It walks the keys, which keeps no probe from running."""
        table = self._table(name)
        keys = itertools.islice(table, int(table.max_entries))  # ends, though some come and go
        return len({key.value for key in keys})

    def _table(self, name: str) -> Any:
        return self._bpf[name.encode()]

    def runs_missed(self, but_of: Collection[str] = ()) -> int:
        """Runs that the kernel left out because a BPF program was active on the CPU.

        `but_of` are the functions whose runs are no loss. A kernel before about 6.7 does not tell
        (`scope.Losses`).
        """
        counted = (f for name, f in self._bpf.funcs.items() if name.decode() not in but_of)
        return sum(_recursion_misses(function.fd) for function in counted)

    def close(self) -> None:
        """Detach everything and give all descriptors back, to the end even if signals come."""
        if self._bpf is None:
            return
        for mapped, words in self._views:
            words.release()
            mapped.close()
        with signals_held_back():
            _detach(self._bpf)
            self._bpf = None


def _offsets(probes: Sequence[Probe]) -> dict[str, int]:
    members = {macro: path for probe in probes for macro, path in probe.members.items()}
    if not members:
        return {}
    btf = Btf.of_kernel()
    return {macro: _offset(btf, macro, path) for macro, path in members.items()}


def _offset(btf: Btf, macro: str, path: tuple[str, ...]) -> int:
    return btf.offset_bits(*path) % 8 if macro.startswith("BIT_") else btf.offset_bytes(*path)


def _recursion_misses(program_fd: int) -> int:
    """From the program's fdinfo (kernel/bpf/syscall.c, bpf_prog_show_fdinfo)."""
    lines = Path(f"/proc/self/fdinfo/{program_fd}").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields.get("recursion_misses", "0"))


def _in_own_thread(work: Callable[[], _T]) -> _T:
    """Run `work` in a thread of its own; to be called while signals are held back."""
    results: list[_T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="probe-loader")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def _see_tracefs() -> None:
    """Part from the other threads' mounts and working directory, and mount tracefs if need be.

    Even where it is mounted: to look into debugfs has the kernel mount tracefs there, and BCC
    changes the working directory (CLONE_NEWNS parts from that too).
    """
    _system_call("unshare", _CLONE_NEWNS)
    _system_call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    if any((path / "events").is_dir() for path in TRACEFS_OF_BCC):
        return
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _system_call("mount", b"tracefs", os.fsencode(TRACEFS), b"tracefs", flags, None)


def _system_call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise RequirementError(f"tracefs cannot be reached: {name}() says {reason}", _PRIVILEGES)


def _compile_and_attach(text: str, cflags: list[str], probes: Sequence[Probe]) -> Any:
    """A BCC module with a program on each of the probes' tracepoints, and on no other.

    In a thread of its own, whose tracefs and working directory are its own too.
    """
    _see_tracefs()
    functions = _functions_here(probes)
    wanted = {n for probe in probes for n in (*probe.tracepoints, *probe.raw_tracepoints)}
    wanted.update(name for names in functions.values() for name in names)
    bcc_class = _bcc_class()
    with tempfile.TemporaryFile() as chatter, contextlib.ExitStack() as on_failure:
        try:
            with _stderr_to(chatter.fileno()), _environment(BCC_KERNEL_SOURCE=str(HEADERS_FOLDER)):
                bpf = bcc_class(text=text.encode(), cflags=cflags)
                on_failure.callback(_detach, bpf)
                for function, names in functions.items():
                    for name in names:
                        bpf.attach_tracepoint(tp=name.encode(), fn_name=function.encode())
        except Exception as error:  # BCC raises nothing more precise
            chatter.seek(0)
            raise _load_error(error, chatter.read().decode(errors="replace")) from None
        attached = {name.decode() for name in (*bpf.tracepoint_fds, *bpf.raw_tracepoint_fds)}
        if attached != wanted:
            missed = ", ".join(sorted(attached ^ wanted))
            raise RequirementError(f"the probes did not attach as they should: {missed}", _DOCTOR)
        on_failure.pop_all()
    return bpf


def _functions_here(probes: Sequence[Probe]) -> dict[str, list[str]]:
    """The tracepoints of each shared program that this kernel has; of different probes together.

    Raises RequirementError when it lacks one that is not optional.
    """
    events = next(path / "events" for path in TRACEFS_OF_BCC if (path / "events").is_dir())
    functions: dict[str, list[str]] = {}
    for probe in probes:
        shared = [name for names in probe.functions.values() for name in names]
        here = {n for n in (*probe.tracepoints, *shared) if _is_there(events, n, probe)}
        for function, names in probe.functions.items():
            functions.setdefault(function, []).extend(name for name in names if name in here)
    return functions


def _is_there(events: Path, name: str, probe: Probe) -> bool:
    if events.joinpath(*name.split(":")).is_dir():
        return True
    if name in probe.optional:
        return False
    hint = "Writewise needs a kernel with CONFIG_FTRACE_SYSCALLS and event tracing"
    raise RequirementError(f"this kernel has no tracepoint {name}", hint)


def _detach(bpf: Any) -> None:
    import atexit

    bpf.cleanup()
    atexit.unregister(bpf.cleanup)  # else BCC keeps the module until the process ends


def _bcc_class() -> Any:
    try:
        from bcc import BPF
    except (ImportError, OSError) as error:
        raise RequirementError(f"BCC's Python binding is not usable: {error}", _DOCTOR) from None
    return BPF


@contextlib.contextmanager
def _descriptors_left() -> Iterator[None]:
    """Say what to do when this process has no file descriptors left. Raises WritewiseError."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        raise _too_many_open_files() from None


def _too_many_open_files() -> WritewiseError:
    hint = "raise the limit of this shell: ulimit -n 1024"
    return WritewiseError("too many files are open to load the probes", hint)


def _load_error(error: Exception, chatter: str) -> WritewiseError:
    """The exception in one sentence, with the end of what the compiler or verifier said."""
    if os.strerror(errno.EMFILE) in f"{error} {chatter}":
        return _too_many_open_files()
    if "Operation not permitted" in f"{error} {chatter}":
        message = "the kernel does not let this process load BPF programs"
        return RequirementError(message, _PRIVILEGES)
    said = " ".join(chatter.split())[-_CHATTER_CHARACTERS:]
    reason = re.sub(r"\bb'([^']*)'", r"\1", str(error))  # BCC shows bytes as Python writes them
    return RequirementError(f"the probes could not be loaded: {reason}", said or _DOCTOR)


@contextlib.contextmanager
def _stderr_to(descriptor: int) -> Iterator[None]:
    """Send what the process writes to stderr elsewhere: BCC's C++ prints to it and nowhere else."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Environment variables for the duration; what the process starts later does not see them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
