from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared import units
from tests.unit.contract_strategies import FIGURES, LATENCIES_NS

PARSERS = (
    units.parse_size_bytes,
    units.parse_latency_ns,
    units.parse_count,
    units.parse_timeframe_ns,
)


@given(FIGURES)
def test_a_size_reads_back(size_bytes):
    assert units.parse_size_bytes(units.exact_size(size_bytes)) == size_bytes


@given(FIGURES)
def test_a_count_reads_back(count):
    assert units.parse_count(units.exact_count(count)) == count


@given(LATENCIES_NS)
def test_a_latency_reads_back(latency_ns):
    assert units.parse_latency_ns(units.exact_latency(latency_ns)) == latency_ns


@given(st.integers(1, 10**12).filter(lambda latency_ns: latency_ns % 1000))
def test_a_part_of_a_microsecond_has_no_text(latency_ns):
    with pytest.raises(ValueError, match="no whole number of us"):
        units.exact_latency(latency_ns)


@given(st.sampled_from(PARSERS), st.text(max_size=60))
def test_any_text_is_a_figure_or_a_value_error(parse, text):
    try:
        assert 0 <= parse(text) <= units.MAX_VALUE
    except ValueError as error:
        assert str(error).isprintable()


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0B", 0),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("48MiB", 50331648),
        ("2MB", 2 * 10**6),
        ("15EiB", 15 * 2**60),
        ("18446744073709551615B", 2**64 - 1),
    ],
)
def test_sizes(text, size_bytes):
    assert units.parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("parse", "text", "problem"),
    [
        (units.parse_latency_ns, "1furlong", "'1furlong' is no latency; use us, ms or s"),
        (units.parse_latency_ns, "1.5ms", "'1.5ms' is no latency"),
        (units.parse_latency_ns, "1", "'1' is no latency"),
        (units.parse_latency_ns, "-1us", "'-1us' is no latency"),
        (units.parse_latency_ns, "1 us", "'1 us' is no latency"),
        (units.parse_latency_ns, "1us\n", r"'1us\\n' is no latency"),
        (units.parse_latency_ns, "١us", "is no latency"),
        (units.parse_size_bytes, "1mb", "'1mb' is no size"),
        (units.parse_size_bytes, "16EiB", "too large"),
        (units.parse_size_bytes, "9" * 1000, "'9999999999999999999999999999999999999999'…"),
        (units.parse_count, "1us", "'1us' is no count"),
        (units.parse_timeframe_ns, "0s", "'0s' is no timeframe; it must be longer than 0"),
        (units.parse_timeframe_ns, "1h", "'1h' is no timeframe; use us, ms or s"),
    ],
)
def test_what_is_no_figure_is_named(parse, text, problem):
    with pytest.raises(ValueError, match=problem):
        parse(text)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.format_size(0), "0 B"),
        (units.format_size(1023), "1023 B"),
        (units.format_size(2013265920), "1.88 GiB"),
        (units.format_rate(62.5 * 2**20), "62.5 MiB/s"),
        (units.format_duration(999), "999 ns"),
        (units.format_duration(1234567), "1.23 ms"),
        (units.format_duration(31.5 * 10**9), "31.5 s"),
        (units.format_seconds(18.62), "18.6 s"),
        (units.format_minutes(59.0), "59.0 s"),
        (units.format_minutes(130.2), "2 min 10 s"),
        (units.format_count(15360), "15,360"),
    ],
)
def test_figures_for_reading(shown, expected):
    assert shown == expected
