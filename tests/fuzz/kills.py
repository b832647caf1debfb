# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of `govern` and of `run` at random moments; the recovery must leave the host as before.

    python -m tests.fuzz.kills govern|run [KILLS [SEED]]    (root; it is not part of the tests)

Each time a paced writer writes a short burst onto a capped volume. After the kill, recovery is what
the unit runs: `writewise rollback --interrupted`. Then everything is compared byte for byte with
what it was: every file below /proc/sys/vm, the mount table, and the journals. It stops at the first
difference, and prints how many kills fell while thresholds were raised.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from profiler.cli.common import terminable
from profiler.lab import lab
from tests.root.governing import (
    BOUND,
    BOUNDED,
    RATE_MIB_PER_S,
    REST,
    in_force,
    remove_files,
    start_burst,
    throttled_lab,
)
from tests.root.labs import MIB, command, wait_until, writewise

KILLS = 100
SIZE_MIB = 120
#: The latest kill after the start of `govern`, and of `run`: both take about 0.4 s to start.
LATEST_S = {"govern": 2.0, "run": 2.2}


def host_bytes() -> dict[str, bytes]:
    """Return every readable file below /proc/sys/vm, the mount table, and the journals."""
    state = Path(os.environ["WRITEWISE_STATE_DIRECTORY"])
    paths = [*Path("/proc/sys/vm").iterdir(), Path("/proc/self/mountinfo")]
    paths += [*state.glob("**/*.journal"), *state.glob("run-*.json")]
    found = {}
    for path in paths:
        with contextlib.suppress(PermissionError, FileNotFoundError):
            found[str(path)] = path.read_bytes()
    return found


def kill_one(which: str, present: lab.Lab, chance: random.Random) -> bool:
    """Start, kill at a random moment; return whether thresholds were not the host's own then."""
    burst = Path(present.destination, "burst")
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if which == "govern":
        words = command("govern", present.destination, *BOUNDED)
    else:
        drain = ["--no-drain"] if chance.random() < 0.5 else []
        written = f"head -c {SIZE_MIB * MIB} /dev/zero > {burst}; sleep 1"
        limits = ("--dirty-bytes", BOUND, "--dirty-background-bytes", 40 * MIB)
        words = command("run", *limits, *drain, "--", "sh", "-c", written)
    process = subprocess.Popen(words, start_new_session=True, **pipes)  # type: ignore[call-overload]
    delay_s = chance.uniform(0.0, LATEST_S[which])
    begun_s = time.monotonic()
    writer = None
    if which == "govern":
        time.sleep(min(delay_s, 0.45))
        writer = start_burst(burst, SIZE_MIB, RATE_MIB_PER_S)
    time.sleep(max(0.0, delay_s - (time.monotonic() - begun_s)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    was_raised = in_force() != REST
    if writer:
        writer.kill()
        writer.communicate()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its command
        end_holders(is_kill=chance.random() < 0.5)
    return was_raised


def end_holders(*, is_kill: bool) -> None:
    """Kill the process that stays behind for `run --no-drain`, or wait until it has restored."""
    state = Path(os.environ["WRITEWISE_STATE_DIRECTORY"])
    for path in state.glob("run-*.json"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pid = json.loads(path.read_text())["pid"]
            if is_kill:
                os.kill(pid, signal.SIGKILL)
            if not wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), 60):
                sys.exit(f"process {pid} of `run` does not end")


def main() -> None:
    """Kill, recover, compare."""
    which = sys.argv[1] if sys.argv[1:] else ""
    if which not in LATEST_S:
        sys.exit(__doc__)
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else KILLS
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    chance, hit = random.Random(seed), Counter[str]()
    begun_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="writewise-kills-") as folder,
        terminable(),
        throttled_lab(Path(folder)) as present,
    ):
        wait_until(lambda: in_force() == REST, 5)
        before = host_bytes()
        for number in range(kills):
            hit["raised"] += kill_one(which, present, chance)
            done = writewise("rollback", "--interrupted")
            after = host_bytes()
            differing = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
            if done.returncode or differing:
                sys.exit(f"kill {number} of seed {seed}: {differing} differ; {done.stderr}")
            remove_files(present)
            hit["kills"] += 1
    took_s = time.monotonic() - begun_s
    print(json.dumps({"what": which, "seed": seed, "took_s": round(took_s), **hit}), flush=True)


if __name__ == "__main__":
    main()
