# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL that is reached by TLS alone, and the authorities and certificates of a test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.postgresql.server import DATABASE, OWNER, Server

#: By role of the how-to page: a password, a password with a client certificate, a client
#: certificate alone. The cluster's owner needs none, so its tests are of TLS alone.
_HBA = f"""\
local all all trust
hostssl all {OWNER} 127.0.0.1/32 trust
hostssl all writewise_owner 127.0.0.1/32 scram-sha-256
hostssl all writewise_node 127.0.0.1/32 scram-sha-256 clientcert=verify-full
hostssl all writewise_reader 127.0.0.1/32 cert
"""
_CONFIGURATION = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
[leaf]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:{name}
"""


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, which only its user can read."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._own = self._made(name, "authority")

    @property
    def certificate(self) -> Path:
        return self._own.certificate

    def issue(self, name: str) -> Certificate:
        """Return a certificate for a host's or a role's name."""
        signer = "-CA", self._own.certificate, "-CAkey", self._own.key
        return self._made(name, "leaf", *signer)

    def _made(self, name: str, kind: str, *signer: object) -> Certificate:
        made = Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        configuration = self._folder / f"{name}.cnf"
        configuration.write_text(_CONFIGURATION.format(name=name))
        words = [
            *("openssl", "req", "-x509", "-new", "-nodes", "-days", "2", *signer),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-config", configuration, "-extensions", kind),
            *("-keyout", made.key, "-out", made.certificate),
        ]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made.key.chmod(0o600)
        return made


class TlsServer(Server):
    """A cluster that listens on 127.0.0.1; `serve` chooses its certificate while it runs."""

    listens = "127.0.0.1"

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        super().__init__(folder, bin_folder)
        self.port = _free_port()
        for name in ("own", "other"):
            (folder / name).mkdir()
        self.authority = Authority(folder / "own", "authority")
        self.other_authority = Authority(folder / "other", "authority")

    def configure(self) -> None:
        data = self.folder / "d"
        for name in ("localhost", "db.example.com"):
            made = self.authority.issue(name)
            shutil.copy(made.certificate, data / f"{name}.crt")
            shutil.copy(made.key, data / f"{name}.key")
            owner = data.stat()
            os.chown(data / f"{name}.key", owner.st_uid, owner.st_gid)
            (data / f"{name}.key").chmod(0o600)
        shutil.copy(self.authority.certificate, data / "clients.crt")
        (data / "pg_hba.conf").write_text(_HBA)
        with (data / "postgresql.conf").open("a") as file:
            file.write("ssl_ca_file = 'clients.crt'\nssl = off\n")

    def serve(self, name: str | None) -> None:
        """Present the certificate of a name; None: no TLS at all."""
        is_on = "off" if name is None else "on"
        if name is not None:
            self.sql(f"ALTER SYSTEM SET ssl_cert_file = '{name}.crt'")
            self.sql(f"ALTER SYSTEM SET ssl_key_file = '{name}.key'")
        self.sql(f"ALTER SYSTEM SET ssl = {is_on}")
        self.sql("SELECT pg_reload_conf()")
        wanted = [is_on, *([f"{name}.crt"] if name else [])]
        for _ in range(200):
            found = [self.sql("SHOW ssl"), *([self.sql("SHOW ssl_cert_file")] if name else [])]
            if found == wanted:
                return
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def url(self, user: str = OWNER, host: Path | None = None) -> str:
        return self.address(user, sslrootcert=self.authority.certificate)

    def address(self, user: str = OWNER, database: str = DATABASE, **options: object) -> str:
        """Return the URL of the server by its name."""
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{user}@localhost:{self.port}/{database}?{asked}"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
