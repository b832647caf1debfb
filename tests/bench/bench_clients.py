# SPDX-License-Identifier: Apache-2.0
"""Pull clients against each other: the tables of docs/how-to/transfer.md, and the default's goals.

It runs `writewise bench-clients` over the workloads, with every client on this host, and prints
Markdown. The AWS CLI of `.venv-awscli` is preferred. The destination is in /var/tmp or TMPDIR,
whichever is not in memory. Client and server share the host's cores, so read the ratios. It takes
long and writes hundreds of GiB. Run it on a quiet host, as root (else it sees no stalls):
`python -m tests.bench.bench_clients [--keep-free-memory] [ROUNDS [WORKLOAD…]]`. The option,
or `make bench KEEP_FREE_MEMORY=1`, keeps a hypervisor from reclaiming free memory
(`tests/bench/page_reporting.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from profiler.cli.common import terminable
from profiler.cli.main import main as writewise
from profiler.client_bench.context import IN_MEMORY
from profiler.pull.clients.survey import survey
from profiler.workloads.catalogue import shipped_workloads
from sysctl.host.mount_table import mount_of
from sysctl.host.system import System
from tests.bench.figures import Estimate, print_goal, rounds_wanted
from tests.bench.page_reporting import paused

ROUNDS = 4
KEEP, KEEP_VARIABLE = "--keep-free-memory", "KEEP_FREE_MEMORY"
REPOSITORY = Path(__file__).parents[2]
DEFAULT, LOOP = "direct", "boto3"
#: The plain loop takes minutes for each pull here, and the row of 1000x1MiB shows the same.
WITHOUT_LOOP = "small-files-8000x128KiB"
ENVIRONMENT = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_DEFAULT_REGION": "us-east-1",
}
#: How many times as fast the default must be: than the plain loop, for many small objects, ...
LOOP_ROW, LOOP_FACTOR = "synapse-1000x1MiB", 10.0
#: ... and than these, on each row of the table.
RIVALS, RIVALS_ROWS = ("aws-sync", "s5cmd"), "synapse-"


def prepare_environment() -> None:
    """Remove the user's AWS settings; put the pinned AWS CLI before any other."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(ENVIRONMENT)
    os.environ["PATH"] = f"{REPOSITORY}/.venv-awscli/bin:{os.environ['PATH']}"


def folder_on_disk() -> str:
    """Return the folder to pull to; in memory only if there is no other."""
    candidates = [os.path.realpath("/var/tmp"), os.path.realpath(tempfile.gettempdir())]
    mounts = System().mounts()
    on_disk = [each for each in candidates if mount_of(mounts, each).fstype not in IN_MEMORY]
    return (on_disk or candidates)[0]


def measure(rounds: int, workloads: Sequence[str], clients: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of the command's JSON document; print its Markdown."""
    with tempfile.TemporaryDirectory(prefix="writewise-", dir=folder_on_disk()) as folder:
        destination, document = Path(folder, "destination"), Path(folder, "document.json")
        destination.mkdir()
        words = (
            f"bench-clients {destination} --pulls {rounds} --json --output {document} --markdown -"
        )
        names = ["--workload", ",".join(workloads), "--clients", ",".join(clients)]
        exit_code = writewise([*words.split(), *names])
        if not document.exists():
            raise SystemExit(exit_code)
        print(flush=True)
        rows: list[dict[str, Any]] = json.loads(document.read_text())["rows"]
        return rows


def goals(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield for a row each client, and how many times as fast as it the default must be."""
    if row["name"] == LOOP_ROW:
        yield LOOP, LOOP_FACTOR
    if row["name"].startswith(RIVALS_ROWS):
        yield from ((rival, 1.0) for rival in RIVALS)


def print_goals(row: dict[str, Any]) -> None:
    by_name = {client["client"]: client for client in row["clients"]}
    for client, factor in goals(row):
        ratio = by_name.get(client, {}).get("ratio_to_default")
        sentence = f"{row['name']}: {DEFAULT} is {factor:g} times as fast as {client}"
        if ratio is None:
            print(f"- {sentence}: not measured", flush=True)
            continue
        high = float("inf") if ratio["high"] is None else ratio["high"]
        excess = Estimate(factor - ratio["estimate"], factor - high, factor - ratio["low"])
        print_goal(sentence, excess, "times", "{:+.2f}")


def main() -> None:
    prepare_environment()
    keeps_free_memory = KEEP in sys.argv or KEEP_VARIABLE in os.environ
    sys.argv = [word for word in sys.argv if word != KEEP]
    with contextlib.ExitStack() as stack:
        if keeps_free_memory:
            stack.enter_context(paused(System()))
            stack.enter_context(terminable())
        run()


def run() -> None:
    wanted = sys.argv[2:] or [workload.name for workload in shipped_workloads()]
    clients = [each.name for each in survey() if each.version is not None]
    without_loop = [name for name in clients if name != LOOP]
    rounds, rows = rounds_wanted(ROUNDS), []
    for names, who in (
        ([name for name in wanted if name != WITHOUT_LOOP], clients),
        ([name for name in wanted if name == WITHOUT_LOOP], without_loop),
    ):
        if names:
            rows += measure(rounds, names, who)
    for row in rows:
        print_goals(row)


if __name__ == "__main__":
    main()
