"""What to type when something is missing, in the words of the host's own distribution."""

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
    """The table packages.tsv: need → {"apt": package, "dnf": package}."""
    text = resources.files("profiler").joinpath("packages.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return {need: {"apt": apt, "dnf": dnf} for need, _extra, apt, dnf in rows}


def install(host: CheckedHost, need: str) -> str:
    """The command that installs what `need` of packages.tsv names."""
    return _command(host, need, _INSTALL)


def reinstall(host: CheckedHost, need: str) -> str:
    """The command that mends what `need` of packages.tsv names."""
    return _command(host, need, _REINSTALL)


def _command(host: CheckedHost, need: str, commands: dict[str, str]) -> str:
    release = host.fields("/etc/os-release", "=")
    for name in (release.get("ID", ""), *release.get("ID_LIKE", "").split()):
        manager = PACKAGE_MANAGERS.get(name)
        if manager:
            return f"{commands[manager]} {packages()[need][manager]}"
    return f"install the package that Debian calls {packages()[need]['apt']}"
