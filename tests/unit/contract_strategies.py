"""Hypothesis strategies for contracts: what every syntax must carry without a loss."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from contracts.model import CallType, Contract, Measurement, Quantity, Rule, SizeRange
from contracts.stats import BUCKET_COUNT, CallStats, bucket_index
from contracts.text import is_unprintable
from contracts.units import MAX_VALUE

FIGURES = st.one_of(
    st.integers(0, MAX_VALUE),
    st.builds(lambda base, power: base * 10**power, st.integers(0, 999), st.integers(0, 16)),
    st.builds(lambda base, power: base << power, st.integers(0, 1023), st.integers(0, 53)),
)
LATENCIES_NS = st.integers(0, MAX_VALUE // 1000).map(lambda latency_us: latency_us * 1000)
PRINTABLE = st.characters(exclude_categories=("Cs",)).filter(lambda char: not is_unprintable(char))


def _fit(text: str) -> bool:
    return text == text.strip(" ") and text not in ("", ".", "..") and len(text.encode()) <= 255


LABELS = st.text(PRINTABLE, min_size=1, max_size=20).filter(
    lambda text: _fit(text) and not text.startswith("#")
)
NAMES = st.text(PRINTABLE.filter(lambda char: char != "/"), min_size=1, max_size=12).filter(_fit)
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))


@st.composite
def size_ranges(draw: st.DrawFn) -> SizeRange:
    low = draw(st.one_of(st.just(0), FIGURES))
    return SizeRange(low, draw(st.one_of(st.none(), st.integers(low, MAX_VALUE))))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    measurement = draw(st.sampled_from(Measurement))
    figures = LATENCIES_NS if measurement.quantity is Quantity.LATENCY else FIGURES
    return Rule(
        label=draw(LABELS),
        path=draw(PATHS),
        call_type=draw(st.sampled_from(CallType)),
        size_range=draw(size_ranges()),
        measurement=measurement,
        threshold=draw(figures),
    )


@st.composite
def contracts(draw: st.DrawFn) -> Contract:
    drawn = st.lists(rules(), min_size=1, max_size=8, unique_by=lambda rule: rule.label)
    return Contract(draw(LATENCIES_NS.filter(bool)), tuple(draw(drawn)))


def stats_of(latencies_ns: Sequence[int], call_bytes: int = 4096, failed: int = 0) -> CallStats:
    """The statistics of calls that took these latencies, counted one by one."""
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
