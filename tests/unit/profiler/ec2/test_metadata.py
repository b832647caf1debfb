# SPDX-License-Identifier: Apache-2.0
"""The metadata service as AWS describes it, and if it is absent, slow or disabled."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from profiler.ec2 import metadata
from profiler.ec2.metadata import Metadata, MetadataError, open_directly
from profiler.ec2.node import (
    AttachedVolume,
    Ec2Node,
    discover,
    instance_type_of_firmware,
    is_ec2,
)

TOKEN = "AQAEAL-token"
PATHS = {
    "/latest/meta-data/instance-type": "m5.large",
    "/latest/meta-data/placement/region": "eu-central-1",
}


class Service(BaseHTTPRequestHandler):
    """Only version 2: 401 without the token."""

    paths = PATHS
    token_status = 200
    hangs = False
    expired = ()
    redirects_to = None
    released = threading.Event()

    def do_PUT(self):
        is_right = (
            self.path == "/latest/api/token"
            and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
        )
        self._answer(self.token_status if is_right else 400, TOKEN)

    def do_GET(self):
        token = self.headers["X-aws-ec2-metadata-token"]
        if token != TOKEN or token in self.expired:
            return self._answer(401, "")
        if self.redirects_to:
            return self._answer(302, "")
        return self._answer(
            *((200, self.paths[self.path]) if self.path in self.paths else (404, ""))
        )

    def _answer(self, status, text):
        if self.hangs:
            self.released.wait(30)
            return
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.redirects_to)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def serve():
    started = []

    def start(**changes):
        released = threading.Event()
        handler = type("Handler", (Service,), {"released": released, **changes})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        started.append((server, released))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server, released in started:
        released.set()
        server.shutdown()
        server.server_close()


def test_a_token_first_and_then_the_paths(serve):
    service = Metadata(endpoint=serve())
    assert service.get("instance-type") == "m5.large"
    assert service.get("placement/region") == "eu-central-1"
    assert service.get("spot/instance-action") is None


def test_a_proxy_is_never_used(serve, monkeypatch):
    """A proxy would answer for any address, even with another node's data."""
    endpoint = serve()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert Metadata(endpoint=endpoint).get("instance-type") == "m5.large"


def test_a_service_that_hangs_is_given_up(serve, monkeypatch):
    monkeypatch.setattr(metadata, "TIMEOUT_S", 0.2)
    began_s = time.monotonic()
    with pytest.raises(MetadataError, match="did not answer"):
        Metadata(endpoint=serve(hangs=True)).get("instance-type")
    assert time.monotonic() - began_s < 5


