# SPDX-License-Identifier: Apache-2.0
"""Applying a recommendation: the order of the steps, each journaled first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sysctl.apply import persistence, units
from sysctl.apply.history import read_history
from sysctl.apply.plan import ApplyPlan
from sysctl.host.applied_host import AppliedHost, utc_now
from sysctl.host.system import HostError, System


@dataclass(frozen=True)
class Options:
    """How to apply: with a file, with remounts, for a trial period (s), with a unit at boot.

    With `as_ratio` ratios stay on other memory; more than `max_at_risk_bytes` is refused.
    """

    persist: bool = False
    mounts: bool = False
    trial_s: int | None = None
    install_recovery: bool = False
    as_ratio: bool = False
    max_at_risk_bytes: int | None = None


def check(system: System, plan: ApplyPlan, options: Options) -> None:
    """Raise HostError for what cannot be done, before anything is changed."""
    if options.trial_s is not None:
        units.require_start_by_systemd(system, "--for")
    if options.install_recovery:
        units.require_start_by_systemd(system, "--install-recovery")
        persistence.check_is_free(system, units.RECOVERY_PATH)
    if options.persist:
        persistence.persisted_file(system, plan.fitted.change, read_history(system))
    mount = plan.mount
    if options.mounts and mount and mount.is_change and mount.takes_fresh_mount:
        raise HostError(
            f"a remount of {mount.target} cannot set {','.join(mount.new)}",
            "omit --mounts, write the options into /etc/fstab, then unmount and mount the volume",
        )


def perform(host: AppliedHost, plan: ApplyPlan, options: Options) -> list[str]:
    """Apply everything or nothing: after an error or a signal the changes are reverted.

    Returns what was done, in sentences. Raises HostError.
    """
    done, change = [], plan.fitted.change
    if options.install_recovery:
        done.append(install_recovery(host))
    if options.trial_s is not None:
        ends_at = utc_now() + timedelta(seconds=options.trial_s)
        host.start_trial(units.revert_argv(options.trial_s, units.program()), ends_at)
        done.append(f"the old values return automatically at {ends_at:%Y-%m-%d %H:%M:%S} UTC")
    history = read_history(host.system)  # the file contains the old values
    file = persistence.persisted_file(host.system, change, history) if options.persist else None
    host.apply_sysctls(
        change.sysctl_values, for_boots=options.persist, stands_for=plan.fitted.stands_for
    )
    if file:
        host.write_file(file.path, file.text)
        done.append(f"wrote {file.path}, which is read at every boot")
    if plan.disk and plan.knobs:
        host.apply_knobs(plan.disk, {knob.name: knob.new for knob in plan.knobs})
    if options.mounts and plan.mount:
        host.apply_mount_words(plan.mount.target, plan.mount.new)
    if options.trial_s is None:
        host.end_trial()
    host.keep()
    return done


def install_recovery(host: AppliedHost) -> str:
    """Install and enable the unit that recovers at boot; `rollback` does not remove it."""
    units.require_start_by_systemd(host.system, "--install-recovery")
    persistence.check_is_free(host.system, units.RECOVERY_PATH)
    host.install_file(units.RECOVERY_PATH, units.recovery_unit(units.program()))
    host.system.run(["systemctl", "daemon-reload"])
    host.system.run(["systemctl", "enable", units.RECOVERY_UNIT])
    return f"{units.RECOVERY_UNIT} reverts at boot the changes of a killed run"
