# SPDX-License-Identifier: Apache-2.0
"""What every `--json` prints: one document with its schema's name and version.

The documentation is generated from the table `DOCUMENTS`; a test compares it with the real output.
A change that breaks readers (a key is removed or changes its meaning) raises the version; a new key
does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import IO, NamedTuple

from profiler.cli.json_keys import (
    ADVICE,
    CHEAPEST,
    EBS_VOLUMES,
    FILES,
    FINDINGS,
    MEASURED,
    PLAN,
    TIMELINE,
)


class Document(NamedTuple):
    """A command's output with `--json`: the schema, its version, and each top-level key."""

    command: str
    version: int
    keys: Mapping[str, str]

    @property
    def schema(self) -> str:
        """The name in the document: `writewise-bench-clients`."""
        return f"writewise-{self.command.replace(' --', ' ').replace(' ', '-')}"


DOCUMENTS = (
    Document(
        "doctor",
        1,
        {
            "ready": "whether every requirement is met",
            "requirements": "each requirement: what was found, the problem and the remedy",
            "commands": "each command: whether it is ready, and which requirements are missing",
        },
    ),
    Document(
        "profile",
        1,
        {
            "measured": MEASURED,
            "contract": "the contract's file",
            "command_user": "the user that the command ran as; null without a command",
            "scope": "whose calls were counted: of a command, a process or the host (`target`), "
            "and the name and control group of its threads, or null",
            "attached_to": "what the probes of calls attached to: `functions` or `tracepoints`",
            "functions_refused": "why not to functions, if the kernel refused one; else null",
            "timeframe_ns": "the contract's timeframe",
            "elapsed_ns": "how long calls were counted",
            "stall": "sleeps in dirty throttling, summed over all threads",
            "losses": "events that could not be counted, by reason",
            "in_flight": "calls that had not returned at the end",
            "threads_left": "threads that were still running at the end",
            "writers": "threads that wrote",
            "findings": FINDINGS,
            "resources": "memory and CPU time; null if no rule asks for them",
            "why": "what the time of writes was spent on",
            "verdict": "whether writers waited for write-back; null if that is unknown",
            "timeline": TIMELINE,
            "ebs_volumes": EBS_VOLUMES,
            "timeframes": "violations in each timeframe",
        },
    ),
    Document(
        "pull",
        1,
        {
            "measured": MEASURED,
            "objects": "objects that were pulled",
            "bytes": "bytes that were pulled",
            "kept_objects": "objects that the destination already had",
            "kept_bytes": "bytes that the destination already had",
            "whole_objects": "objects of the prefix where a sample was pulled; else 0",
            "whole_bytes": "bytes of the prefix where a sample was pulled; else 0",
            "workers": "worker processes",
            "return_s": "time until the last write returned",
            "durable_s": "time until all data was on the device",
            "stalled_share": "share of the writers' time spent in dirty throttling",
            "evidence": "figures on the requests, and what limited the pull",
            "findings": FINDINGS,
            "profile": "what the probes counted",
            "why": "what the time of writes was spent on",
            "timeline": TIMELINE,
            "ebs_volumes": EBS_VOLUMES,
            "verified_by_method": "number of objects verified by each method",
            "verification_s": "time that verification took",
            "verification_cpu_s": "CPU time that verification took",
            "ended_by": "the error that ended the pull early; null if none did",
            "failures": "objects that are missing or damaged, and why",
        },
    ),
    Document("sweep", 1, {"results": "the file with the results", **ADVICE}),
    Document(
        "sweep --dry-run",
        1,
        {
            "command": "the command: sweep, or transfer tune",
            "trials": "about how many trials there would be",
            "most_trials": "at most how many; failed ones are repeated",
            "first": "the trials that are known before any is made: role and setting",
            "objects": "objects that a trial pulls",
            "bytes": "bytes that a trial pulls",
            "whole_objects": "objects of the prefix where a sample would be pulled; else 0",
            "whole_bytes": "bytes of the prefix where a sample would be pulled; else 0",
            "total_bytes": "bytes that all trials would pull from S3",
            "most_bytes": "the same for the most trials",
            "assumed_bytes_per_s": "the rate that the time is computed with",
            "about_s": "about how long it would take at that rate",
            "most_s": "the same for the most trials",
            "budget_s": "the budget in time; null without one",
            "changes": "what would change on this host, with the current value where it is known",
            "sample_caveat": "what the sample cannot show; null if nothing is known of it",
        },
    ),
    Document("advise", 1, {**ADVICE, **FILES}),
    Document("transfer tune", 1, {"results": "the file with the results", **ADVICE, **FILES}),
    Document(
        "predict",
        1,
        {
            "burst_bytes": "the size of the predicted pull",
            "dirtyable_bytes": "the memory that ratios are a percentage of",
            "model": "the figures of the fitted model",
            "settings": "each setting with its predicted times and data at risk",
        },
    ),
    Document("plan", 1, PLAN),
    Document("plan --cheapest", 1, CHEAPEST),
    Document(
        "compare",
        1,
        {
            "comparable": "whether the files are comparable",
            "verdict": "what differs significantly, or why they are not comparable: one sentence "
            "each",
            "before": "the first file: its kind, number of runs, time, and what was pulled",
            "after": "the second file",
            "settings": "each setting that differs; null: not named in that file",
            "circumstances": "each circumstance that differs",
            "answers": "each outcome in words that differs",
            "figures": "each figure: of both files median, range and number of runs, the ratio "
            "after : before with its interval, and whether it differs significantly",
            "caveats": "what limits the comparison, one sentence each",
        },
    ),
    Document(
        "apply",
        1,
        {
            "dry_run": "whether nothing was to be changed",
            "applied": "whether the recommendation is in force now",
            "recovered": "changes of a killed run that were restored first",
            "not_restored": "changes of a killed run that were left, and why",
            "sysctls": "each sysctl: current and new value, reason, what else sets it",
            "disk": "the disk that the knobs belong to; null without one",
            "knobs": "each knob of the disk, as the sysctls",
            "mount": "mount options: current, new and the line for /etc/fstab; null without any",
            "file": "the file for every boot (--persist); null without one",
            "amounts": "thresholds in bytes where measured and here, if the memory differs",
            "unmeasured": "what was not measured on a host like this; null if it was",
            "notes": "remarks",
            "left_out": "settings that have no place on this host, and why",
            "temporary": "changes that are in force for a trial",
            "done": "what was done, one sentence each",
        },
    ),
    Document(
        "run",
        1,
        {
            "measured": MEASURED,
            "command_user": "the user that the command ran as",
            "exit_code": "the exit code of the command; 128 + N if signal N ended it",
            "changes": "each setting: name, value before, value while the command ran; empty if "
            "other runs had set them, or all were in force",
            "joined": "the other runs that had the same settings in force, with their processes",
            "return_s": "time until the command returned",
            "durable_s": "time until its data was on the devices; null if that was not waited for",
            "drained": "the wait for that: done, skipped (by a signal) or behind (--no-drain)",
            "peak_at_risk_bytes": "the most data that was only in memory, above that at the start",
            "io_wait_s": "time until it returned in which some program of the host waited for I/O; "
            "null if the kernel does not count it",
            "restored": "what was restored at the end; empty if others hold the settings",
            "left": "what was not restored, because another program had changed it",
            "remaining": "the other runs that hold the settings further, with their processes",
            "recovered": "changes of a killed run that were restored first",
            "notes": "remarks",
            "governed": "with --auto: the volumes, the governor that was followed, the sums of the "
            "bursts, why it ended early; else null",
        },
    ),
    Document(
        "verify",
        1,
        {
            "compliant": "whether every setting is in force; null if that cannot be determined",
            "settings": "each setting: wanted and current value, and why they differ",
            "notes": "remarks",
            "error": "why it cannot be determined; null otherwise",
            "hint": "what to do about that; null otherwise",
        },
    ),
    Document(
        "status",
        1,
        {
            "applied": "each change that is applied, with its time",
            "trial_ends_at": "when the original values return; null without a trial",
            "files": "Writewise's files that every boot reads",
            "interrupted": "changes that a killed run left",
            "lock_holder": "the process that is changing or measuring this host; null if none is",
            "runs": "each `writewise run`: process, command, settings, since when, whether it is "
            "draining",
            "governor": "what the last governor wrote to `/run/writewise/govern.json`: process, "
            "volumes, bounds, sums, days; null if none has since the boot",
            "is_governor_running": "whether that governor still runs",
        },
    ),
    Document(
        "history",
        1,
        {
            "file": "the file that it is read from; null for a user without a home directory",
            "entries": "each command: when it began, how long it took, its user, its words without "
            "secrets, its outcome, its exit code and error; the newest last",
            "skipped": "lines that are damaged, incomplete or of another version",
        },
    ),
    Document(
        "rollback",
        1,
        {
            "dry_run": "whether nothing was to be changed",
            "restored": "changes that were undone, or with --dry-run would be",
            "left": "changes that were left as they are, and why",
            "error": "what could not be restored; null if all was",
            "hint": "what to do about that; null otherwise",
        },
    ),
    Document(
        "govern",
        1,
        {
            "dry_run": "whether nothing was to be changed; then the figures are what would be",
            "volumes": "the governed volumes' mount points",
            "admitted": "whose bursts count; empty: those of every program",
            "at_rest": "the host's own thresholds",
            "observed_s": "how long it governed",
            "bursts": "bursts for which thresholds were raised",
            "arrived_bytes": "bytes of these bursts",
            "return_s": "how long they took to return, in all",
            "raised_s": "how long thresholds were raised, in all",
            "peak_at_risk_bytes": "the most that was dirty or under write-back on the host",
            "saved_s": "the time saved, as predicted for the host's own thresholds",
            "unknown_savings": "bursts whose saved time is unknown",
            "changed_by_others": "thresholds before and after another program changed them; "
            "null if none did",
            "last_bursts": "the last bursts, at most 1,000; times since the begin",
        },
    ),
    Document(
        "fleet ingest",
        1,
        {
            "folder": "where the tables are",
            "files": "the files that were read",
            "records": "the records that count",
            "nodes": "their nodes",
            "classes": "their classes",
            "broken": "each file that does not count, with every reason",
        },
    ),
    Document(
        "fleet report",
        1,
        {
            "classes": "each class: nodes, pulls, nodes whose writers wait by main cause, merged "
            "distributions, the predicted saving (null for none), and the time that `watch` saw "
            "(null for none); the first to study first",
            "to_study": "the classes with a predicted saving, the largest first",
            "outliers": "nodes whose time per byte is far from that of the class's median node, "
            "with the distance in units of 1.4826 MAD",
        },
    ),
    Document(
        "rollout plan",
        1,
        {
            "file": "the plan's file",
            "id": "a hash of the plan; records and files on nodes have it",
            "created_at": "when it was made",
            "class": "the class of nodes that it is for; null for all classes",
            "nodes": "how many nodes there are",
            "control": "the share of nodes that is never treated",
            "stages": "each stage: treated share, votes needed, and the rise of the time to return "
            "that they exclude",
            "looks": "the shares of its votes at which a stage is looked at",
            "limits": "the limit of each guardrail",
            "silent_after_s": "after how long without a record a node counts as harmed",
            "recommendation": "the document of recommendation.json",
        },
    ),
    Document(
        "rollout render",
        1,
        {
            "rollout": "the id of the plan",
            "written": "the files",
            "left_out": "formats without a file, and why",
        },
    ),
    Document(
        "rollout gate",
        1,
        {
            "rollout": "the id of the plan",
            "stage": "the stage that was judged",
            "class": "the class of nodes whose records count; null for all classes",
            "decision": "go on, wait, stop or revert",
            "because": "the names of the guardrails, or of what is missing",
            "times": "each time: ratio treated : control, its any-time-valid interval, limit, "
            "nodes, and whether it is harm",
            "events": "each event: nodes with it in both arms, the evidence and what is needed",
            "shares": "shares of nodes that must stay below a limit",
            "promotion": "the look that was reached, its score and boundary",
            "not_counted": "records and nodes that did not vote, by the reason",
        },
    ),
    Document(
        "study join",
        1,
        {
            "study": "its name",
            "node": "the name of this node in the study",
            "measured": "the number of claims that this node measured",
            "why": "why its part ended",
        },
    ),
    Document(
        "study join --dry-run",
        1,
        {
            "study": "its name",
            "class_key": "the class of this node",
            "node": "the name of this node in the study; null before it has joined any",
            "refusals": "each setting that this node would refuse, and why",
            "problem": "why it cannot take part; null if it can",
        },
    ),
    Document(
        "study status",
        1,
        {
            "studies": "each study: class, values, nodes, and how many claims of the search and "
            "of the recheck run, are told, or were lost; `broken` entries cannot be read",
            "refused": "studies that cannot be read, and why",
        },
    ),
    Document(
        "study advise",
        1,
        {
            "study": "its name",
            "class": "the class of its nodes",
            "headline": "what to do, in one sentence",
            "complete": "whether as many nodes as were asked for have measured all their blocks, "
            "or no candidate was faster",
            "nodes": "the nodes with a result of the recheck",
            "present": "the settings that the others are compared with",
            "present_by_node": "each node under them: its usual time, and how long writers wait",
            "recommended": "the recommended sysctls; null without a recommendation",
            "settings": "each setting of the recheck: time ratio with its interval, the interval "
            "predicted for another node, how much nodes differ, ratio, interval and kind (gains, "
            "no gain, unclear) of each node, and why it is not recommended",
            "written": "the files that were written",
        },
    ),
    Document("clients", 1, {"clients": "each pull client: name, version, how to install it"}),
    Document(
        "bench-clients",
        1,
        {
            "context": "the host, the settings and the versions",
            "conditions": "how it was measured and what the figures mean, one sentence each",
            "complete": "whether every row was measured to its end",
            "failed_sources": "rows that could not be measured, and why",
            "rows": "each set of objects: every client's figures and pulls",
        },
    ),
    Document(
        "contract check",
        1,
        {
            "valid": "whether every file is valid",
            "files": "each file: its path, the number of rules, and every problem",
        },
    ),
    Document(
        "lab",
        1,
        {
            "up": "whether the lab is up",
            "lab": "where it is and what it emulates; null if it is down",
            "credits": "levels of its EBS credits and present limits; null if it has none",
            "problem": "why its throughput cap does not hold; null if it does",
            "restored": "changes that `lab down` undid",
        },
    ),
)
BY_COMMAND = {each.command: each for each in DOCUMENTS}


def document_of(command: str, content: Mapping[str, object]) -> dict[str, object]:
    """Return a command's document: its schema, its version, then the content."""
    document = BY_COMMAND[command]
    return {"schema": document.schema, "version": document.version, **content}


def emit(command: str, content: Mapping[str, object], output: IO[str] | None = None) -> None:
    """Write a command's document."""
    stream = output or sys.stdout
    json.dump(document_of(command, content), stream, indent=2)
    stream.write("\n")
