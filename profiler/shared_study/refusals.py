# SPDX-License-Identifier: Apache-2.0
"""Why PostgreSQL cannot be used: libpq's reason in one line, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from contracts.shared.text import printable

_MAX_CHARACTERS = 300
#: What comes before the reason; the address is in our sentence already.
_PREAMBLES = tuple(
    map(
        re.compile,
        (
            r"^.*?connection failed: ",
            r"^connection to server .*? failed:( |$)",
            r"^(FATAL|ERROR):\s+",
        ),
    )
)
_ANY = "check that PostgreSQL runs and lets this node in (pg_hba.conf, PGPASSFILE, TLS)"
_PGPASS = "put HOST:PORT:DATABASE:USER:PASSWORD into a file of mode 0600, and name it in PGPASSFILE"
_CLIENT = "name a certificate for this role, and its key, in the URL: sslcert=FILE&sslkey=FILE"


@dataclass(frozen=True)
class Refusal:
    """The reason in one line, and what to do next."""

    reason: str
    hint: str


#: What a line of libpq 15 to 18, or of PostgreSQL 13 to 18, contains, and what to do.
_KNOWN = (
    (
        "does not match host name",
        "use the host name of the server's certificate in the URL, or give the server a "
        "certificate for this name",
    ),
    (
        "root certificate file",
        "name the authority that signed the server's certificate in the URL: sslrootcert=FILE",
    ),
    (
        "certificate verify failed",
        "name the authority that signed the server's certificate in the URL: sslrootcert=FILE; if "
        "it is named, the server has another authority's certificate, or is not your server",
    ),
    (
        "server does not support SSL",
        "switch TLS on in the server's postgresql.conf (ssl = on), or use its Unix socket",
    ),
    ("private key file", "give the key in sslkey mode 0600, and to the user that runs this"),
    ("certificate file", "check the file in sslcert"),
    ("valid client certificate", _CLIENT),
    ("certificate authentication failed", _CLIENT),
    ("password", _PGPASS),
    ("no pg_hba.conf entry", "add a line hostssl for this role and address to pg_hba.conf"),
)


def explain(text: str) -> Refusal:
    """Return what libpq's message says, and what to do.

    A name may have several addresses, each with a line: one at which a server refuses says more
    than one at which nothing listens.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern, hint in _KNOWN:
        found = next((line for line in lines if pattern in line), None)
        if found is not None:
            return Refusal(_bare(found), hint)
    return Refusal(_bare(lines[0] if lines else ""), _ANY)


def _bare(line: str) -> str:
    for preamble in _PREAMBLES:
        line = preamble.sub("", line)
    return printable(line)[:_MAX_CHARACTERS] or "no reason given"
