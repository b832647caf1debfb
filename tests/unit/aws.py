# SPDX-License-Identifier: Apache-2.0
"""AWS for unit tests, by moto: volumes, credits, and credentials that are not real."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from datetime import datetime, timedelta, timezone

import boto3

REGION = "eu-central-1"
SECRET = "wJalrXUtnFEMI-SECRET"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAUNREAL", "AWS_SECRET_ACCESS_KEY": SECRET}


def set_environment(monkeypatch, folder):
    """Set credentials; hide the files and variables of the user, and those of tests/s3."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))


def new_volume(region=REGION, **words):
    """Make a volume, and return its id."""
    client = boto3.client("ec2", region_name=region)
    return client.create_volume(AvailabilityZone=f"{region}a", **words)["VolumeId"]


def put_credits(namespace, metric, dimension, *values):
    """Record percentages of credits: (minutes ago, percent)."""
    client = boto3.client("cloudwatch", region_name=REGION)
    for minutes, value in values:
        at = datetime.now(timezone.utc) - timedelta(minutes=minutes)
        datum = {"MetricName": metric, "Value": value, "Unit": "Percent", "Timestamp": at}
        datum["Dimensions"] = [{"Name": dimension[0], "Value": dimension[1]}]
        client.put_metric_data(Namespace=namespace, MetricData=[datum])


class Silent:
    """A socket that accepts connections and never answers, or answers byte by byte."""

    def __init__(self, *, trickles=False):
        self.connections = 0
        self._trickles = trickles
        self._ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        kept = []
        while not self._ended.is_set():
            connection, _ = self._listening.accept()
            kept.append(connection)
            self.connections += 1
            with contextlib.suppress(OSError):
                while self._trickles and not self._ended.wait(0.05):
                    connection.sendall(b"H")

    def accepts_one(self, limit_s=10):
        """Wait for a connection; the thread may see it later than the client gives it up."""
        end_s = time.monotonic() + limit_s
        while not self.connections and time.monotonic() < end_s:
            time.sleep(0.01)
        return self.connections > 0

    def end(self):
        """Stop listening."""
        self._ended.set()
        socket.create_connection(self._listening.getsockname()).close()
        self._listening.close()
