# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of everything read from foreign files, with atheris.

`pip install atheris`, then: python -m tests.fuzz.fuzz_files PARSER [SECONDS]. It is not part of the
tests: these check properties in tests/unit/test_*_properties.py, without a package of 35 MB that
few Python versions have (atheris 3.0: 3.11 to 3.13, x86-64).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["contracts", "sysctl"]):
    from contracts import mistral, yaml_file
    from contracts.shared.errors import WritewiseError
    from sysctl.advice.advise import advise
    from sysctl.change.recommendation_file import parse_recommendation
    from sysctl.evidence import results
    from sysctl.host.mount_table import parse_mountinfo

_FOLDER = tempfile.TemporaryDirectory(prefix="writewise-fuzz-")


def _of_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        path = Path(_FOLDER.name, "file")
        path.write_bytes(data)
        return read(path)

    return parse


#: By name, functions that take any bytes and may raise only a WritewiseError.
PARSERS: dict[str, Callable[[bytes], object]] = {
    "mistral": lambda data: mistral.parse(data.decode(errors="replace"), "fuzz"),
    "yaml": lambda data: yaml_file.parse(data.decode(errors="replace"), "fuzz"),
    "mountinfo": lambda data: parse_mountinfo(data.decode(errors="surrogateescape")),
    "results": _of_file(lambda path: advise(results.load(path))),
    "recommendation": lambda data: parse_recommendation(data.decode(errors="replace"), "fuzz"),
}
_TESTS = Path(__file__).parents[1]
#: Good files to begin with, if there are some.
SEEDS = {
    "mistral": (_TESTS / "unit/data/contracts/good", "*.mistral"),
    "yaml": (_TESTS / "unit/data/contracts/good", "*.yaml"),
    "results": (_TESTS / "unit/data", "results-*.json"),
}


def _corpus(name: str) -> str:
    """Make a new folder with the good files."""
    folder = Path(_FOLDER.name, "corpus")
    folder.mkdir()
    source, pattern = SEEDS.get(name, (_TESTS, "no-seeds"))
    for path in source.glob(pattern):
        shutil.copy(path, folder)
    return str(folder)


def main() -> None:
    """Fuzz the parser that the first argument names, for the given seconds (default 60)."""
    name, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
    parse = PARSERS[name]

    def one(data: bytes) -> None:
        try:
            parse(data)
        except WritewiseError:
            return

    options = [f"-max_total_time={seconds}", "-max_len=65536", "-timeout=10", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *options, _corpus(name)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
