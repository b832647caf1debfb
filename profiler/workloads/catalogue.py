# SPDX-License-Identifier: Apache-2.0
"""Workloads as data: read from YAML, with all errors reported at once, and found by name.

A file is a list of mappings with the fields of Workload; sizes and times have units. A value is the
text as written, so YAML's type guesses do not matter and no object is constructed.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from contracts.shared.errors import InvalidFileError, UsageError
from contracts.shared.files import FileKind
from contracts.shared.text import printable, quoted, suggestion
from contracts.shared.units import parse_count, parse_latency_ns, parse_size_bytes

#: The shipped files, in the order of listing.
SHIPPED = ("synapse.yaml", "case-study.yaml", "small-files.yaml")
_FILE = FileKind("workload", 1 << 20, "see the examples in profiler/workloads")
_MAX_OBJECTS = 1_000_000
#: Hard links to a file: below EXT4_LINK_MAX (65,000, fs/ext4/ext4.h); XFS and Btrfs allow more.
MAX_LINKS = 60_000
#: The block size of most file systems, of which a file's allocation is a multiple.
_BLOCK_BYTES = 4096


@dataclass(frozen=True)
class Workload:
    """A set of objects, and the latency and rate of the S3 server that has them.

    There are `objects` files of `size_bytes` with `distinct` contents (more contents if a file
    cannot have as many hard links). With `shards`, the files are in this many TAR files. `workers`
    is the number of processes that pull, None for one per core. The server has
    `first_byte_latency_ns`, and `rate_bytes_per_s` per connection.
    """

    name: str
    what: str
    objects: int
    size_bytes: int
    distinct: int = 1
    shards: int | None = None
    workers: int | None = None
    first_byte_latency_ns: int = 20_000_000
    rate_bytes_per_s: int = 90_000_000

    @property
    def bytes(self) -> int:
        """Total size of all files, without TAR's headers."""
        return self.objects * self.size_bytes

    @property
    def contents(self) -> int:
        """Number of distinct contents; file N has content N modulo this."""
        return min(max(self.distinct, -(-self.objects // MAX_LINKS)), self.objects)

    @property
    def files_of_shards(self) -> tuple[range, ...]:
        """The file numbers in each shard."""
        count = min(self.shards or 0, self.objects)
        edges = [self.objects * edge // count for edge in range(count + 1)] if count else []
        return tuple(map(range, edges, edges[1:]))

    @property
    def pulled_bytes(self) -> int:
        """Space for its objects at the destination, in whole blocks, with TAR's headers."""
        if not self.shards:
            return self.objects * _rounded(self.size_bytes, _BLOCK_BYTES)
        entry_bytes = tarfile.BLOCKSIZE + _rounded(self.size_bytes, tarfile.BLOCKSIZE)
        ends_bytes = 2 * tarfile.BLOCKSIZE
        sizes = (
            _rounded(len(files) * entry_bytes + ends_bytes, tarfile.RECORDSIZE)
            for files in self.files_of_shards
        )
        return sum(_rounded(size_bytes, _BLOCK_BYTES) for size_bytes in sizes)

    @property
    def made_bytes(self) -> int:
        """Space for its objects at the source, where hard links take none and shards their size."""
        contents_bytes = self.contents * _rounded(self.size_bytes, _BLOCK_BYTES)
        return contents_bytes + (self.pulled_bytes if self.shards else 0)


def _rounded(size_bytes: int, unit_bytes: int) -> int:
    return -(-size_bytes // unit_bytes) * unit_bytes


def _word(text: str) -> str:
    if not text or text != printable(text):
        raise ValueError("must be text")
    return text


def _count(text: str) -> int:
    number = parse_count(text)
    if not 1 <= number <= _MAX_OBJECTS:
        raise ValueError(f"must be 1 to {_MAX_OBJECTS}")
    return number


def _size(text: str) -> int:
    size_bytes = parse_size_bytes(text)
    if size_bytes == 0:
        raise ValueError("must be more than 0")
    return size_bytes


#: Name in the file → Workload's field, and the parser of the value.
_FIELDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "name": ("name", _word),
    "what": ("what", _word),
    "objects": ("objects", _count),
    "size": ("size_bytes", _size),
    "distinct": ("distinct", _count),
    "shards": ("shards", _count),
    "workers": ("workers", _count),
    "first_byte_latency": ("first_byte_latency_ns", parse_latency_ns),
    "rate_per_connection": ("rate_bytes_per_s", parse_size_bytes),
}
_NEEDED = {field.name for field in fields(Workload) if field.default is MISSING}


def shipped_workloads() -> tuple[Workload, ...]:
    """Return all workloads that come with Writewise."""
    folder = Path(__file__).parent
    return tuple(each for name in SHIPPED for each in load_workloads(str(folder / name)))


def find_workload(name: str) -> Workload:
    """Return the workload with this name, or the only one in a YAML file. Raises UsageError."""
    if name.endswith((".yaml", ".yml")):
        found = load_workloads(name)
        if len(found) == 1:
            return found[0]
        raise UsageError(
            f"{printable(name)} has {len(found)} workloads", "use a file with a single workload"
        )
    by_name = {workload.name: workload for workload in shipped_workloads()}
    if name not in by_name:
        hint = suggestion(name, by_name)
        raise UsageError(
            f"unknown workload {quoted(name)}{', ' + hint if hint else ''}",
            f"workloads are {', '.join(by_name)}, or a YAML file with one workload",
        )
    return by_name[name]


def load_workloads(path: str) -> tuple[Workload, ...]:
    """Read a file. Raises UsageError; InvalidFileError lists every error with its place."""
    problems: list[str] = []
    items = enumerate(_compose(_FILE.read_text(path), printable(path)))
    parsed = [_parse(item, f"[{number}]", problems) for number, item in items]
    if problems:
        raise InvalidFileError(printable(path), problems)
    return tuple(Workload(**values) for values in parsed)


def _compose(text: str, source: str) -> list[yaml.Node]:
    """Return the nodes of the list, without expanding aliases. Raises InvalidFileError."""
    try:
        document = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        place = "" if line is None else f"line {line + 1}: "
        raise InvalidFileError(source, [f"{place}invalid YAML"]) from None
    if not isinstance(document, yaml.SequenceNode) or not document.value:
        raise InvalidFileError(source, ["must be a list of workloads"])
    nodes: list[yaml.Node] = document.value
    return nodes


def _text(node: yaml.Node) -> str:
    """Return one value. Raises ValueError for a list or mapping, which aliases can make endless."""
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError("must be one value")
    return str(node.value)


def _parse(item: yaml.Node, place: str, problems: list[str]) -> dict[str, Any]:
    """Return the fields of one workload, and append its errors to `problems`."""
    if not isinstance(item, yaml.MappingNode):
        problems.append(f"{place}: must be a mapping")
        return {}
    values: dict[str, Any] = {}
    for key, value in item.value:
        name = printable(key.value) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
        if name not in _FIELDS:
            problems.append(f"{place}.{name}: unknown field")
            continue
        field, read = _FIELDS[name]
        if field in values:
            problems.append(f"{place}.{name}: appears twice")
            continue
        try:
            values[field] = read(_text(value))
        except ValueError as error:
            problems.append(f"{place}.{name}: {error}")
            values[field] = None
    missing = [name for name, (field, _) in _FIELDS.items() if field in _NEEDED - set(values)]
    problems += [f"{place}.{name}: is missing" for name in missing]
    return values
