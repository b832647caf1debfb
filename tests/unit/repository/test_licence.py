# SPDX-License-Identifier: Apache-2.0
"""Every source file says its licence in one line, and the texts are there."""

from __future__ import annotations

import pytest

from tests.places import REPOSITORY

APACHE = "SPDX-License-Identifier: Apache-2.0"
BOTH = "SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0"
FOLDERS = ("contracts", "sysctl", "profiler", "tests", "tools")
FILES = [
    path
    for folder in FOLDERS
    for path in sorted((REPOSITORY / folder).rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
]


def is_source(path):
    if path.suffix in (".py", ".c", ".h", ".sh"):
        return True
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def is_bpf(path):
    """What becomes a part of a program in the kernel."""
    name = str(path.relative_to(REPOSITORY))
    return name.endswith((".bpf.c", ".bpf.h")) or name.startswith("profiler/bpf/headers/")


SOURCES = [REPOSITORY / "setup.py", *filter(is_source, FILES)]


def test_the_sources_were_found():
    names = {str(path.relative_to(REPOSITORY)) for path in SOURCES}
    assert {"setup.py", "tools/setup", "profiler/cli/main.py"} < names
    assert sum(map(is_bpf, SOURCES)) > 15


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_source_file_has_its_line(path):
    first = path.read_text().split("\n", 2)[:2]
    mark = "// " if path.suffix in (".c", ".h") else "# "
    assert mark + (BOTH if is_bpf(path) else APACHE) in first


def test_the_kernel_is_given_a_licence_that_it_takes():
    """Helpers that are for GPL programs alone refuse any other (`bpf_prog_load()`)."""
    text = (REPOSITORY / "profiler/bpf/syscall.py").read_text()
    assert text.count('b"GPL"') == 1


def test_the_texts_are_there():
    assert (REPOSITORY / "LICENSE").read_text().lstrip().startswith("Apache License\n")
    assert "GNU GENERAL PUBLIC LICENSE" in (REPOSITORY / "LICENSES/GPL-2.0-only.txt").read_text()
