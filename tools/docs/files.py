# SPDX-License-Identifier: Apache-2.0
"""docs/reference/files.md: the files that Writewise reads and writes, from the code's constants."""

from __future__ import annotations

from profiler.cli import demo, sweep, transfer
from profiler.fleet import ingest, record, tables, writing
from profiler.history import file as history
from sysctl.apply.persistence import PATHS
from sysctl.apply.units import RECOVERY_PATH
from sysctl.change import recommendation
from sysctl.evidence import results
from sysctl.host import governor_state
from sysctl.host.applied_host import REVERT_UNIT
from sysctl.host.host import (
    APPLIED,
    GOVERN,
    RUN,
    RUNTIME_DIRECTORY,
    STATE_DIRECTORY,
    WRITER,
)
from sysctl.render.formats import FORMATS
from sysctl.rollout import marker
from sysctl.rollout import plan as rollout_plan
from tools.docs.markdown import code, table


def page() -> str:
    """Return docs/reference/files.md."""
    return "\n".join(
        [
            "# Files",
            "",
            "Results and recommendations go to the current folder, unless an option names another",
            "place. [Safety](../explanation/safety.md) says which files are trusted.",
            "",
            *table(["File", "Written by", "Holds"], _OUTPUTS),
            "",
            "On the host, for root only, except where it says otherwise:",
            "",
            *table(["File", "Written by", "Holds"], _OF_THE_HOST),
            "",
            "## Snippets",
            "",
            "`advise` writes them, into the current folder or that of its option.",
            "[Snippets](snippets.md) has an example of each.",
            "",
            *table(["`--format`", "Files", "By default"], _snippets()),
            "",
        ]
    )


_OUTPUTS = [
    [
        f"`{sweep.DEFAULT_OUTPUT}`",
        "`sweep`",
        f"all trials and their circumstances; JSON, version {results.FORMAT_VERSION} "
        "(versions 2 and 3 are read too)",
    ],
    [
        f"`{transfer.DEFAULT_OUTPUT}/`",
        "`transfer tune`",
        "results and snippets of a sweep of transfer settings",
    ],
    [
        f"`{recommendation.FILE_NAME}`",
        "`advise`, `transfer tune`, `demo`",
        "the recommended change and its evidence, for `apply` and `verify`; JSON, version "
        f"{recommendation.FORMAT_VERSION}",
    ],
    [f"`{demo.FOLDER}/`", "`demo`", "what the demo recommends, and its report in HTML"],
    [
        "`*.prom`",
        "`pull`, `sweep` with `--metrics-textfile`",
        "[metrics](metrics.md) for the node_exporter",
    ],
    [
        f"`{rollout_plan.FILE_NAME}`",
        "`rollout plan`",
        "the stages, control arm and limits of a roll-out, and its recommendation; JSON, version "
        f"{rollout_plan.VERSION_OF_ALL}, for one class of nodes {rollout_plan.VERSION_OF_CLASS}",
    ],
    [
        f"`{writing.PREFIX}/dt=…/class=…/*{writing.SUFFIX}`",
        "`pull --record`, `watch --record`",
        f"one pull (version {record.PULL_VERSION}) or day (version {record.DAY_VERSION}) for the "
        "report on a fleet; JSON in gzip; in S3 or a directory",
    ],
    [
        ", ".join(f"`{name}.parquet`" for name in tables.TABLES) + f", `{ingest.BROKEN_NAME}`",
        "`fleet ingest`",
        "the merged records of a fleet, and the files that do not count",
    ],
    ["`*.yaml`, `*.mistral`", "you", "[contracts](contracts.md)"],
]
_OF_THE_HOST = [
    [
        f"`{STATE_DIRECTORY}/{WRITER}.journal`",
        "`sweep`",
        "each change before it is made, with the originals; gone after the restore",
    ],
    [
        f"`{STATE_DIRECTORY}/{APPLIED}.journal`",
        "`apply`",
        "the originals of what is applied, until `rollback`",
    ],
    [
        f"`{STATE_DIRECTORY}/{RUN}.journal`, `{STATE_DIRECTORY}/{RUN}-PID.json`",
        "`run`",
        "the originals, and each process that holds the settings; gone after the last one",
    ],
    [
        f"`{RUNTIME_DIRECTORY}/{GOVERN}.journal`",
        "`govern`, `run --auto`",
        "the originals while thresholds are raised; a boot removes it",
    ],
    [
        f"`{RUNTIME_DIRECTORY}/{governor_state.FILE_NAME}`",
        "`govern`, `run --auto`",
        "who governs, whether thresholds are raised, sums of each day; everybody may read it; a "
        "boot removes it",
    ],
    [
        f"`{STATE_DIRECTORY}/{history.NAME}`",
        "commands that measure or change",
        "the history; another user's is in `~/.local/state/writewise`",
    ],
    [
        f"`{STATE_DIRECTORY}/{marker.NODE_FILE}`, `{STATE_DIRECTORY}/{marker.NODE_MACHINE_FILE}`",
        "`pull --record`, `watch --record`",
        "the random name of the node in its records, and a hash that ties it to the machine",
    ],
    [
        f"`{STATE_DIRECTORY}/{marker.MARKER}`",
        "the engine of a roll-out",
        "the roll-out, stage and arm of the node, which its records repeat",
    ],
    [
        f"`{STATE_DIRECTORY}/rollout-ID-originals.conf`, "
        f"`{STATE_DIRECTORY}/rollout-ID-previous.conf`",
        "the engine of a roll-out",
        "what the node had, until the revert: values or profiles, and the file that was replaced",
    ],
    [
        f"`{STATE_DIRECTORY}/studies/`",
        "`study join`",
        "this node's results of shared studies: `pending` until the ledger has them, then `told`",
    ],
    [f"`{STATE_DIRECTORY}/lab/`", "`lab up`, `demo`", "the lab's volume, objects and journal"],
    [
        ", ".join(f"`{path}`" for path in PATHS),
        "`apply --persist`",
        "the sysctls, for the next boot; one of the two",
    ],
    [
        f"`{RECOVERY_PATH}`",
        "`--install-recovery`",
        "restores at boot what a killed run left",
    ],
    [
        f"`{REVERT_UNIT}.timer` (transient)",
        "`apply --for`",
        "ends a trial, also after a crash of the program",
    ],
]


def _snippets() -> list[list[str]]:
    return [
        [
            f"`{each.name}`",
            ", ".join(code(name) for name in each.file_names),
            "yes" if each.is_default else "",
        ]
        for each in FORMATS
    ]
