# SPDX-License-Identifier: Apache-2.0
"""The transfer settings of a pull, each as data, under boto3's names.

They change nothing on a host: a trial passes them to the pull, and nothing must be restored.
Semantics and defaults: boto3's `TransferConfig` and s3transfer's `TransferManager`, as of 1.44 and
0.19.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contracts.shared.text import quoted
from contracts.shared.units import exact_size

#: The pull client that has these settings and is measured with them: one TransferManager.
TRANSFER_CLIENT = "transfer-manager"

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class TransferKnob:
    """One setting: range, default, effect; sizes are in bytes.

    `sweep` are the values that a sweep of transfer settings tries; of a size only those up to the
    first that the largest object fits into. A switch is 0 or 1.
    """

    name: str
    default: int
    minimum: int
    maximum: int
    what: str
    sweep: tuple[int, ...]
    is_size: bool = False
    is_switch: bool = False

    def takes(self, value: object) -> bool:
        """Return whether `value` is valid; in JSON a switch may also be true or false."""
        if isinstance(value, bool):
            return self.is_switch
        return isinstance(value, int) and self.minimum <= value <= self.maximum

    def text(self, value: int) -> str:
        """Return `8MiB`, `20` or `true`, which `--transfer` parses to the same value."""
        if self.is_switch:
            return str(bool(value)).lower()
        return exact_size(value) if self.is_size else str(value)


TRANSFER_KNOBS: tuple[TransferKnob, ...] = (
    TransferKnob(
        name="max_concurrency",
        default=10,
        minimum=1,
        maximum=1000,
        what="threads per worker that fetch parts of objects",
        sweep=(5, 10, 20, 40, 80, 160, 320),
    ),
    TransferKnob(
        name="multipart_chunksize",
        default=8 * _MIB,
        minimum=64 * _KIB,
        maximum=10 * _GIB,
        what="bytes per request",
        sweep=tuple(2**power * _MIB for power in range(8)),
        is_size=True,
    ),
    TransferKnob(
        name="io_chunksize",
        default=256 * _KIB,
        minimum=1000,
        maximum=_GIB,
        what="bytes per write call, in which a writer may be throttled",
        sweep=(64 * _KIB, 256 * _KIB, _MIB, 4 * _MIB, 16 * _MIB),
        is_size=True,
    ),
    TransferKnob(
        name="max_io_queue",
        default=100,
        minimum=1,
        maximum=1_000_000,
        what="chunks that may be queued in memory for the writing thread",
        sweep=(100, 1000, 10_000),
    ),
    TransferKnob(
        name="multipart_threshold",
        default=8 * _MIB,
        minimum=1,
        maximum=10 * _GIB,
        what="size in bytes from which an object is fetched in parts",
        sweep=(_MIB, 8 * _MIB, 64 * _MIB, 512 * _MIB),
        is_size=True,
    ),
    TransferKnob(
        name="use_threads",
        default=1,
        minimum=0,
        maximum=1,
        what="whether threads fetch the parts",
        sweep=(0, 1),
        is_switch=True,
    ),
)
TRANSFER_BY_NAME = {knob.name: knob for knob in TRANSFER_KNOBS}
#: The settings that a sweep varies by default: those that matter for a pull of many parts.
SWEPT_BY_DEFAULT = ("max_concurrency", "multipart_chunksize", "io_chunksize", "max_io_queue")


def transfer_words(values: Mapping[str, int]) -> str:
    """Return `--client transfer-manager --transfer max_concurrency=20`: the options of a pull."""
    return f"--client {TRANSFER_CLIENT} --transfer {transfer_text(values)}"


def transfer_text(values: Mapping[str, int]) -> str:
    """Return `max_concurrency=20,io_chunksize=1MiB`, which `--transfer` parses."""
    return ",".join(f"{name}={TRANSFER_BY_NAME[name].text(v)}" for name, v in values.items())


def transfer_problems(values: Mapping[str, object]) -> list[str]:
    """Return a sentence for each invalid setting."""
    problems = []
    for name, value in values.items():
        knob = TRANSFER_BY_NAME.get(name)
        if knob is None:
            problems.append(f"unknown transfer setting {quoted(name[:40])}")
        elif not knob.takes(value):
            problems.append(f"{name} is not a whole number from {knob.minimum} to {knob.maximum}")
    return problems
