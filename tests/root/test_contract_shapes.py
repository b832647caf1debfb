# SPDX-License-Identifier: Apache-2.0
"""Every shape of contract loads and counts: the verifier follows different paths for each.

A kernel before 6.8 forgets the bounds of a register that was saved on the stack, and which ones
clang saves depends on the shape. So shapes are loaded up to the limits, in each scope that has
different code.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contracts.model import MAX_SLOTS, CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf.filter import ScopeFilter
from profiler.bpf.session import ProfileSession

pytestmark = pytest.mark.side_by_side

DATA = (CallType.READ, CallType.WRITE)
#: The default contract's kind, reads and writes, all kinds, and each other kind alone.
KINDS = {
    "write": (CallType.WRITE,),
    "data": DATA,
    "all": tuple(CallType),
    **{kind.value: (kind,) for kind in CallType if kind is not CallType.WRITE},
}
SIZE_STEP_BYTES = 4096
#: Paths (0: the root alone), sizes of each, and types of calls.
SHAPES = [
    *((0, 1, name) for name in KINDS),
    *((0, sizes, "write") for sizes in (2, 3, 5, MAX_SLOTS - 1, MAX_SLOTS)),
    *((0, sizes, "all") for sizes in (3, MAX_SLOTS)),
    *((paths, 1, name) for paths in (1, 2, MAX_SLOTS) for name in ("write", "all")),
    *((1, sizes, "write") for sizes in (2, 3, MAX_SLOTS)),
    *((paths, MAX_SLOTS // paths, "data") for paths in (2, 8)),
    (1, 3, "all"),
    (8, 4, "all"),
]


def contract(folder: Path, paths: int, sizes: int, kinds: tuple[CallType, ...]) -> Contract:
    places = [folder / f"place{number}" for number in range(paths)]
    for place in places:
        place.mkdir()
    slots = [
        (place, SizeRange(size * SIZE_STEP_BYTES, (size + 1) * SIZE_STEP_BYTES - 1))
        for place in places or [Path("/")]
        for size in range(sizes)
    ]
    rules = [
        Rule(f"rule{at}", str(place), kinds, size_range, Measurement.COUNT, 1)
        for at, (place, size_range) in enumerate(slots)
    ]
    return Contract(10**9, tuple(rules))


def write_below(folder: Path, size_bytes: int) -> None:
    descriptor = os.open(folder / "file", os.O_CREAT | os.O_WRONLY)
    try:
        assert os.write(descriptor, b"x" * size_bytes) == size_bytes
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("paths", "sizes", "name"), SHAPES)
def test_every_shape_loads_and_counts(paths: int, sizes: int, name: str, tmp_path: Path) -> None:
    kinds = KINDS[name]
    asked = contract(tmp_path, paths, sizes, kinds)
    folder = tmp_path / f"place{paths - 1}" if paths else tmp_path
    size_bytes = (sizes - 1) * SIZE_STEP_BYTES + 100  # the last path's last range
    with ProfileSession(asked) as session:
        session.track(os.getpid())
        write_below(folder, size_bytes)
        snapshot = session.snapshot()
    assert snapshot.losses.total == 0
    counted_bytes = snapshot.stats[-1].bytes
    if CallType.READ in kinds and not paths:
        assert counted_bytes >= size_bytes  # reads of this process elsewhere count, too
    elif CallType.WRITE in kinds:
        assert counted_bytes == size_bytes


@pytest.mark.parametrize("scope_filter", [None, ScopeFilter(comm="nobody")], ids=["all", "comm"])
@pytest.mark.parametrize(("paths", "sizes"), [(0, 1), (0, 3), (2, 1), (2, 3)])
def test_every_scope_loads(
    paths: int, sizes: int, scope_filter: ScopeFilter | None, tmp_path: Path
) -> None:
    asked = contract(tmp_path, paths, sizes, DATA)
    with ProfileSession(asked, host_wide=True, scope_filter=scope_filter) as session:
        write_below(tmp_path, 100)
        snapshot = session.snapshot()
    assert snapshot.losses.total == 0
    assert scope_filter is None or snapshot.stats[0].count == 0
