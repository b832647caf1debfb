# SPDX-License-Identifier: Apache-2.0
"""The costs of the recommended and the current settings, for the terminal and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from contracts.shared.units import counted, format_seconds, format_size
from sysctl.evidence.comparison import Side
from sysctl.evidence.price import Exceeded, Limits, Objection, Price
from sysctl.evidence.price_label import (
    ASSUMED_RATE_BYTES_PER_S,
    WAIT_NOTICED_S,
    WAIT_S,
    Criterion,
    Figures,
    Label,
    Rating,
    left_s,
)
from sysctl.evidence.price_seen import ORDERED, Latency, PriceSeen
from sysctl.knobs.setting import Setting

#: Times to durable that differ by no more come from the speed of the same device.
_SAME_DURABLE = 0.10
_UNKNOWN = "not observed"
_LOSES = (
    "The bytes at risk are lost in a spot interruption or termination without a clean shutdown, in "
    "a kernel panic and in a failure of the host. A snapshot of the volume that is taken before "
    "they are durable lacks them, unless `sync` or `fsfreeze` ran before. A program that crashes "
    "loses none of them."
)


def price_table(sides: Sequence[tuple[str, Price]]) -> Table:
    """Return a table with a column for each side, without rows that have no figure."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("cost", no_wrap=True)
    for title, _ in sides:
        table.add_column(title, justify="right", overflow="fold")
    prices = [price for _, price in sides]
    for title, show in _ROWS:
        cells = [show(price) for price in prices]
        if any(cells):
            table.add_row(title, *(cell or _UNKNOWN for cell in cells))
    return table


def price_lines(best: Side | None, price: Price | None, present: Price) -> Iterator[str]:
    """Yield why the label applies, when all data is durable, and which events lose data before."""
    if price is None or best is None:
        yield from _rating_lines("The risk of the current settings", present.rating)
        return
    yield from _rating_lines("The risk", price.rating)
    yield _LOSES
    yield from _durable_lines(best, price, present)
    yield from _ordered_lines(price.seen, present.seen)
    if price.seen and price.seen.problem:
        yield f"In the run with a neighbour: {price.seen.problem}."


def other_price_lines(others: Iterable[tuple[Setting, Price]]) -> Iterator[str]:
    """Yield a line for each other setting that had a run with a neighbour."""
    for setting, price in others:
        cells = ((title.strip(), show(price).replace("\n", ", ")) for title, show in _ROWS)
        shown = "; ".join(f"{title} {cell}" for title, cell in cells if cell)
        yield f"The cost of {setting}: {shown}."


def _rating_lines(subject: str, rating: Rating | None) -> Iterator[str]:
    if rating is None:
        return
    because = f": {'; '.join(because_texts(rating))}" if rating.because else ""
    names = ", ".join(criterion.value for criterion in rating.unknown)
    unknown = f" Unknown: {names}." if names else ""
    yield f"{subject} is {rating.label.value}{because}.{unknown}"


def because_texts(rating: Rating) -> tuple[str, ...]:
    """Return the figures that decide a label, in words."""
    return tuple(_because(criterion, rating.figures) for criterion in rating.because)


def _because(criterion: Criterion, figures: Figures) -> str:
    if criterion is Criterion.AT_RISK:
        share = figures.at_risk_bytes / figures.memory_bytes
        at_risk = format_size(figures.at_risk_bytes)
        return f"{at_risk} at risk is {share:.0%} of the memory that may be dirty"
    if criterion is Criterion.AFTER_RETURN:
        left = format_seconds(left_s(figures))
        if figures.after_return_s is not None:
            return f"data of the pull is not durable until {left} after the return"
        return (
            f"at {format_size(ASSUMED_RATE_BYTES_PER_S)}/s the bytes at risk take {left} to write"
        )
    if criterion is Criterion.CEILING:
        share = figures.ceiling_bytes / figures.memory_bytes
        return f"a larger pull could make {share:.0%} of the memory dirty"
    return _noticed(criterion, figures.seen, figures.present_seen)


