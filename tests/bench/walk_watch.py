# SPDX-License-Identifier: Apache-2.0
"""What a new user of `writewise watch` sees in a quarter of an hour.

A volume that is too slow, pulls onto it one after the other, `watch`, Prometheus with the shipped
alerts and their own times, the queries of the shipped dashboard, and the pages of `profile --html`
and `pull --html`, with pictures where there is a Chromium. Where systemd runs, `watch` is a
service, installed as its own `--print-unit` says. It makes every writer of the host slow. Run as
root: `python -m tests.bench.walk_watch FOLDER [SECONDS]`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler.lab import lab
from sysctl.apply.watch_unit import UNIT
from sysctl.host.host import Host
from tests.guests.inside.services import said, shown, started
from tests.root.governing import remove_files
from tests.root.hosts import SLOWNESS, is_emulated
from tests.root.labs import (
    ALL_MEMORY_BYTES,
    MIB,
    SYSTEM,
    command,
    endpoint_arguments,
    guarded,
    writewise,
)
from tests.root.prometheus import ALERTS, get, prometheus, query, watching

PULLS_S = 15 * 60
#: The last of the time is profiled.
PROFILE_S = 60
SERVICE_PORT = 9791
SCRAPES = "15s"
PAGES = ("profile.html", "pull.html")
CHROMIUM = "chromium-headless-shell"
DASHBOARD = ALERTS.with_name("dashboard.json")
#: What Grafana puts in place of its variables.
VARIABLES = {"$instance": ".*", "$__rate_interval": "1m"}
#: Emulated CPUs pull slower, so there the volume is slower too, and a pull smaller.
SPEC = lab.LabSpec(
    memory_bytes=ALL_MEMORY_BYTES,
    volume_bytes=4 << 30,
    rate_bytes_per_s=(8 if is_emulated() else 48) * MIB,
    object_bytes=(12 if is_emulated() else 48) * MIB,
)
THRESHOLDS = {"vm.dirty_bytes": 256 * MIB, "vm.dirty_background_bytes": 128 * MIB}


@dataclass
class Pulls:
    """Pulls one after the other in a thread, until `stop`."""

    present: lab.Lab
    page: Path
    stop: threading.Event = field(default_factory=threading.Event)
    done: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> None:
        """Pull again and again; the last pull leaves its page."""
        group = self.present.cap.group
        join = f"echo $$ >{group}/cgroup.procs && " if group else ""
        options = (*endpoint_arguments(self.present), "--all", "--json", "--html", self.page)
        words = command("pull", self.present.source, self.present.destination, *options)
        while not self.stop.is_set():
            self.page.unlink(missing_ok=True)
            shell = ["sh", "-c", f'{join}exec "$@"', "pull", *words]
            pulled = subprocess.run(shell, capture_output=True, text=True)
            if pulled.returncode:
                print(pulled.stderr, flush=True)
            else:
                self.done.append(json.loads(pulled.stdout))


@contextlib.contextmanager
def pulling(present: lab.Lab, page: Path) -> Iterator[Pulls]:
    """Pull in the background within the block."""
    pulls = Pulls(present, page)
    thread = threading.Thread(target=pulls.run)
    thread.start()
    try:
        yield pulls
    finally:
        pulls.stop.set()
        thread.join()


def alerts_now(url: str) -> dict[str, str]:
    """Return the alerts that are pending or firing, with their summaries."""
    found = json.loads(get(f"{url}/api/v1/alerts"))["data"]["alerts"]
    return {
        each["labels"]["alertname"]: f"{each['state']}: {each['annotations']['summary']}"
        for each in found
    }


def watched_alerts(url: str, seconds: float) -> list[tuple[int, dict[str, str]]]:
    """Return each change of the alerts, with the seconds since the begin."""
    begun_s = time.monotonic()
    seen: list[tuple[int, dict[str, str]]] = []
    while time.monotonic() < begun_s + seconds:
        now = alerts_now(url)
        if not seen or now != seen[-1][1]:
            seen.append((int(time.monotonic() - begun_s), now))
            print(*seen[-1], flush=True)
        time.sleep(5)
    return seen


def dashboard_now(url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return what each query of the shipped dashboard finds now."""
    found = {}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = str(target["expr"])
            for name, stands_for in VARIABLES.items():
                expression = expression.replace(name, stands_for)
            found[f"{panel['title']}: {target['expr']}"] = query(url, expression)
    return found


@contextlib.contextmanager
def watch(destination: str) -> Iterator[int]:
    """Run `watch`, as a service where systemd runs; yield its port."""
    options = (destination, "--escalate", "10m")
    if not SYSTEM.is_run_by_systemd():
        with watching(*options) as (_, port):
            yield port
        return
    with started(UNIT, "watch", *options):
        yield SERVICE_PORT
        print(said(UNIT), "restarts:", shown(UNIT, "NRestarts"))


def walk(folder: Path, pulls_s: float) -> dict[str, Any]:
    """Do all of it; leave two pages in `folder`, and return what was seen."""
    profile_s = int(min(PROFILE_S, pulls_s / 2))
    with guarded(folder), Host.exclusive("walk", "thresholds") as host:
        host.set_writeback(THRESHOLDS)
        with (
            lab.running(SPEC) as present,
            watch(present.destination) as port,
            prometheus(folder, {"writewise": port}, SCRAPES) as url,
        ):
            with pulling(present, folder / "pull.html") as pulls:
                changes = watched_alerts(url, pulls_s - profile_s)
                page = ("--html", folder / "profile.html")
                words = ("profile", "--duration", f"{profile_s}s", *page)
                profiled = writewise(*words, timeout=(1 + SLOWNESS) * PROFILE_S)
                changes.append((int(pulls_s), alerts_now(url)))
                queries = dashboard_now(url)
            remove_files(present)
            return {
                "alerts": changes,
                "queries": queries,
                "pulls": [(each["return_s"], each["durable_s"]) for each in pulls.done],
                "profile": profiled.stdout + profiled.stderr,
            }


def picture(page: Path) -> Path | None:
    """Return a picture of a page; None without Chromium (`tools/setup test browser`)."""
    program = shutil.which(CHROMIUM)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened = chromium.new_page(viewport={"width": 1060, "height": 900})
        opened.goto(page.absolute().as_uri())
        opened.screenshot(path=page.with_suffix(".png"), full_page=True)
        chromium.close()
    return page.with_suffix(".png")


def main() -> int:
    """Print what was seen; it is right if the alert fired and the dashboard shows the stall."""
    folder, pulls_s = Path(sys.argv[1]), float(sys.argv[2] if sys.argv[2:] else PULLS_S)
    folder.mkdir(exist_ok=True, parents=True)
    seen = walk(folder.absolute(), pulls_s)
    (folder / "seen.json").write_text(json.dumps(seen, indent=1))
    for name, series in seen["queries"].items():
        most = max((number for _, number in series), default=None)
        print(f"{len(series):3} series, at most {most}  {name}")
    print(seen["profile"], f"pulls (return, durable): {seen['pulls']}", sep="\n")
    for name in PAGES:
        print(picture(folder / name) or f"no browser, so no picture of {name}")
    has_fired = "firing" in seen["alerts"][-1][1].get("WritewiseWritersThrottled", "")
    stall = next(each for name, each in seen["queries"].items() if "throttle_seconds_total" in name)
    return int(not has_fired or not stall or stall[0][1] <= 0.5)


if __name__ == "__main__":
    sys.exit(main())
