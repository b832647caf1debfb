# SPDX-License-Identifier: Apache-2.0
"""A plan in words: what limits it, the volume, the instance, what settings can do."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.shared.units import exact_size, format_minutes, format_rate
from sysctl.knobs.setting import Setting, notable
from sysctl.volume.instances import MB
from sysctl.volume.limits import Bucket, LimitedBy
from sysctl.volume.planning import MeasuredDevice, Plan

_LIMITS = {
    LimitedBy.NETWORK: "the network is the limit",
    LimitedBy.SOURCE: "the source, as the sweep measured it, is the limit",
    LimitedBy.INSTANCE: "the instance's EBS bandwidth is the limit",
    LimitedBy.INSTANCE_CREDITS: "the instance has no EBS credits, and its baseline is the limit",
    LimitedBy.VOLUME: "the volume is the limit",
    LimitedBy.VOLUME_CREDITS: "the volume has no credits, and its baseline is the limit",
}


def limit_text(limited_by: LimitedBy) -> str:
    """Return what limits a pull, as a clause."""
    return _LIMITS[limited_by]


def percent(share: float) -> str:
    """Return `96.3 %`."""
    return f"{100 * share:.3g} %"


def usd(amount: float | None) -> str:
    """Return `$22.50`, or that the price is unknown."""
    return "price unknown" if amount is None else f"${amount:,.2f} a month"


def volume_name(plan: Plan) -> str:
    """Return `st1, 500 GiB` or `gp3, 100 GiB, 3,000 IOPS, 125 MiB/s`."""
    volume = plan.volume
    if isinstance(volume, MeasuredDevice):
        return "as the sweep measured it"
    words = [volume.type]
    if volume.size_gib is not None:
        words.append(f"{volume.size_gib:,} GiB")
    if volume.iops is not None:
        words.append(f"{volume.iops:,} IOPS")
    if volume.mib_per_s is not None:
        words.append(f"{volume.mib_per_s:,g} MiB/s")
    return ", ".join(words)


def volume_phrase(plan: Plan) -> str:
    """Return the same to be read in a sentence: `gp3 of 100 GiB with 3,000 IOPS and 125 MiB/s`."""
    volume = plan.volume
    if isinstance(volume, MeasuredDevice):
        return "the device"
    size = "" if volume.size_gib is None else f" of {volume.size_gib:,} GiB"
    figures = [] if volume.iops is None else [f"{volume.iops:,} IOPS"]
    figures += [] if volume.mib_per_s is None else [f"{volume.mib_per_s:,g} MiB/s"]
    return f"{volume.type}{size}{' with ' if figures else ''}{' and '.join(figures)}"


def volume_text(plan: Plan) -> str:
    """Return the volume, its rates and its price."""
    if isinstance(plan.volume, MeasuredDevice):
        return f"{format_rate(plan.volume.bytes_per_s)}, {volume_name(plan)}"
    bucket = next((b for b in plan.path.buckets if b.owner is LimitedBy.VOLUME), None)
    rates = f": {_bucket_text(plan, bucket)}" if bucket else _fixed_text(plan)
    doubt = " (not verified)" if plan.prices.is_unverified(plan.volume) else ""
    return f"{volume_name(plan)}{rates}; {usd(plan.monthly_usd)}{doubt}"


def _fixed_text(plan: Plan) -> str:
    """Return the rate of a volume without credits; "" if its throughput is in its name."""
    fixed = [c.bytes_per_s for c in plan.path.ceilings if c.owner is LimitedBy.VOLUME]
    if isinstance(plan.volume, MeasuredDevice) or plan.volume.mib_per_s is not None:
        return ""
    return f": {format_rate(min(fixed))}"


def _bucket_text(plan: Plan, bucket: Bucket) -> str:
    fixed = [c.bytes_per_s for c in plan.path.ceilings if c.owner is LimitedBy.VOLUME]
    burst = min([bucket.ceiling(1.0).bytes_per_s, *fixed])
    baseline = min([bucket.ceiling(0.0).bytes_per_s, *fixed])
    if burst <= baseline:
        return f"{format_rate(burst)}, with credits or without"
    return f"{format_rate(burst)} with credits, {format_rate(baseline)} without"


def instance_text(plan: Plan) -> str:
    """Return the instance's EBS and network rates."""
    instance = plan.node.instance
    if instance is None:
        return "unknown"
    words = []
    if instance.ebs is None:
        words.append("EBS unknown")
    else:
        ebs = instance.ebs
        maximum = format_rate(ebs.maximum_mb_per_s * MB)
        words.append(f"EBS {maximum}")
        if ebs.baseline_mb_per_s < ebs.maximum_mb_per_s:
            words[0] += f" with credits, {format_rate(ebs.baseline_mb_per_s * MB)} without"
    source = plan.node.source
    if source is not None:
        words.append(f"{source.owner.value} {format_rate(source.bytes_per_s)}")
    return f"{instance.name}: {'; '.join(words)}"


