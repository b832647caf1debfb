# SPDX-License-Identifier: Apache-2.0
"""Commands that install what is missing, for the host's distribution."""

from __future__ import annotations

from importlib import resources

from profiler.requirements.host import CheckedHost

#: ID or ID_LIKE in /etc/os-release → the column of packages.tsv.
PACKAGE_MANAGERS = {
    **dict.fromkeys(("debian", "ubuntu"), "apt"),
    **dict.fromkeys(("amzn", "fedora", "rhel", "centos"), "dnf"),
}
_INSTALL = {"apt": "apt-get install --no-install-recommends", "dnf": "dnf install"}
_REINSTALL = {"apt": "apt-get install --reinstall", "dnf": "dnf reinstall"}


def packages() -> dict[str, dict[str, str]]:
    """Return the table packages.tsv: need → {"apt": package, "dnf": package}."""
    text = resources.files("profiler").joinpath("packages.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return {need: {"apt": apt, "dnf": dnf} for need, _extra, apt, dnf in rows}


def install(host: CheckedHost, need: str) -> str:
    """Return the command that installs `need`, a row of packages.tsv."""
    return _command(host, need, _INSTALL)


def reinstall(host: CheckedHost, need: str) -> str:
    """Return the command that reinstalls `need`, a row of packages.tsv."""
    return _command(host, need, _REINSTALL)


def _command(host: CheckedHost, need: str, commands: dict[str, str]) -> str:
    release = host.fields("/etc/os-release", "=")
    for name in (release.get("ID", ""), *release.get("ID_LIKE", "").split()):
        manager = PACKAGE_MANAGERS.get(name)
        if manager:
            return f"{commands[manager]} {packages()[need][manager]}"
    return f"install your distribution's equivalent of Debian's {packages()[need]['apt']}"