def test_a_service_that_answers_byte_by_byte_is_given_up(monkeypatch):
    """Each byte comes within the socket's timeout."""
    monkeypatch.setattr(metadata, "TIMEOUT_S", 0.3)
    released = threading.Event()

    def drip(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: yes\r\n" * 100:
                if released.wait(0.1):
                    return
                connection.sendall(bytes([byte]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,))
        dripping.start()
        began_s = time.monotonic()
        with pytest.raises(MetadataError, match="did not answer"):
            Metadata(endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}").get("instance-type")
        took_s = time.monotonic() - began_s
        released.set()
        dripping.join()
    assert took_s < 2


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_no_token(serve, status):
    with pytest.raises(MetadataError, match=rf"gave no token \(it answered {status}\)"):
        Metadata(endpoint=serve(token_status=status)).get("instance-type")


def test_nobody_listens():
    with pytest.raises(MetadataError, match="did not answer"):
        Metadata(endpoint="http://127.0.0.1:1").get("instance-type")


def test_a_token_that_expired(serve):
    endpoint = serve(expired=[TOKEN])
    with pytest.raises(MetadataError, match="answered 401"):
        Metadata(endpoint=endpoint).get("instance-type")


def test_a_token_that_expires_is_replaced(serve):
    endpoint = serve()
    service = Metadata(endpoint=endpoint)
    assert service.get("instance-type") == "m5.large"
    tokens = iter(("old", TOKEN))

    def send(request):
        if request.get_method() == "PUT":
            return next(tokens).encode()
        return open_directly(request)

    service = Metadata(send, endpoint)
    with pytest.raises(MetadataError, match="answered 401"):
        service.get("instance-type")
    assert service.get("instance-type") == "m5.large"


def test_a_token_that_expires_between_two_requests_is_replaced(serve):
    endpoint = serve()
    now_expired: list[bool] = []

    def send(request):
        if now_expired and request.get_header("X-aws-ec2-metadata-token") == TOKEN:
            now_expired.clear()
            raise urllib.error.HTTPError(request.full_url, 401, "Unauthorized", Message(), None)
        return open_directly(request)

    service = Metadata(send, endpoint)
    assert service.get("instance-type") == "m5.large"
    now_expired.append(True)
    assert service.get("placement/region") == "eu-central-1"
    assert not now_expired


def test_a_redirection_is_not_followed(serve):
    """The token would go to another server."""
    other = serve()
    elsewhere = serve(redirects_to=f"{other}/latest/meta-data/instance-type")
    with pytest.raises(MetadataError, match="answered 302"):
        Metadata(endpoint=elsewhere).get("instance-type")


def test_what_is_not_http():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(MetadataError, match="did not answer"):
            Metadata(endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}").get("instance-type")
        answering.join()


@pytest.mark.parametrize("body", [b"\xff", b"m5\x1b[2J"])
def test_what_is_not_text(body):
    with pytest.raises(MetadataError):
        Metadata(send=lambda _: body).get("instance-type")


def node(tmp_path, vendor="Amazon EC2"):
    """A node with two EBS volumes and an instance store."""
    files = {
        "class/dmi/id/sys_vendor": f"{vendor}\n",
        "class/dmi/id/product_name": "m5.large\n",
        "block/nvme0n1/device/model": "Amazon Elastic Block Store              \n",
        "block/nvme0n1/device/serial": "vol0123456789abcdef0\n",
        "block/nvme0n1/size": "16777216\n",
        "block/nvme0c0n1/device/model": "Amazon Elastic Block Store              \n",
        "block/nvme0c0n1/device/serial": "vol0123456789abcdef0\n",
        "block/nvme1n1/device/model": "Amazon EC2 NVMe Instance Storage        \n",
        "block/nvme1n1/device/serial": "AWS0123456789ABCDEF\n",
        "block/nvme2n1/device/model": "Amazon Elastic Block Store\n",
        "block/nvme2n1/device/serial": "not-a-volume\n",
        "block/sda/size": "5\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_what_a_node_says_of_itself(tmp_path, serve):
    endpoint = serve()
    assert discover(node(tmp_path), lambda: Metadata(endpoint=endpoint)) == Ec2Node(
        True,
        "m5.large",
        "eu-central-1",
        (AttachedVolume("vol-0123456789abcdef0", "nvme0n1", 8 * 2**30),),
    )


@pytest.mark.parametrize(
    ("vendor", "instance_type"), [("Amazon EC2", "m5.large"), ("Xen", None), ("QEMU", None)]
)
def test_the_firmware_of_nitro_names_the_instance_type(tmp_path, vendor, instance_type):
    assert instance_type_of_firmware(node(tmp_path, vendor)) == instance_type


def test_volumes_are_known_without_the_service(tmp_path):
    found = discover(node(tmp_path), lambda: Metadata(endpoint="http://127.0.0.1:1"))
    assert found.instance_type is None
    assert "did not answer" in found.problem
    assert [volume.volume_id for volume in found.volumes] == ["vol-0123456789abcdef0"]


def test_a_service_without_a_type(tmp_path, serve):
    endpoint = serve(paths={})
    found = discover(node(tmp_path), lambda: Metadata(endpoint=endpoint))
    assert found.problem == "the metadata has no instance type"


def test_off_ec2_nothing_is_asked(tmp_path):
    def asked():
        raise AssertionError("the network was used")

    assert discover(node(tmp_path, "QEMU"), asked) == Ec2Node()


def test_xen_instances_are_known_by_their_uuid(tmp_path):
    (tmp_path / "hypervisor").mkdir()
    (tmp_path / "hypervisor/uuid").write_text("ec2e1916-9099-7caf-fd21-012345abcdef\n")
    assert is_ec2(tmp_path)
    assert not is_ec2(tmp_path / "hypervisor")
