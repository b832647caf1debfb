"""The two halves of a joint setting: what the host is told, and what the pull is told.

Of a setting that changes both, one may do all of it. So each half alone is measured in pairs, too.
"""

from __future__ import annotations

from dataclasses import replace

from sysctl.setting import Setting, replace_values


def halves_of(setting: Setting, present: Setting) -> tuple[Setting, ...]:
    """Return the setting with the host as at present, and with the pull as at present.

    None where it changes only one of the two.
    """
    is_joint = (
        setting.transfer != present.transfer
        and replace_values(present.values, setting.values) != present.values
    )
    if not is_joint:
        return ()
    values = present.values
    is_named = set(setting.values) <= set(values)
    kept = {name: values[name] for name in setting.values} if is_named else values
    return replace(setting, sysctls=tuple(kept.items())), replace(
        setting, transfer=present.transfer
    )
