# SPDX-License-Identifier: Apache-2.0
"""The end of every profile: is it write-back, which writers are affected, what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from contracts.causes import Cause
from contracts.shared.text import printable
from contracts.shared.units import counted, format_duration, format_size
from profiler.bpf.disks import read_mounts
from profiler.report.console import print_lines
from profiler.report.next_steps import NextStep, command, print_next
from profiler.report.over_limit import exceeded_text
from profiler.watch.causes import WhyInputs
from profiler.watch.verdict import Answer, Share, WriteBackVerdict, verdict_of
from sysctl.evidence.over_limit import most_limited

_SYSFS = Path("/sys")
_COLUMN = 10
_SHOWN = 4
#: What the writes waited for, if the answer is not one of the named ones.
_OTHER = {
    Cause.SLEEPING: "for a lock, the journal or memory",
    Cause.QUEUED: "for a CPU",
    Cause.ASYNCHRONOUS: "in io_uring",
}


def verdict_here(why: WhyInputs) -> WriteBackVerdict | None:
    """Return the answer with the volumes of this host; None without a rule of writes."""
    return verdict_of(why, read_mounts(), _SYSFS)


def print_verdict(verdict: WriteBackVerdict, why: WhyInputs, console: Console) -> None:
    """Print the answer, volumes and commands, and what to do next."""
    console.print()
    print_lines([f"Verdict: {sentence(verdict, why)}"], console, "bold")
    for title, shares in (("Volumes", verdict.volumes), ("Commands", verdict.commands)):
        if shares:
            print_lines([title.ljust(_COLUMN) + _shares_text(shares)], console, hanging=_COLUMN)
    print_next([_next_step(verdict, why)], console)


def verdict_document(verdict: WriteBackVerdict | None, why: WhyInputs) -> dict[str, object] | None:
    """The verdict as plain data; times in ns, shares 0 to 1."""
    if verdict is None:
        return None
    return {
        "answer": verdict.answer.value,
        "sentence": sentence(verdict, why),
        "waited_ns": verdict.waited_ns,
        "in_calls_ns": verdict.of_ns,
        "volumes": [vars(each) for each in verdict.volumes],
        "commands": [vars(each) for each in verdict.commands],
    }


def sentence(verdict: WriteBackVerdict, why: WhyInputs) -> str:
    """Return the answer in one sentence."""
    waited, elapsed = format_duration(verdict.waited_ns), format_duration(why.elapsed_ns)
    who = counted(why.writers, "writer") if why.writers else "writers"
    return {
        Answer.WRITE_BACK: (
            f"yes, it is write-back. In {elapsed}, {who} slept {waited} in all because too much "
            f"data was not yet on the device (balance_dirty_pages){_share(verdict)}."
        ),
        Answer.DEVICE: (
            f"no, it is the device. In {elapsed}, {who} waited {waited} in all for it: they write "
            "past the page cache (O_DIRECT, O_SYNC), or blocks had to be read first."
        ),
        Answer.FSYNC: (
            f"no, it is fsync. In {elapsed}, threads spent {waited} in all in fsync calls, which "
            "return only once data is on the device."
        ),
        Answer.OTHER: (
            f"no, it is not write-back. In {elapsed}, {who} waited {waited} in all "
            f"{_OTHER.get(verdict.cause or Cause.SLEEPING, '')}."
        ),
        Answer.NOTHING_WAITED: (
            f"no, nothing waited. In {elapsed}, {who} wrote {format_size(why.calls.bytes)} and "
            f"spent {format_duration(verdict.of_ns)} in write calls."
        ),
        Answer.NOT_WRITING: f"no, nothing was written in {elapsed}.",
    }[verdict.answer]


def _share(verdict: WriteBackVerdict) -> str:
    """Return how a sentence continues: `, 87% of their time in write calls`, if it was there."""
    if not 0 < verdict.waited_ns <= verdict.of_ns:
        return ""
    return f", {verdict.waited_ns / verdict.of_ns:.0%} of their time in write calls"


def _shares_text(shares: Sequence[Share]) -> str:
    return ", ".join(_share_texts(shares))


def _share_texts(shares: Sequence[Share]) -> Iterator[str]:
    for each in shares[:_SHOWN]:
        yield f"{printable(each.name)} {each.share:.0%}"
    if len(shares) > _SHOWN:
        yield f"and {len(shares) - _SHOWN} more"


def _next_step(verdict: WriteBackVerdict, why: WhyInputs) -> NextStep:
    look = command("profile", as_root=True)
    over = most_limited(each for each in (use.over_limit for use in why.volumes) if each)
    if verdict.answer is Answer.DEVICE and over and over.main:
        exceeded = exceeded_text(over, over.main)
        return NextStep(
            command("plan"),
            f"{exceeded[:1].upper()}{exceeded[1:]}. It computes pulls with other volumes and "
            "instances.",
        )
    if verdict.answer is Answer.WRITE_BACK:
        targets = [each.name for each in verdict.volumes if each.name.startswith("/")]
        return NextStep(
            command("sweep", "s3://BUCKET/PREFIX", *(targets[:1] or ["DEST"]), as_root=True),
            "It measures which settings end the wait. Use the prefix that your job pulls.",
        )
    return {
        Answer.DEVICE: NextStep(
            "iostat -x 5",
            "See whether the volume is at its throughput or IOPS limit; a faster one helps.",
        ),
        Answer.FSYNC: NextStep(
            "", "Fewer fsyncs in the program, or a volume with a shorter latency, would help."
        ),
        Answer.OTHER: NextStep(
            command("profile", "--pid", "PID", as_root=True), "It profiles a single process."
        ),
        Answer.NOTHING_WAITED: NextStep(
            command("pull", "s3://BUCKET/PREFIX", "DEST", as_root=True),
            "If pulls are slow, this shows what slows a pull down.",
        ),
    }.get(verdict.answer, NextStep(look, "Look again while the job runs."))