def words_of(plan: Plan) -> str:
    """Return the options of the pull and the instance, for a command to try next."""
    words = [f"--burst {exact_size(plan.pull.size_bytes)}"]
    if plan.pull.io_bytes is not None:
        words.append(f"--io-size {exact_size(plan.pull.io_bytes)}")
    if plan.pull.idle_s is not None:
        words.append(f"--idle {exact_seconds(plan.pull.idle_s)}")
    instance, source = plan.node.instance, plan.node.source
    if instance is not None:
        words.append(f"--instance-type {instance.name}")
        peak = instance.network_bytes_per_s(is_bursting=True)
        if source and source.owner is LimitedBy.NETWORK and source.bytes_per_s != peak:
            words.append("--network baseline")
    return " ".join(words)


def exact_seconds(time_s: float) -> str:
    """Return a time as an option takes it: `2700s`, never `2.7e+03s`."""
    return f"{time_s:.9f}".rstrip("0").rstrip(".") + "s"


def volume_options(plan: Plan) -> list[str]:
    """Return the options of the volume, for a command to try next; none of a measured device."""
    volume = plan.volume
    if isinstance(volume, MeasuredDevice):
        return []
    words = ["--volume-type", volume.type]
    words += [] if volume.size_gib is None else ["--volume-size", f"{volume.size_gib}GiB"]
    words += [] if volume.iops is None else ["--iops", str(volume.iops)]
    words += [] if volume.mib_per_s is None else ["--throughput", f"{volume.mib_per_s:g}MiB/s"]
    return words


def write_back_texts(plan: Plan) -> Iterator[str]:
    """Yield what write-back does to the return, and whether settings help."""
    write_back, source = plan.write_back, plan.node.source
    if source is None:
        yield (
            "Whether write-back settings help cannot be determined: how fast data arrives is "
            "unknown (--instance-type or --results)."
        )
        return
    if write_back is None:
        yield "When writers return depends on the memory, which is unknown (--memory)."
        return
    returns = format_minutes(write_back.current.return_s)
    waits_s = write_back.current.waits_from_s or 0.0
    if not write_back.makes_writers_wait:
        yield (
            f"Writers return after {returns}. Write-back settings do not help: writers do not wait."
        )
        return
    if write_back.best is None:
        yield (
            f"Writers wait for write-back from {format_minutes(waits_s)} on and return after "
            f"{returns}. No write-back setting shortens this noticeably."
        )
        return
    best = write_back.best
    sooner = f"with {setting_text(best.setting)} after {format_minutes(best.return_s)} (predicted)"
    yield (
        f"Writers wait for write-back from {format_minutes(waits_s)} on and return after "
        f"{returns}; {sooner}. No setting makes data durable sooner."
    )


def setting_text(setting: Setting) -> str:
    """Return `vm.dirty_ratio 60, vm.dirty_background_ratio 10`."""
    return ", ".join(f"{name} {value}" for name, value in notable(setting).sysctls)