def _noticed(criterion: Criterion, seen: PriceSeen | None, present: PriceSeen | None) -> str:
    """Return a figure of a run with a neighbour in words; a missing one is named."""
    if seen and criterion is Criterion.PRESSURE and seen.memory_pressure_share is not None:
        return f"programs waited for memory {seen.memory_pressure_share:.1%} of the time"
    if seen and criterion is Criterion.LOST and seen.lost_bytes is not None:
        lost = format_size(seen.lost_bytes)
        return f"{lost} of programs' memory were swapped out or read back"
    if seen and seen.fsync and criterion is Criterion.FSYNC:
        return _waited("fsync", seen.fsync, present.fsync if present else None)
    if seen and seen.read and criterion is Criterion.READ:
        return _waited("read", seen.read, present.read if present else None)
    return criterion.value


def _waited(name: str, seen: Latency, present: Latency | None) -> str:
    """Return a neighbour's longest call in words, with the current one if that decides."""
    is_long_alone = WAIT_S.label(seen.worst_s) is not Label.LOW
    before = ""
    if present and not is_long_alone:
        before = f" ({format_seconds(present.worst_s)} under the current settings)"
    return f"another program's {name} took up to {format_seconds(seen.worst_s)}{before}"


def durable_text(price: Price) -> str:
    """Return `31.4 s`, `31.4 s predicted` or `not measured`."""
    if price.durable_s is None:
        return "not measured"
    return f"{format_seconds(price.durable_s)}{' predicted' if price.is_durable_predicted else ''}"


def objection_text(found: Objection) -> str:
    """Return `1.70 GiB at risk, more than 1.00 GiB`."""
    price, limits = found.price, found.limits
    if found.exceeded is Exceeded.AT_RISK:
        bound = "" if price.is_measured else "up to "
        at_risk, most = _distinct(price.at_risk_bytes, limits.max_at_risk_bytes or 0)
        return f"{bound}{at_risk} at risk, more than {most}"
    if found.exceeded is Exceeded.DURABLE_UNKNOWN:
        return "its time to durable was not measured"
    latest = format_seconds(limits.max_durable_s or 0.0)
    return f"durable after {durable_text(price)}, later than {latest}"


def _distinct(size_bytes: int, limit_bytes: int) -> tuple[str, str]:
    """Return both sizes in readable form, in exact bytes if they would look the same."""
    shown = format_size(size_bytes), format_size(limit_bytes)
    if shown[0] != shown[1]:
        return shown
    return counted(size_bytes, "byte"), counted(limit_bytes, "byte")


def limits_text(limits: Limits) -> str:
    """Return `at most 1.00 GiB at risk, durable after 60.0 s at the latest`, or `no limits`."""
    at_risk, durable_s = limits.max_at_risk_bytes, limits.max_durable_s
    words = [] if at_risk is None else [f"at most {format_size(at_risk)} at risk"]
    if durable_s is not None:
        words.append(f"durable after {format_seconds(durable_s)} at the latest")
    return ", ".join(words) or "no limits"


def _durable_lines(best: Side, price: Price, present: Price) -> Iterator[str]:
    """Yield when all data is durable, and for how long after the return it is not."""
    if price.durable_s is None:
        return
    before_s = present.durable_s
    is_same = before_s is not None and abs(price.durable_s / before_s - 1) <= _SAME_DURABLE
    why = ": the device is as fast as before, but the writers no longer wait for it"
    exposed_s = max(0.0, price.durable_s - best.return_s.median)
    yield (
        f"All data is on the device after {durable_text(price)} ({durable_text(present)} under the "
        f"current settings){why if is_same else ''}. Data of the pull is at risk for "
        f"{format_seconds(exposed_s)} after the return."
    )


