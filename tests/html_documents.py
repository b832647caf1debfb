# SPDX-License-Identifier: Apache-2.0
"""Documents for the tests of HTML reports: recorded ones, made-up ones, and hostile ones.

`profile` and `pull` were recorded in the lab (`tests/unit/data/documents/README.md`).
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
from collections.abc import Mapping
from typing import Any

from profiler.cli import plan as plan_command
from profiler.cli.json_documents import document_of
from profiler.cli.plan_request import request_from
from profiler.client_bench.client_comparison import ClientComparison
from profiler.compare.checked import CheckedObject
from profiler.compare.comparing import compare_subjects
from profiler.compare.pulls import pull_subject
from profiler.report.advice_document import advice_document
from profiler.report.client_bench import comparison_document
from profiler.report.comparison import comparison_file_document
from profiler.report.plan_document import cheapest_document, plan_document
from sysctl.advice.advise import advise
from sysctl.evidence.results import load
from sysctl.volume.cheapest import cheapest
from tests.places import DATA
from tests.unit.profiler.client_bench.test_client_bench import CONTEXT, FASTER, cell, row
from tests.unit.studies import MIB, Study, course, ratio
from tests.unit.sweeps import GIB

Document = dict[str, Any]
#: Text that would be an element, an attribute, a template, a script's end, or move the cursor.
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)> \" ' & {{ 7*7 }} {% raw %} "
    "javascript:alert(3) \x1b[31m\u202e]]> `x` <!-- "
)
NAMES = (
    "profile",
    "pull",
    "advise",
    "no-change",
    "tune",
    "clients",
    "plan",
    "credits",
    "cheapest",
    "compare",
)


def recorded(name: str) -> Document:
    """Return a document that a command printed in the lab."""
    with lzma.open(DATA / f"documents/{name}.json.xz", "rt", encoding="utf-8") as file:
        document: Document = json.load(file)
    return document


def document(name: str) -> Document:
    """Return the document with one of `NAMES`."""
    made = {
        "profile": lambda: recorded("profile"),
        "pull": lambda: recorded("pull"),
        "advise": lambda: _advice("advise", study_of_a_change()),
        "no-change": lambda: _advice("sweep", load(DATA / "results-version-2.json")),
        "tune": lambda: _advice("transfer tune", load(DATA / "4ca1b0e/results-transfer.json")),
        "clients": _clients,
        "plan": lambda: _plan("--burst 500GiB --volume-type gp3 --volume-size 1000GiB"),
        "credits": lambda: _plan("--burst 800GiB --volume-type st1 --volume-size 1000GiB"),
        "cheapest": _cheapest,
        "compare": _compare,
    }[name]()
    whole: Document = json.loads(json.dumps(made))  # as it is read again
    return whole


def long_profile(samples: int = 12_000, disks: int = 6) -> Document:
    """Return the longest timeline that there is, in which nothing repeats."""
    found = recorded("profile")
    held = [int(GIB * (1 + math.sin(at * at / 9e4) / 2)) for at in range(samples)]
    steps = range(samples)
    found["timeline"].update(
        time_ns=[at * 50_000_003 for at in steps],
        dirty_bytes=held,
        writeback_bytes=[each // 3 + at % 97 * MIB for at, each in enumerate(held)],
        background_threshold_bytes=[GIB // 2 + at * 37 % 8191 * 4096 for at in steps],
        dirty_threshold_bytes=[2 * GIB + at * 41 % 8191 * 4096 for at in steps],
        freerun_bytes=[GIB + at * 43 % 8191 * 4096 for at in steps],
        io_some_ns=[at * 30_000_007 for at in steps],
        io_full_ns=[at * 20_000_003 for at in steps],
        stalled_ns=[at * at * 40_003 for at in steps],
        devices=[_disk(number, samples) for number in range(disks)],
    )
    return found


def hostile(found: Any) -> Any:
    """Return a document with hostile text at the end of every text that a name could be in."""
    if isinstance(found, Mapping):
        return {key: value if key in _WORDS else hostile(value) for key, value in found.items()}
    if isinstance(found, list):
        return [hostile(each) for each in found]
    return f"{found}{HOSTILE}" if isinstance(found, str) else found


#: Keys whose values are words of Writewise and of nobody else.
_WORDS = ("schema", "answer", "cause", "role", "action", "unit", "names", "target")


def study_of_a_change() -> Any:
    """Return results in which a change is recommended, with pairs, a price and predictions."""
    trace = course(0.05, 600 * MIB, 60 * MIB, 614 * MIB, 15.0)
    study = Study(durable_s=31.0, trace=trace)
    study.present = {"trace": trace}
    study.candidate(ratio(40), 9.2, peak_dirty_bytes=int(1.1 * GIB))
    study.candidate(ratio(60, 30), 5.1, peak_dirty_bytes=int(1.6 * GIB))
    study.add("candidate", ratio(10), 9.0, problem="dirtyable memory changed by +22%")
    study.tried(ratio(60), 4.6, peak_dirty_bytes=int(1.5 * GIB))
    return study.tried(ratio(80), 4.0, peak_dirty_bytes=2 * GIB).results


def _disk(number: int, samples: int) -> Document:
    written = [at * (number + 1) * 90_001 for at in range(samples)]
    return {
        "name": f"nvme{number}n1",
        "write_rate_mean_bytes_per_s": 1.5e6,
        "background_write_rate_mean_bytes_per_s": None,
        "write_request_latency_mean_ns": 1e6,
        "written_bytes": written,
        "write_rate_bytes_per_s": [None, *(each / 7 for each in written[1:])],
        "write_latency_mean_ns": [None, *(each / 11 for each in written[1:])],
    }


def _advice(command: str, results: Any) -> Document:
    return document_of(command, advice_document(advise(results)))


def _compare() -> Document:
    """Return the comparison of repeated pulls, of which the later are faster on another kernel."""
    first = recorded("pull")
    sides = []
    for file, factor, kernel in (("before.json", 1.0, "6.18.44"), ("after.json", 0.6, "6.12.9")):
        measured = {**first["measured"], "kernel": kernel}
        measured["sysctls"] = {"vm.dirty_ratio": 20 if factor == 1 else 60}
        documents = [
            {
                **first,
                "return_s": first["return_s"] * factor * (1 + number / 100),
                "durable_s": first["durable_s"] * (1 + number * number % 5 / 100),
                "measured": measured,
            }
            for number in range(5)
        ]
        sides.append(pull_subject([CheckedObject(each, file) for each in documents]))
    return document_of("compare", comparison_file_document(compare_subjects(*sides)))


def _clients() -> Document:
    small = row(cell("direct", 3.0, 3.1), cell("s5cmd", 3.2, 3.3), cell("obstore", problem="died"))
    found = ClientComparison((FASTER, small), {**CONTEXT, "no_stalls": "no BPF"})
    return document_of("bench-clients", comparison_document(found))


def _request(words: str) -> Any:
    parser = argparse.ArgumentParser()
    plan_command.add_arguments(parser)
    return request_from(parser.parse_args([*words.split(), "--instance-type", "m5.4xlarge"]))


def _plan(words: str) -> Document:
    request = _request(f"{words} --deadline 3h")
    return document_of("plan", plan_document(request.plan(), request.asked))


def _cheapest() -> Document:
    request = _request("--burst 100GiB --cheapest --capacity 500GiB --deadline 15m")
    wanted = request.wanted()
    content = cheapest_document(cheapest(wanted), wanted, request.asked)
    return document_of("plan --cheapest", content)
