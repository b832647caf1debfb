"""The docs are true: commands parse, links lead somewhere, tables are the ones of the code.

With WRITEWISE_WRITE_DOCS set the generated tables are written instead of compared.
"""

from __future__ import annotations

import os
import re
import shlex

import pytest

from contracts.model import CallType
from profiler.bpf.session import SYSTEM_CALLS
from profiler.cli import commands
from profiler.cli.main import build_parser
from sysctl.knobs.catalogue import DEVICE_KNOBS
from sysctl.knobs.mount import OPTIONS, wide_texts
from sysctl.knobs.vm import KNOBS
from tests.places import REPOSITORY

DOCS = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown_commands():
    for path in DOCS:
        for block in BLOCK.findall(path.read_text()):
            for line in block.splitlines():
                command = line.removeprefix("$ ").removeprefix("sudo ").removeprefix(".venv/bin/")
                if command.startswith("writewise "):
                    yield pytest.param(command, id=f"{path.name}: {command}")


@pytest.mark.parametrize("command", shown_commands())
def test_every_command_shown_parses(command):
    build_parser().parse_args(shlex.split(command, comments=True)[1:])


def test_no_output_is_a_placeholder():
    for path in DOCS:
        for block in BLOCK.findall(path.read_text()):
            assert block.strip() not in ("", "OUTPUT", "TODO"), path.name


def test_make_targets_shown_exist():
    makefile = (REPOSITORY / "Makefile").read_text()
    text = "\n".join(path.read_text() for path in DOCS)
    shown = set(re.findall(r"^(?:sudo )?make ([a-z]+)\b|`(?:sudo )?make ([a-z]+)`", text, re.M))
    targets = {one or other for one, other in shown}
    assert {"demo", "test", "setup", "check"} <= targets
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_the_architecture_has_every_folder():
    text = (REPOSITORY / "docs/architecture.md").read_text()
    for package in ("contracts", "sysctl", "profiler"):
        for init in sorted((REPOSITORY / package).glob("*/__init__.py")):
            assert f"| {package}/{init.parent.name}/ |" in text


def test_links_and_paths_lead_somewhere():
    for path in DOCS:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
        for target in re.findall(
            r"`((?:sysctl|profiler|contracts|tests)/[\w/.]+)`", path.read_text()
        ):
            assert (REPOSITORY / target).exists(), f"{path.name}: {target}"


def anchors(path):
    """As a renderer makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_lead_to_headings():
    for path in DOCS:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text()):
            there = path.parent / target if target else path
            assert anchor in anchors(there), f"{path.name}: {target}#{anchor}"


def test_every_command_is_in_the_docs():
    text = "\n".join(path.read_text() for path in DOCS)
    shown = set(re.findall(r"(?:writewise|make) ([a-z-]+)", text))
    missing = [command.NAME for command in commands.ALL if command.NAME not in shown]
    assert missing == []


def knob_table():
    return [
        "| Sysctl | Range | Kernel default | What it sets | Risk of a higher value | Takes effect "
        "|",
        "|---|---|---|---|---|---|",
        *(
            f"| `{k.name}` | {k.minimum} to {k.maximum} {k.unit} | {k.kernel_default} | "
            f"{k.what} | {k.risk} | {k.takes} |"
            for k in KNOBS
        ),
        "",
        "Knobs of the destination's disk, where the kernel and the disk have them:",
        "",
        "| Knob | Flag | Range | Kernel default | What it sets | Risk | Takes effect |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| `{k.name}` | `{k.flag}` | {k.range} | {k.kernel_default} | {k.what} | {k.risk} | "
            f"{k.takes} |"
            for k in DEVICE_KNOBS
        ),
        "",
        "Tried by `--space wide`, beside the thresholds, one at a time: "
        + ", ".join(f"`{name}` {values}" for name, values in wide_values())
        + ".",
    ]


def wide_values():
    tried = [*((k.name, k.wide) for k in KNOBS), *((k.name, k.wide) for k in DEVICE_KNOBS)]
    knobs = [(name, " and ".join(map(str, values))) for name, values in tried]
    texts = " and ".join(dict.fromkeys((*wide_texts("xfs"), *wide_texts("ext4"))))
    return [*((name, values) for name, values in knobs if values), ("mount options", texts)]


def mount_table():
    rows = [
        f"| `{o.name}` | {', '.join(o.filesystems)} | {o.takes.value} | {o.note} | {o.risk} |"
        for o in OPTIONS
    ]
    return [
        "| Option | File system | Takes | What is known of it | Risk |",
        "|---|---|---|---|---|",
        *rows,
    ]


def call_table():
    rows = [
        f"| `{call_type.value}` | {', '.join(f'`{name}`' for name in SYSTEM_CALLS[call_type])} |"
        for call_type in CallType
    ]
    return [
        "| Call type | Counts the system calls (by their tracepoints' names) |",
        "|---|---|",
        *rows,
    ]


@pytest.mark.parametrize(
    ("name", "marker", "table"),
    [
        ("contracts.md", "system calls", call_table()),
        ("architecture.md", "knobs", knob_table()),
        ("writeback.md", "mount options", mount_table()),
    ],
)
def test_tables_are_those_of_the_code(name, marker, table):
    path = REPOSITORY / "docs" / name
    head, line, _ = path.read_text().partition(
        f"<!-- {marker}: generated by tests/unit/repository/test_docs.py -->\n"
    )
    wanted = head + line + "\n" + "\n".join(table) + "\n"
    if os.environ.get("WRITEWISE_WRITE_DOCS"):
        path.write_text(wanted)
    assert path.read_text() == wanted, "run again with WRITEWISE_WRITE_DOCS=1"
