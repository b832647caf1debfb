# SPDX-License-Identifier: Apache-2.0
"""What apply reports, as plain data for JSON."""

from __future__ import annotations

from collections.abc import Sequence

from sysctl.apply.persistence import PersistedFile
from sysctl.apply.plan import ApplyPlan, Difference, MountDifference


def plan_document(plan: ApplyPlan, file: PersistedFile | None) -> dict[str, object]:
    """Return the plan: each value now and after the change."""
    return {
        "sysctls": _differences(plan.sysctls),
        "disk": plan.disk.name if plan.disk else None,
        "knobs": _differences(plan.knobs),
        "mount": _mount(plan.mount) if plan.mount else None,
        "file": _file(file) if file else None,
        "amounts": [vars(amount) for amount in plan.fitted.amounts],
        "unmeasured": plan.fitted.unmeasured or None,
        "notes": list(plan.notes),
        "left_out": list(plan.left_out),
    }


def _differences(differences: Sequence[Difference]) -> list[dict[str, object]]:
    return [{**vars(each), "others": [str(other) for other in each.others]} for each in differences]


def _mount(mount: MountDifference) -> dict[str, object]:
    return {**vars(mount), "present": list(mount.present), "new": list(mount.new)}


def _file(file: PersistedFile) -> dict[str, object]:
    return {
        "path": file.path,
        "text": file.text,
        "replaces": file.replaces or None,
        "overridden_by": [str(each) for each in file.overridden_by],
    }
