# SPDX-License-Identifier: Apache-2.0
"""Signals that arrive during a step that must not be interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from sysctl.host.signals import signals_held_back


@pytest.fixture(autouse=True)
def _sigint_is_heard() -> Iterator[None]:
    """A shell starts what runs behind `&` with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_waits_for_the_end_of_the_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), signals_held_back():
        for step in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            done.append(step)
    assert done == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_nothing_to_hold() -> None:
    done: list[bool] = []

    def work() -> None:
        with signals_held_back():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
