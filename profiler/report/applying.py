# SPDX-License-Identifier: Apache-2.0
"""What apply, verify and status print: the difference, the compliance table, the state."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from contracts.shared.text import printable
from contracts.shared.units import format_size
from profiler.report.console import plain_table, print_copyable, print_lines
from sysctl.apply.compliance import Compliance
from sysctl.apply.persistence import PersistedFile
from sysctl.apply.plan import ApplyPlan, Difference, MountDifference
from sysctl.apply.state import AppliedState


def print_plan(plan: ApplyPlan, console: Console, *, remounts: bool) -> None:
    """Print current and new values, what both mean in bytes, why, and what else sets them."""
    console.print(_plan_table(plan))
    for each in (*plan.sysctls, *plan.knobs):
        _print(console, f"\n{each.name}: {each.reason}" if each.reason else "")
        for other in each.others:
            _print(console, f"  also set: {other}", "yellow")
    _print_amounts(plan, console)
    for sentence in plan.left_out:
        _print(console, f"\nleft out, because this host has no place for it: {sentence}", "yellow")
    if plan.left_out:
        _print(console, "  it was measured together with the rest, which may gain less alone")
    for note in plan.notes:
        _print(console, f"\n{note}", "yellow")
    if plan.mount is not None:
        _print_mount(plan.mount, console, remounts=remounts)


def _plan_table(plan: ApplyPlan) -> Table:
    table = plain_table("setting", "current", "", "new")
    disk = plan.disk.name + " " if plan.disk else ""
    for prefix, differences in (("", plan.sysctls), (disk, plan.knobs)):
        for each in differences:
            style = "bold" if each.is_change else "dim"
            present = _with_size(each.present, each.present_bytes)
            new = _with_size(each.new, each.new_bytes) if each.is_change else "as it is"
            cells = (prefix + each.name, present, "→" if each.is_change else "", new)
            table.add_row(*(printable(cell) for cell in cells), style=style)
    return table


def _print_amounts(plan: ApplyPlan, console: Console) -> None:
    """Print the thresholds in bytes and as ratios, as measured and as set here."""
    fitted = plan.fitted
    if not fitted.amounts:
        return
    measured, here = fitted.change.evidence.dirtyable_bytes, fitted.here_bytes
    table = plain_table("", "measured", "same ratio here", "set here")
    table.add_row("dirtyable memory", *map(format_size, (measured, here, here)))
    for each in fitted.amounts:
        sizes = (each.measured_bytes, each.same_ratio_bytes, each.set_bytes)
        cells = (_with_share(*pair) for pair in zip(sizes, (measured, here, here)))
        table.add_row(each.name, *cells)
    _print(console, f"\n{fitted.unmeasured}", "yellow")
    console.print()
    console.print(table)


def _with_share(size_bytes: int, of_bytes: int) -> str:
    """Return `2.43 GiB (11%)`."""
    return f"{format_size(size_bytes)} ({100 * size_bytes / max(1, of_bytes):.3g}%)"


def _with_size(value: str, size_bytes: int | None) -> str:
    return value if size_bytes is None else f"{value} ({format_size(size_bytes)})"


def _print_mount(mount: MountDifference, console: Console, *, remounts: bool) -> None:
    present, new = (",".join(words) or "defaults" for words in (mount.present, mount.new))
    if not mount.is_change:
        _print(console, f"\nmount {mount.target}: {present}, as it is", "dim")
        return
    _print(console, f"\nmount {mount.target}: {present} → {new}", "bold")
    _print(console, f"  {mount.reason}")
    if remounts:
        _print(console, "  by a remount; for the next boot, in /etc/fstab:")
    else:
        how = "a fresh mount" if mount.takes_fresh_mount else "a remount, which --mounts does"
        _print(console, f"  not changed here: it takes {how}. In /etc/fstab:")
    print_copyable(f"  {mount.fstab}", console)


def print_persisted_file(file: PersistedFile, console: Console) -> None:
    """Print the path, what happens to an existing file, and what overrides it at boot."""
    _print(console, f"\nfor each boot: {file.path}")
    if file.replaces:
        _print(console, f"  {file.replaces}", "yellow")
    for line in file.overridden_by:
        _print(console, f"  overridden there by {line}", "yellow")


def changed_names(plan: ApplyPlan) -> list[str]:
    """Return the sysctls and knobs that would change."""
    differences: Sequence[Difference] = (*plan.sysctls, *plan.knobs)
    return [each.name for each in differences if each.is_change]


def print_compliance(
    checks: Sequence[Compliance], console: Console, notes: Sequence[str] = ()
) -> None:
    """Print a row for each setting, with reasons and notes below the table."""
    table = plain_table("setting", "wanted", "current", "")
    for check in checks:
        word = "compliant" if check.is_compliant else "NOT compliant"
        cells = (check.name, check.wanted, check.present, word)
        style = None if check.is_compliant else "bold red"
        table.add_row(*(printable(cell) for cell in cells), style=style)
    console.print(table)
    for check in checks:
        if check.reason:
            _print(console, f"\n{check.name}: {check.reason}")
        elif check.note:
            _print(console, f"\n{check.name}: {check.note}", "dim")
    for note in notes:
        _print(console, f"\n{note}", "yellow")


def print_state(state: AppliedState, console: Console) -> None:
    """Print what is applied and since when, what a killed run left, and which process runs."""
    for item in state.applied:
        _print(console, f"applied at {item.at}: {item.what}")
    if not state.applied:
        _print(console, "nothing is applied")
    if state.trial_ends_at:
        _print(console, f"trial period: the originals return at {state.trial_ends_at}", "yellow")
    for path in state.files:
        _print(console, f"read at every boot: {path}")
    for change in state.interrupted:
        _print(console, f"left by a killed run: {change}", "red")
    if state.interrupted:
        _print(console, "  → the next sweep or `writewise rollback --interrupted` restores it")
    for run in state.runs:
        _print(console, f"at work: {run}, with {run.words}" + ", draining" * run.is_draining)
    if state.lock_holder:
        _print(console, f"at work: {state.lock_holder}")


def _print(console: Console, line: str, style: str = "") -> None:
    """Print a sentence; a newline at its beginning is an empty line."""
    if line.startswith("\n"):
        console.print()
    if line:
        print_lines([line.lstrip("\n")], console, style, hanging=2)
