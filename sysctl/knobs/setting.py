"""A setting: what one trial runs under, and what a recommendation changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sysctl.knobs.catalogue import check_device_values
from sysctl.knobs.transfer import TRANSFER_BY_NAME, transfer_problems
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR, THRESHOLDS


@dataclass(frozen=True)
class Setting:
    """Sysctls as (name, value) pairs in order, mount options, knobs of the disk, the pull's own.

    Of a ratio/bytes pair only one member is named. `mount_options` are the words asked for, None
    when the mount is left as it is. `device` has knobs of the destination's disk
    (`sysctl.knobs.catalogue`) as (name, value) pairs; what it does not name is left as it is.
    `transfer` has settings of the pull (`sysctl.knobs.transfer`), in a sweep that varies them in
    every setting, the present one too: they are handed to the workers, nothing on the host changes.
    """

    sysctls: tuple[tuple[str, int], ...]
    mount_options: str | None = None
    device: tuple[tuple[str, str], ...] = ()
    transfer: tuple[tuple[str, int], ...] = ()

    @property
    def values(self) -> dict[str, int]:
        """The sysctls by name."""
        return dict(self.sysctls)

    def __str__(self) -> str:
        """`dirty_ratio=40 dirty_background_ratio=5 queue/scheduler=none mount=noatime`."""
        words = [f"{name.partition('.')[2]}={value}" for name, value in self.sysctls]
        words += [f"{name}={value}" for name, value in self.device]
        if self.mount_options is not None:
            words.append(f"mount={self.mount_options or 'defaults'}")
        words += [f"{name}={TRANSFER_BY_NAME[name].text(value)}" for name, value in self.transfer]
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """For the results file; `transfer` only where it is varied."""
        return {
            "sysctls": self.values,
            "mount_options": self.mount_options,
            "device": dict(self.device),
            **({"transfer": dict(self.transfer)} if self.transfer else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Setting:
        """Read back `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        options = data["mount_options"]
        if options is not None and not isinstance(options, str):
            raise TypeError("mount_options is neither text nor null")
        pairs = tuple((str(name), int(value)) for name, value in data["sysctls"].items())
        device = {str(name): str(value) for name, value in data.get("device", {}).items()}
        check_device_values(device)
        transfer = {str(name): value for name, value in data.get("transfer", {}).items()}
        problems = transfer_problems(transfer)
        if problems:
            raise ValueError("; ".join(problems))
        return Setting(pairs, options, tuple(device.items()), tuple(transfer.items()))


def notable(setting: Setting) -> Setting:
    """The same without the sysctls at the kernel's default that are no thresholds: for people."""
    told = tuple(
        (name, value)
        for name, value in setting.sysctls
        if name in THRESHOLDS or name not in BY_NAME or value != BY_NAME[name].kernel_default
    )
    return replace(setting, sysctls=told)


def replace_values(present: Mapping[str, int], chosen: Mapping[str, int]) -> dict[str, int]:
    """The present values with the chosen ones; a chosen member of a pair replaces the other."""
    replaced = {
        name for pair in (DIRTY_PAIR, BACKGROUND_PAIR) if set(pair) & set(chosen) for name in pair
    }
    kept = {name: value for name, value in present.items() if name not in replaced}
    return {**kept, **chosen}


def threshold_bytes(values: Mapping[str, int], pair: tuple[str, str], dirtyable_bytes: int) -> int:
    """The bytes that a pair (`DIRTY_PAIR`, `BACKGROUND_PAIR`) means on a host, 0 if not named."""
    ratio_name, bytes_name = pair
    if values.get(bytes_name):
        return values[bytes_name]
    return values.get(ratio_name, 0) * dirtyable_bytes // 100


def invalid_reason(values: Mapping[str, int], dirtyable_bytes: int) -> str | None:
    """Return why the kernel would not take the thresholds as they are written; None if it would.

    Where background ≥ dirty the kernel silently uses half of dirty (`domain_dirty_limits()` in
    mm/page-writeback.c, as of Linux 6.18): such a pair does not mean what it says.
    """
    dirty = threshold_bytes(values, DIRTY_PAIR, dirtyable_bytes)
    background = threshold_bytes(values, BACKGROUND_PAIR, dirtyable_bytes)
    if dirty and background >= dirty:
        return "background is not below dirty: the kernel would silently halve it"
    return None
