# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared import units
from tests.unit.contract_strategies import FIGURES, LATENCIES_NS

WIDE = (
    units.parse_size_bytes,
    units.parse_latency_ns,
    units.parse_duration_ns,
    units.parse_count,
)
OF_FILES = tuple(
    parse
    for grammar in (units.YAML, units.MISTRAL)
    for parse in (grammar.size_bytes, grammar.latency_ns, grammar.timeframe_ns, grammar.count)
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
def test_a_fraction_of_a_microsecond_has_no_text(latency_ns):
    with pytest.raises(ValueError, match="not a whole number of us"):
        units.exact_latency(latency_ns)


@given(st.sampled_from((*WIDE, *OF_FILES)), st.text(max_size=60))
def test_any_text_is_a_figure_or_a_value_error(parse, text):
    try:
        assert 0 <= parse(text) <= units.MAX_VALUE
    except ValueError as error:
        assert str(error).isprintable()


@given(FIGURES)
def test_figures_that_mistral_accepts_mean_the_same_everywhere(figure):
    size, count = units.exact_size(figure), units.exact_count(figure)
    for grammar in (units.YAML, units.MISTRAL):
        assert grammar.size_bytes(size) == units.parse_size_bytes(size)
        assert grammar.count(count) == units.parse_count(count)


@given(LATENCIES_NS)
def test_a_time_in_mistrals_syntax_is_a_latency_and_a_duration(latency_ns):
    text = units.exact_latency(latency_ns)
    for parse in (units.parse_duration_ns, units.parse_latency_ns, units.MISTRAL.latency_ns):
        assert parse(text) == latency_ns


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("500", 500),
        ("0B", 0),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1K", 1024),
        ("64KiB", 65536),
        ("48MiB", 50331648),
        ("1G", 2**30),
        ("1GiB", 2**30),
        ("1GB", 10**9),
        ("1.5GiB", 3 * 2**29),
        ("0.5G", 2**29),
        ("1.1GiB", 1181116006),
        ("2MB", 2 * 10**6),
        ("15EiB", 15 * 2**60),
        ("18446744073709551615B", 2**64 - 1),
    ],
)
def test_sizes(text, size_bytes):
    assert units.parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "duration_s"),
    [
        ("90", 90),
        ("90s", 90),
        ("1500ms", 1.5),
        ("1.5s", 1.5),
        ("20m", 1200),
        ("20min", 1200),
        ("1h", 3600),
        ("1.5h", 5400),
        ("7d", 604800),
        ("0", 0),
    ],
)
def test_durations(text, duration_s):
    assert units.parse_duration_ns(text) == duration_s * 10**9


@pytest.mark.parametrize(
    ("text", "trials", "duration_s"),
    [
        ("12", 12, None),
        ("20m", None, 1200),
        ("20min", None, 1200),
        ("125s", None, 125),
        ("1.5h", None, 5400),
        ("12,20m", 12, 1200),
        ("20m,12", 12, 1200),
    ],
)
def test_budgets(text, trials, duration_s):
    found = None if duration_s is None else duration_s * 10**9
    assert units.parse_budget(text) == (trials, found)


@pytest.mark.parametrize("text", ["", "x", "12,13", "20m,1h", "12,", "-5", "1.5", "9M", "12,20x"])
def test_an_invalid_budget_is_named(text):
    with pytest.raises(ValueError, match=r"use trials \(12\), time \(20m\) or both \(12,20m\)"):
        units.parse_budget(text)


@pytest.mark.parametrize("text", ["0", "0s", "12,0s", "0,20m"])
def test_a_budget_of_zero_is_refused(text):
    with pytest.raises(ValueError, match="must be more than 0"):
        units.parse_budget(text)


@pytest.mark.parametrize(
    ("parse", "text", "problem"),
    [
        (units.parse_size_bytes, "1mb", "invalid size '1mb'; did you mean 1MB?"),
        (units.parse_size_bytes, "2g", "invalid size '2g'; did you mean 2G?"),
        (units.parse_size_bytes, "-1GB", "invalid size '-1GB'; it must not be negative"),
        (units.parse_size_bytes, "1 GiB", "invalid size '1 GiB'; use a number with a unit, such"),
        (units.parse_size_bytes, "", "invalid size ''"),
        (units.parse_size_bytes, ".5G", "invalid size '.5G'"),
        (units.parse_size_bytes, "1e9", "invalid size '1e9'"),
        (units.parse_size_bytes, "16EiB", "too large; use at most 15EiB"),
        (units.parse_duration_ns, "213504d", "too large; use at most 213503d"),
        (units.parse_latency_ns, "18446744074s", "too large; use at most 18446744073s"),
        (units.parse_budget, "1000000", "too large; use at most 999999 trials"),
        (units.parse_size_bytes, "0.1B", "too small"),
        (units.parse_size_bytes, "9" * 1000, "'9999999999999999999999999999999999999999'…"),
        (units.parse_duration_ns, "20M", "invalid duration '20M'; did you mean 20m?"),
        (units.parse_duration_ns, "1w", "invalid duration '1w'; use a number with a unit, such as"),
        (units.parse_duration_ns, "1h30m", "invalid duration '1h30m'"),
        (units.parse_latency_ns, "30", "invalid latency '30'; use a number with us, ms or s"),
        (units.parse_count, "1us", "invalid count '1us'; use a whole number, such as 500 or 10k"),
        (units.parse_count, "1.5", "invalid count '1.5'"),
        (units.YAML.size_bytes, "1", "invalid size '1'; use a number with a unit, such as 500MiB"),
        (units.YAML.timeframe_ns, "0.0s", "invalid timeframe '0.0s'; it must be longer than 0"),
        (units.YAML.timeframe_ns, "90", "invalid timeframe '90'; use a number with a unit"),
        (units.MISTRAL.size_bytes, "1G", "invalid size '1G'; use a whole number with B, kB, MB"),
        (units.MISTRAL.size_bytes, "1.5GiB", "invalid size '1.5GiB'"),
        (units.MISTRAL.latency_ns, "1furlong", "'1furlong'; use a whole number with us, ms or s"),
        (units.MISTRAL.latency_ns, "1.5ms", "invalid latency '1.5ms'"),
        (units.MISTRAL.latency_ns, "1", "invalid latency '1'"),
        (units.MISTRAL.latency_ns, "-1us", "invalid latency '-1us'"),
        (units.MISTRAL.latency_ns, "1 us", "invalid latency '1 us'"),
        (units.MISTRAL.latency_ns, "1us\n", r"invalid latency '1us\\n'"),
        (units.MISTRAL.latency_ns, "١us", "invalid latency"),
        (units.MISTRAL.timeframe_ns, "0s", "invalid timeframe '0s'; it must be longer than 0"),
        (units.MISTRAL.timeframe_ns, "1h", "invalid timeframe '1h'; use a whole number with us"),
    ],
)
def test_an_invalid_figure_is_named(parse, text, problem):
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
        (units.format_seconds(3599), "3599 s"),
        (units.format_seconds(1531780), "17 d 17 h"),
        (units.format_minutes(130.2), "2 min 10 s"),
        (units.format_minutes(300), "5 min"),
        (units.format_minutes(3599.7), "1 h"),
        (units.format_minutes(4800), "1 h 20 min"),
        (units.format_minutes(86400), "24 h"),
        (units.format_minutes(12215339 * 60 + 31), "8,482 d 21 h"),
        (units.format_count(15360), "15,360"),
    ],
)
def test_figures_are_rounded_for_reading(shown, expected):
    assert shown == expected