def _ordered_lines(seen: PriceSeen | None, present: PriceSeen | None) -> Iterator[str]:
    """Yield a line if ext4 made an fsync wait long for data of the pull."""
    if seen is None or seen.fsync is None or seen.ext4_data_mode != ORDERED:
        return
    before = present.fsync if present else None
    if not _is_long(seen.fsync, before):
        return
    was = f" ({format_seconds(before.worst_s)} under the current settings)" if before else ""
    yield (
        "This volume is ext4 with data=ordered: the fsync of any program commits the journal, and "
        "so it can wait for data of the pull. The longest fsync of the neighbour took "
        f"{format_seconds(seen.fsync.worst_s)}{was}."
    )


def _is_long(seen: Latency, present: Latency | None) -> bool:
    """Return whether it is long in absolute terms, or noticeable and twice as long as before."""
    is_longer = present is not None and seen.worst_s > max(WAIT_NOTICED_S, 2 * present.worst_s)
    return is_longer or seen.worst_s > WAIT_S.moderate


def _latency_text(latency: Latency | None) -> str:
    if latency is None:
        return ""
    return f"{format_seconds(latency.median_s)}, worst {format_seconds(latency.worst_s)}"


def _memory_text(seen: PriceSeen | None) -> str:
    """Return a text for each known figure."""
    if seen is None:
        return ""
    pressure, stalls = seen.memory_pressure_share, seen.direct_reclaim_stalls
    sizes = {"swapped out": seen.swapped_out_bytes, "read back": seen.refaulted_bytes}
    lines = [f"{format_size(n)} {what}" for what, n in sizes.items() if n is not None]
    lines += [counted(stalls, "direct reclaim")] if stalls is not None else []
    lines += [f"pressure {pressure:.1%}"] if pressure is not None else []
    return "\n".join(lines)


_ROWS: tuple[tuple[str, Callable[[Price], str]], ...] = (
    ("bytes at risk, at most", lambda price: format_size(price.at_risk_bytes)),
    ("  with a larger pull", lambda price: format_size(price.ceiling_bytes)),
    ("time to durable", durable_text),
    ("neighbour's fsync", lambda price: _latency_text(price.seen.fsync if price.seen else None)),
    ("neighbour's reads", lambda price: _latency_text(price.seen.read if price.seen else None)),
    ("programs' memory", lambda price: _memory_text(price.seen)),
    ("risk", lambda price: price.rating.label.value if price.rating else ""),
)


def price_document(price: Price) -> dict[str, object]:
    """Return the same as plain data; the names have the units."""
    rating = price.rating
    return {
        "label": rating.label.value if rating else None,
        "because": list(because_texts(rating)) if rating else [],
        "not_known": [criterion.value for criterion in rating.unknown] if rating else [],
        "at_risk_bytes": price.at_risk_bytes,
        "at_risk_is_measured": price.is_measured,
        "ceiling_bytes": price.ceiling_bytes,
        "durable_s": price.durable_s,
        "durable_is_predicted": price.is_durable_predicted,
        "after_return_s": price.after_return_s,
        "observed": _seen_document(price.seen) if price.seen else None,
    }


def other_price_documents(
    others: Iterable[tuple[Setting, Price]],
) -> Iterator[dict[str, object]]:
    """Return the costs of the other settings that had a run with a neighbour."""
    for setting, price in others:
        yield {**setting.to_json(), **price_document(price)}


def _seen_document(seen: PriceSeen) -> dict[str, object]:
    return {
        "observed_s": seen.observed_s,
        "fsync": _latency_document(seen.fsync),
        "reads": _latency_document(seen.read),
        "swapped_out_bytes": seen.swapped_out_bytes,
        "read_back_bytes": seen.refaulted_bytes,
        "direct_reclaim_stalls": seen.direct_reclaim_stalls,
        "memory_pressure_share": seen.memory_pressure_share,
        "ext4_data_mode": seen.ext4_data_mode,
        "problem": seen.problem,
    }


def _latency_document(latency: Latency | None) -> dict[str, object] | None:
    if latency is None:
        return None
    return {
        "median_s": latency.median_s,
        "worst_s": latency.worst_s,
        "calls": latency.count,
    }
