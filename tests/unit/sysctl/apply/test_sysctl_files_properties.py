# SPDX-License-Identifier: Apache-2.0
"""Files of sysctl.d with any text: they set something or nothing, quickly and without traceback."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from contracts.shared.text import is_unprintable
from sysctl.apply.sysctl_files import DIRECTORIES, assignments, files_in_order, rivals
from sysctl.host.system import System
from sysctl.knobs.vm import KNOBS

NAMES = [knob.name for knob in KNOBS]
PIECES = st.sampled_from(
    [
        *NAMES,
        *("vm/dirty_ratio", "vm.*", "*", "[z-a]", "[", "[!", "?", "-", "=", " = ", "\n", "\r\n"),
        *("#", ";", "0", "40", "\t", "\0", "\x1b[31m", "\x85", "\u2028", "\\", "-vm.dirty_ratio"),
    ]
)
CONTENTS = st.one_of(
    st.binary(max_size=200),
    st.lists(PIECES, max_size=30).map(lambda words: "".join(words).encode()),
)
#: A line that sets something, in each allowed form.
SPELLINGS = st.builds(
    lambda name, slashes, ignores, blank: (
        f"{blank}{'-' * ignores}{name.replace('.', '/') if slashes else name}{blank}={blank}"
    ),
    *(st.sampled_from(NAMES), st.booleans(), st.booleans(), st.sampled_from(["", " ", "\t"])),
)


@contextmanager
def host_with(files: dict[str, bytes]) -> Iterator[System]:
    with tempfile.TemporaryDirectory() as root:
        for name, content in files.items():
            path = Path(root, name.lstrip("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield System(Path(root))


@given(CONTENTS, CONTENTS)
@example(b"[z-a] = 1", b"\xff = 1")
@example(b"*" * 1000 + b"= 1", b"[" * 1000)
def test_any_text_is_read(one: bytes, other: bytes) -> None:
    files = {f"{DIRECTORIES[0]}/50-a.conf": one, "/etc/sysctl.conf": other}
    with host_with(files) as system:
        for found in assignments(system, NAMES):
            assert found.name in NAMES
            assert not any(map(is_unprintable, str(found)))
        rivals(system, NAMES)


@given(SPELLINGS, st.integers(0, 2**63), CONTENTS)
def test_the_setting_of_the_last_file_is_found_after_any_text(
    spelling: str, value: int, before: bytes
) -> None:
    line = f"{spelling}{value}".encode()
    files = {f"{DIRECTORIES[-1]}/10-a.conf": before, f"{DIRECTORIES[0]}/99-z.conf": line}
    name = spelling.strip().lstrip("-").split("=")[0].strip().replace("/", ".")
    with host_with(files) as system:
        last = assignments(system, [name])[-1]
    assert (last.path, last.line) == (f"{DIRECTORIES[0]}/99-z.conf", 1)
    assert last.value == str(value)


@given(st.lists(st.text(alphabet="ab-.0", min_size=1, max_size=6), max_size=6))
def test_files_are_read_in_the_order_of_their_names(stems: list[str]) -> None:
    names = {f"{stem}.conf" for stem in stems}
    with host_with({f"{DIRECTORIES[0]}/{name}": b"" for name in names}) as system:
        order = [path.rpartition("/")[2] for path in files_in_order(system)]
    assert order == sorted(names, key=str.encode)


def test_many_stars_are_matched_quickly() -> None:
    """A naive matcher would follow this glob down every branch."""
    hostile = b"".join(b"*a" * 30 + b"b%d = 1\n" % number for number in range(1000))
    with host_with({f"{DIRECTORIES[0]}/50-a.conf": hostile}) as system:
        start = time.process_time()
        assert assignments(system, NAMES) == []
        assert time.process_time() - start < 5
