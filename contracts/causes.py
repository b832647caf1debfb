# SPDX-License-Identifier: Apache-2.0
"""The causes by which the time in write calls is divided."""

from __future__ import annotations

import enum


class Cause(str, enum.Enum):
    """What a write call spends its time on; the value is the name in reports, results and JSON."""

    THROTTLING = "dirty throttling"
    DEVICE = "waiting for the device"
    SLEEPING = "other sleeping"
    QUEUED = "waiting for a CPU"
    ASYNCHRONOUS = "in io_uring"
    ON_CPU = "on CPU"
