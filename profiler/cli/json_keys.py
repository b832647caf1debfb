# SPDX-License-Identifier: Apache-2.0
"""The keys of documents in `json_documents` that several documents share, and the long lists."""

from __future__ import annotations

ADVICE = {
    "measured": "the host, its kernel, when the sweep began, the version, the circumstances, and "
    "what was pulled",
    "change_recommended": "whether a change is recommended",
    "headline": "what to do, in one sentence",
    "why": "why, in one or a few sentences",
    "case": "the name of the verdict, for programs",
    "verdict": "the verdict in one sentence",
    "speedup": "how many times faster the recommended settings are; null without a change",
    "time_ratio": "recommended time over current time: estimate, interval and number of pairs",
    "noise": "relative deviation between runs with equal settings; null if it is unknown",
    "present": "the current settings: values, times, data at risk and cost (`price`)",
    "recommended": "the same for the recommended settings; null without a change",
    "cost": "what the recommended settings, else the current ones, cost: one sentence each",
    "other_prices": "costs of the settings that were not recommended",
    "limits": "the limits asked for: max_at_risk_bytes and max_durable_s; null: no limit",
    "notes": "remarks on the evidence",
    "excluded": "settings that were excluded, and why",
    "trade_off": "time against data at risk, for each setting that was measured or predicted",
    "comparisons": "each setting that was compared in pairs with the current ones: ratio and pairs",
    "trials": "each trial in the order in which they ran: setting, times, and why it is not valid",
    "not_predicted": "why a setting has no prediction",
    "forms": "the thresholds as ratios and as bytes",
    "reasons": "each recommended value with the reason for it",
    "volume": "the volume: what its measured rate is made of, other volumes and their prices",
    "memory_group": "what the memory limit of this control group means for the settings",
    "left_out": "settings that were not tried, and why",
}
EBS_VOLUMES = (
    "each EBS volume below the paths: how long it and the instance were over their limits; empty "
    "without one"
)
MEASURED = (
    "the host, its kernel, when it began, the version of Writewise, and the circumstances that are "
    "known: memory, volume, client, sysctls in force, …; null if unknown"
)
TIMELINE = "dirty pages, thresholds, throttling, device writes and EBS counters over time"
FINDINGS = "the rules of the contract, each with the measured value and whether it is violated"
FILES = {
    "written": "the files that were written",
    "removed": "files of an earlier recommendation that were removed",
}
HOW_PLANNED = {
    "deadline_s": "the deadline asked for; null without one",
    "meets_deadline": "whether every pull meets it; null without one",
    "assumed": "what was assumed, one sentence each",
    "warnings": "figures above the tables' maxima, prices that are missing",
    "sources": "which figures AWS or this node gave, one sentence each; the others are from tables",
}
PLAN = {
    "verdict": "the answer, one sentence each",
    "volume": "type, size, IOPS and throughput; null if only a sweep's rate is known",
    "monthly_usd": "the price of the volume a month; null if it is unknown",
    "durable_s": "time until the first pull is durable, from when the volume begins to write",
    "return_s": "time until its last write returns; null if memory or source are unknown",
    "limited_by": "what limits its rate for the longest time: network, source, instance, "
    "instance credits, volume, volume credits",
    "credits_end_s": "when credits begin to limit the rate; null if they never do",
    "balance_after": "the volume's credits after it, in percent; null without credits",
    "instance_balance_after": "the instance's EBS credits after it, in percent, or null",
    "empty_durable_s": "its time to durable with no credits of the volume; null without credits",
    "margin_durable_s": "the same with 90 % of an HDD volume's burst rate; null for others",
    "pulls_per_day": "how many pulls a day can stay fast indefinitely",
    "guaranteed_pulls_per_day": "how many the instance's credits are guaranteed to cover; null if "
    "there is no limit",
    "first_slow_pull": "with --idle, the number of the first slow pull; null if none is",
    "steady_durable_s": "with --idle, the time to durable that each pull has in the end",
    "pull": "its size, the size of random I/Os, and the time between pulls",
    "instance": "the instance type; null if it is unknown",
    "source": "the rate of the network, or of the source as measured; null if it is unknown",
    "phases": "parts of the first pull with one rate: times, rate, limit, credits in percent",
    "write_back": "whether settings help, and each setting with its time to return",
    **HOW_PLANNED,
    "tables": "the dates of the tables; of instances null if AWS gave the limits",
}
CHEAPEST = {
    "verdict": "the answer in one sentence",
    "volumes": "the volumes that meet the deadline, the cheapest first, with the keys of `plan`",
    "left_out": "types that are too slow or too small, or have no price",
    "capacity_gib": "the capacity asked for",
    **HOW_PLANNED,
}
