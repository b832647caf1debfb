# SPDX-License-Identifier: Apache-2.0
"""The address of the ledger: a PostgreSQL URL without a password, over TLS or a Unix socket."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from contracts.shared.errors import UsageError
from contracts.shared.text import printable

_SCHEMES = ("postgresql", "postgres")
_HOW_INSTEAD = (
    "put it into a file of mode 0600 that PGPASSFILE names, with the line "
    "HOST:PORT:DATABASE:USER:PASSWORD"
)
_FORM = "use postgresql://USER@HOST/DATABASE, or postgresql:///DATABASE?host=/run/postgresql"
_VERIFY_FULL = "verify-full"
#: What the URL may say about TLS and the place; everything else is ours.
_OPTIONS = ("host", "port", "user", "sslmode", "sslrootcert", "sslcert", "sslkey")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?")
_DEFAULT_PORT = 5432


@dataclass(frozen=True)
class LedgerAddress:
    """Where the ledger is. `host` is a name, or the absolute path of a socket's directory."""

    host: str
    database: str
    user: str | None = None
    port: int = _DEFAULT_PORT
    tls: tuple[tuple[str, str], ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether it is a Unix socket, which needs no TLS."""
        return self.host.startswith("/")

    def __str__(self) -> str:
        """Return the address for messages; it has no password."""
        user = f"{self.user}@" if self.user else ""
        if self.is_local:
            return f"postgresql://{user}/{self.database}?host={self.host}"
        return f"postgresql://{user}{self.host}:{self.port}/{self.database}"

    def options(self) -> dict[str, str]:
        """Return the options of libpq."""
        found = {"host": self.host, "port": str(self.port), "dbname": self.database}
        if self.user:
            found["user"] = self.user
        return {**found, "sslmode": "disable"} if self.is_local else {**found, **dict(self.tls)}


def parse_address(text: str) -> LedgerAddress:
    """Return the address of a URL. Raises UsageError, without quoting what may be a password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise UsageError("the address of the study is not a valid URL", _FORM) from None
    if parts.scheme not in _SCHEMES:
        raise UsageError("the address of the study is not a postgresql:// URL", _FORM)
    named = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.password is not None or {"password", "passfile"} & named.keys():
        raise UsageError("the address of the study contains a password", _HOW_INSTEAD)
    unknown = sorted(set(named) - set(_OPTIONS))
    if unknown or parts.fragment:
        what = printable(unknown[0])[:40] if unknown else "#"
        raise UsageError(
            f"unknown option {what!r} in the address of the study",
            f"use some of {', '.join(_OPTIONS)}",
        )
    host = named.get("host") or unquote(parts.hostname or "")
    user = named.get("user") or (unquote(parts.username) if parts.username else None)
    database = unquote(parts.path.lstrip("/"))
    _check_names(host, user, database)
    tls = () if host.startswith("/") else _tls(named)
    return LedgerAddress(host, database, user, _port(named.get("port"), port), tls)


def _check_names(host: str, user: str | None, database: str) -> None:
    # a comma would begin another host, which is then reached without TLS
    is_socket = host.startswith("/") and not {"\0", ","} & set(host)
    if not is_socket and not _HOST.fullmatch(host):
        raise UsageError("the address of the study names no valid host", _FORM)
    if not _NAME.fullmatch(database):
        raise UsageError("the address of the study names no valid database", _FORM)
    if user is not None and not _NAME.fullmatch(user):
        raise UsageError("the address of the study names no valid user", _FORM)


def _port(named: str | None, of_host: int | None) -> int:
    if named is None:
        return of_host or _DEFAULT_PORT
    if not (named.isascii() and named.isdigit() and 0 < int(named[:6]) < 2**16):
        raise UsageError("the address of the study has an invalid port", "use 1 to 65535")
    return int(named)


def _tls(named: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the options of TLS; the certificate must always be that of the host."""
    if named.get("sslmode", _VERIFY_FULL) != _VERIFY_FULL:
        raise UsageError(
            "the address of the study asks for TLS that does not verify the server",
            f"leave sslmode out, or use sslmode={_VERIFY_FULL}: root acts on what the ledger says",
        )
    kept = {name: named[name] for name in ("sslrootcert", "sslcert", "sslkey") if name in named}
    # encryption by Kerberos would take the place of TLS, and sslmode would not hold
    return tuple({"sslmode": _VERIFY_FULL, "gssencmode": "disable", **kept}.items())
