# SPDX-License-Identifier: Apache-2.0
"""Files to compare, made by what prints them."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

from contracts.evaluate import evaluate
from contracts.model import Contract
from profiler.cli.json_documents import emit
from profiler.client_bench.client_comparison import ClientComparison
from profiler.report.client_bench import comparison_document
from profiler.report.profile import profile_document
from profiler.report.pulls import pull_document
from tests.unit.profiler.client_bench.test_client_bench import CONTEXT, row
from tests.unit.profiler.report.test_profile import COUNTS, SECOND_NS, profile_of
from tests.unit.profiler.report.test_pulls import CONTRACT, MEASURED, STATS

MIB = 2**20


def emitted(command, content, **changes):
    output = io.StringIO()
    emit(command, content, output)
    return {**json.loads(output.getvalue()), **changes}


def pull(return_s=20.0, *, measured=None, **changes):
    """Return the document of a pull of 100 objects."""
    content = pull_document(MEASURED, evaluate(CONTRACT, (STATS,)))
    whole = {"objects": 100, "bytes": 100 * MIB, "failures": [], "stalled_share": 0.5}
    circumstances = {"kernel": "6.18.1", "sysctls": {"vm.dirty_ratio": 20}, **(measured or {})}
    document = emitted("pull", content, return_s=return_s, durable_s=30.0, **whole)
    return {**document, "measured": circumstances, **changes}


def pulls(median_s, count, *, seed=1, **changes):
    """Return repeated pulls whose times vary by 3 %."""
    source = random.Random(seed)
    return [pull(median_s * source.uniform(0.97, 1.03), **changes) for _ in range(count)]


def profile(**changes):
    content = profile_document(profile_of(Contract(SECOND_NS, (COUNTS,)), 3))
    return emitted("profile", content, **changes)


def scope(target, comm=None, cgroup=None):
    return {"target": target, "comm": comm, "cgroup": cgroup}


def bench(*cells):
    found = ClientComparison((row(*cells),), CONTEXT)
    return emitted("bench-clients", comparison_document(found))


def write(path: Path, *documents):
    path.write_text("".join(json.dumps(each, indent=2) + "\n" for each in documents))
    return path
