# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for contracts, which every syntax must carry without loss."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from contracts.model import RESOURCES, CallType, Contract, Measurement, Quantity, Rule, SizeRange
from contracts.shared.text import is_unprintable
from contracts.shared.units import MAX_VALUE
from contracts.stats import BUCKET_COUNT, CallStats, bucket_index

FIGURES = st.one_of(
    st.integers(0, MAX_VALUE),
    st.builds(lambda base, power: base * 10**power, st.integers(0, 999), st.integers(0, 16)),
    st.builds(lambda base, power: base << power, st.integers(0, 1023), st.integers(0, 53)),
)
LATENCIES_NS = st.integers(0, MAX_VALUE // 1000).map(lambda latency_us: latency_us * 1000)
PRINTABLE: st.SearchStrategy[str] = st.characters(exclude_categories=("Cs",)).filter(
    lambda char: not is_unprintable(char)
)


def _fit(text: str) -> bool:
    return text == text.strip(" ") and text not in ("", ".", "..") and len(text.encode()) <= 255


LABELS: st.SearchStrategy[str] = st.text(PRINTABLE, min_size=1, max_size=20).filter(
    lambda text: _fit(text) and not text.startswith("#")
)
NAMES: st.SearchStrategy[str] = st.text(
    PRINTABLE.filter(lambda char: char != "/"), min_size=1, max_size=12
).filter(_fit)
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))


@st.composite
def size_ranges(draw: st.DrawFn) -> SizeRange:
    low = draw(st.one_of(st.just(0), FIGURES))
    return SizeRange(low, draw(st.one_of(st.none(), st.integers(low, MAX_VALUE))))


SOCKETS = {CallType.CONNECT, CallType.ACCEPT}
MOVES_BYTES = (CallType.READ, CallType.WRITE, CallType.MMAP)
YAML_ONLY = {
    *(CallType.FSYNC, Measurement.P50, Measurement.P90, Measurement.P99, Measurement.P99_9),
}


def _call_types(measurement: Measurement) -> st.SearchStrategy[tuple[CallType, ...]]:
    """Return the call types of a measurement, joined in the model's order."""
    if measurement is Measurement.SEEK_DISTANCE:
        return st.just((CallType.SEEK,))
    choice = MOVES_BYTES if measurement is Measurement.BANDWIDTH else tuple(CallType)
    return st.sets(st.sampled_from(choice), min_size=1).map(
        lambda chosen: tuple(call_type for call_type in CallType if call_type in chosen)
    )


@st.composite
def rules(draw: st.DrawFn, measurements: Sequence[Measurement] = tuple(Measurement)) -> Rule:
    """Draw any rule that a contract can have."""
    measurement = draw(st.sampled_from(measurements))
    call_types = () if measurement in RESOURCES else draw(_call_types(measurement))
    has_path = call_types and not SOCKETS.intersection(call_types)
    has_sizes = call_types and set(call_types) <= set(MOVES_BYTES)
    figures = LATENCIES_NS if measurement.quantity is Quantity.LATENCY else FIGURES
    return Rule(
        label=draw(LABELS),
        path=draw(PATHS) if has_path else "/",
        call_types=call_types,
        size_range=draw(size_ranges()) if has_sizes else SizeRange(),
        measurement=measurement,
        threshold=draw(figures),
    )


def is_yaml_only(rule: Rule) -> bool:
    """Return whether Mistral's syntax cannot express the rule."""
    return bool(YAML_ONLY.intersection((*rule.call_types, rule.measurement)))


@st.composite
def contracts(draw: st.DrawFn, rule: st.SearchStrategy[Rule] = rules()) -> Contract:  # noqa: B008
    """Draw any contract with rules from `rule`."""
    drawn = st.lists(rule, min_size=1, max_size=8, unique_by=lambda rule: rule.label)
    return Contract(draw(LATENCIES_NS.filter(bool)), tuple(draw(drawn)))


#: Contracts that can be written in Mistral's syntax.
MISTRAL_CONTRACTS = contracts(rules().filter(lambda rule: not is_yaml_only(rule)))


def stats_of(latencies_ns: Sequence[int], call_bytes: int = 4096, failed: int = 0) -> CallStats:
    """Return the statistics of calls with these latencies, counted one by one."""
    if not latencies_ns:
        return CallStats(failed=failed)
    buckets = [0] * BUCKET_COUNT
    for latency_ns in latencies_ns:
        buckets[bucket_index(latency_ns)] += 1
    return CallStats(
        count=len(latencies_ns),
        bytes=len(latencies_ns) * call_bytes,
        failed=failed,
        latency_total_ns=sum(latencies_ns),
        latency_min_ns=min(latencies_ns),
        latency_max_ns=max(latencies_ns),
        buckets=tuple(buckets),
    )
