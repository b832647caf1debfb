# SPDX-License-Identifier: Apache-2.0
"""A setting: the values of one trial, or of a recommendation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sysctl.knobs.catalogue import check_device_values
from sysctl.knobs.transfer import TRANSFER_BY_NAME, transfer_problems
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR, THRESHOLDS


@dataclass(frozen=True)
class Setting:
    """Sysctls as ordered (name, value) pairs, mount options, knobs of the disk, transfer settings.

    Of a ratio/bytes pair only one member is named. `mount_options` are the requested words; None
    leaves the mount unchanged. `device` has knobs of the destination's disk
    (`sysctl.knobs.catalogue`) as (name, value) pairs; the others stay unchanged. `transfer` has
    transfer settings (`sysctl.knobs.transfer`), which are passed to the workers and change nothing
    on the host; if a sweep varies them, every setting has them, the current one too.
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
        """Return the document for the results file; with `transfer` only if it is varied."""
        return {
            "sysctls": self.values,
            "mount_options": self.mount_options,
            "device": dict(self.device),
            **({"transfer": dict(self.transfer)} if self.transfer else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Setting:
        """Parse a document of `to_json`. Raises KeyError, TypeError or ValueError."""
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
    """Return the setting for display: without other sysctls than thresholds at their defaults."""
    shown = tuple(
        (name, value)
        for name, value in setting.sysctls
        if name in THRESHOLDS or name not in BY_NAME or value != BY_NAME[name].kernel_default
    )
    return replace(setting, sysctls=shown)


def replace_values(present: Mapping[str, int], chosen: Mapping[str, int]) -> dict[str, int]:
    """Return the current values with the chosen ones; of a pair the chosen member stays."""
    replaced = {
        name for pair in (DIRTY_PAIR, BACKGROUND_PAIR) if set(pair) & set(chosen) for name in pair
    }
    kept = {name: value for name, value in present.items() if name not in replaced}
    return {**kept, **chosen}


def threshold_bytes(values: Mapping[str, int], pair: tuple[str, str], dirtyable_bytes: int) -> int:
    """Return the bytes of a pair (`DIRTY_PAIR`, `BACKGROUND_PAIR`) on a host; 0 if not named."""
    ratio_name, bytes_name = pair
    if values.get(bytes_name):
        return values[bytes_name]
    return values.get(ratio_name, 0) * dirtyable_bytes // 100


def invalid_reason(values: Mapping[str, int], dirtyable_bytes: int) -> str | None:
    """Return why the kernel would not use the thresholds as written; None if it would.

    If background ≥ dirty, the kernel silently uses half of dirty (`domain_dirty_limits()` in
    mm/page-writeback.c, as of Linux 6.18).
    """
    dirty = threshold_bytes(values, DIRTY_PAIR, dirtyable_bytes)
    background = threshold_bytes(values, BACKGROUND_PAIR, dirtyable_bytes)
    if dirty and background >= dirty:
        return "background must be below dirty (the kernel would use half of dirty instead)"
    return None
