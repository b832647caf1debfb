# SPDX-License-Identifier: Apache-2.0
"""An orderly end by a signal, in real processes: also without a terminal, and under nohup."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
    import contextlib, sys, time
    from profiler.cli.common import terminable
    try:
        with terminable():
            try:
                print("ready", flush=True)
                while True:
                    with contextlib.suppress(OSError):
                        time.sleep(0.05)
            finally:
                time.sleep(0.3)
                print("restored", flush=True)
    except KeyboardInterrupt:  # as main does: Python returns 1 for a class below it
        sys.exit(130)
"""


def start(**options):
    argv = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **options)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_in_order_and_a_second_one_does_not_interrupt_that(number):
    process = start(stderr=subprocess.DEVNULL)
    process.send_signal(number)
    process.send_signal(signal.SIGINT)
    process.send_signal(number)
    assert process.stdout.readline() == "restored\n"
    assert process.wait(10) in (128 + number, 130, -signal.SIGINT)


BOTH_AT_ONCE = """
    import os, signal
    from profiler.cli.common import terminable
    both = (signal.SIGHUP, signal.SIGTERM)
    with terminable():
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, both)
            for number in both:
                os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
        finally:
            print("restored", flush=True)
"""


def test_two_signals_that_are_seen_at_once_end_it_in_order() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BOTH_AT_ONCE)], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("restored\n", "\nending in order, please wait\n")
    assert done.returncode == 128 + signal.SIGHUP


DROPPED = """
    import os, signal, sys, time
    from profiler.cli.common import terminable

    class Dropping:
        def __del__(self):  # what is raised here goes no further
            os.kill(os.getpid(), int(sys.argv[1]))

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores it
    sys.unraisablehook = lambda _: os.write(1, b"dropped\\n")
    try:
        with terminable():
            try:
                Dropping()
                time.sleep(30)
            finally:
                time.sleep(0.3)
                print("restored", flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_dropped_end_is_raised_again(number: int, code: int) -> None:
    argv = [sys.executable, "-c", textwrap.dedent(DROPPED), str(int(number))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    # on a busy host it may be raised again in the hook, so that it is dropped once more
    assert set(done.stdout.splitlines()[:-1]) == {"dropped"}, done.stderr
    assert done.stdout.endswith("restored\n"), done.stderr
    assert done.returncode == code


def test_a_closed_terminal_does_not_swallow_the_end():
    ours, theirs = pty.openpty()
    process = start(stderr=theirs)
    os.close(theirs)
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert process.stdout.readline() == "restored\n"
    assert process.wait(10) == 128 + signal.SIGHUP


def test_a_signal_ignored_by_nohup_stays_ignored():
    process = start(
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM


def test_a_full_disk_behind_the_output_is_one_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "profiler.cli.main", "doctor", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == "writewise: No space left on device\n"


def test_typed_text_is_printed_without_escapes():
    done = subprocess.run(
        [sys.executable, "-m", "profiler.cli.main", "doctor", "\x1b]0;x\x07"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert done.stderr.startswith("writewise: unexpected argument '\\x1b]0;x\\x07'\n")


def test_an_error_of_our_own_making_is_a_sentence_and_a_traceback_on_request(monkeypatch, capsys):
    from profiler.cli import doctor, main

    monkeypatch.setattr(doctor, "run", lambda arguments: 1 // 0)
    assert main.main(["doctor"]) == 1
    assert "this is a bug: ZeroDivisionError" in capsys.readouterr().err
    monkeypatch.setenv("WRITEWISE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main.main(["doctor"])
