# SPDX-License-Identifier: Apache-2.0
"""Recommended changes for the tests of the snippets: a complete one and hostile texts."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import strategies as st

from contracts.shared.text import is_unprintable
from profiler.report.advised_change import change_of
from sysctl.advice.advise import Recommendation, advise
from sysctl.change.recommendation import (
    DiskAdvice,
    FstabLine,
    KnobAdvice,
    MountAdvice,
    RecommendedChange,
)
from tests.unit.sweeps import sweep


def change_in(recommendation: Recommendation) -> RecommendedChange:
    """Return the recommended change; fail if there is none."""
    change = change_of(recommendation)
    assert change is not None
    return change


EVERYTHING = replace(
    change_in(advise(sweep(backgrounds=(5,)))),
    mount=MountAdvice(
        *("/data", "/dev/nvme1n1", "xfs", ("noatime",), ("relatime",), ("nosuid",), "fewer writes"),
        FstabLine(
            "UUID=6f3e1f0a-7a39-4c9e-9a9c-0d6f1a2b3c4d",
            "xfs",
            ("nosuid", "relatime", "nofail", "x-systemd.device-timeout=5s"),
            0,
            2,
        ),
    ),
    disk=DiskAdvice(
        "/data",
        "/dev/nvme1n1",
        (
            KnobAdvice("queue/nr_requests", "512", "256", "more may wait"),
            KnobAdvice("queue/scheduler", "none", "mq-deadline", "the device sorts by itself"),
            KnobAdvice("bdi/min_bytes", "268435456", "0", "room for the pull"),
        ),
        "nvme1n1",
        "vol0123456789abcdef0",
        "nvme.1d0f-766f6c30-01",
    ),
    transfer={"max_concurrency": 20, "multipart_chunksize": 32 * 2**20, "io_chunksize": 2**20},
)
SYSCTLS = {"vm.dirty_ratio": 80, "vm.dirty_background_ratio": 5}

#: Characters that end a line, a string, a comment or a field in some format, or are replaced.
_PIECES = (
    *(" ", "\t", "\n", "\r", "\x0b", "\x85", "\u2028", "\\", "\\\n", "#", ";", "'", '"', "`", "|"),
    *("$(reboot)", "${x}", "%n", "%%", "{{ x }}", "{{resolve:ssm:x}}", "{% x %}", "{#", "}}", "]"),
    *("\x1b[2J", "\x00", "\u202e", "\u200b", "\ufeff", "\ufffe", "\udc80", "é", "\U0001f600", ","),
    *("--==WRITEWISE==", "kernel.core_pattern=|/x", "../", "- ", ": ", "&x", "*x", "!!python/x"),
    *("\nvm.swappiness = 0\n", '", RUN+="/x", ATTR{x}="', "\n[Mount]\nOptions=suid\n", "\\x20"),
    *("\\040", "\\", "\\134", ",suid", "=", "[a-z]", "?"),
)
nasty = st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=3)), max_size=5).map("".join)
_VISIBLE = tuple(piece for piece in _PIECES if not any(map(is_unprintable, piece)))
#: Paths; about half of them can be written in every format.
visible = st.lists(st.sampled_from(_VISIBLE), max_size=5).map("".join)
paths = st.one_of(nasty, visible).map("/mnt{}x".format)


@st.composite
def with_descriptive_text(draw):
    """Return `EVERYTHING` with another text in every field that only describes something."""
    evidence = EVERYTHING.evidence
    told = {f.name: draw(nasty) for f in fields(evidence) if f.type == "str"}
    told["class_key"] = draw(st.one_of(st.just(""), nasty))  # with a class, no host is shown
    knobs = tuple(
        replace(k, present=draw(nasty), reason=draw(nasty)) for k in EVERYTHING.disk.knobs
    )
    return replace(
        EVERYTHING,
        sysctls=tuple(replace(a, reason=draw(nasty)) for a in EVERYTHING.sysctls),
        evidence=replace(evidence, **told),
        mount=replace(EVERYTHING.mount, reason=draw(nasty)),
        disk=replace(EVERYTHING.disk, knobs=knobs, device=draw(nasty), target=draw(nasty)),
        other_form=replace(EVERYTHING.other_form, note=draw(nasty)),
    )


def mounted(target="/data", device="/dev/nvme1n1", words=("noatime",), **rest):
    """Return `EVERYTHING` with another mount, whose line in fstab names the device."""
    line = FstabLine(device, "xfs", ("nosuid",))
    changed = {"target": target, "device": device, "value": tuple(words), "fstab": line, **rest}
    return replace(EVERYTHING, mount=replace(EVERYTHING.mount, **changed))


def listed(options, words=("noatime",), source="UUID=1234-ABCD", dump=0, check=2, **rest):
    """Return the same with these options in its line in fstab."""
    line = FstabLine(source, "xfs", tuple(options.split(",")), dump, check)
    return mounted(words=words, fstab=line, **rest)


def text_of(renderer, change, at=0):
    """Return the text of a renderer's snippet."""
    return renderer.render(change)[at].text
