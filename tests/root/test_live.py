# SPDX-License-Identifier: Apache-2.0
"""The live view on a pseudo-terminal: what it shows, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import struct
import sys
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path

import pyte
import pytest

from tests.places import REPOSITORY
from tests.root.test_profile import WRITEWISE

pytestmark = pytest.mark.side_by_side

#: More lines than a report has with every remark, which scrolls nothing away.
COLUMNS, LINES = 80, 40
VIEW = "Ctrl-C ends"
SHELL = 'echo before; "$@"; echo "after $?"'


class Terminal:
    """A terminal in which a shell runs a command between `before` and `after CODE`."""

    def __init__(self, script: str, *arguments: object, columns: int = COLUMNS) -> None:
        self.raw = b""
        self.screen = pyte.Screen(columns, LINES)
        self._stream = pyte.ByteStream(self.screen)
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(REPOSITORY)
            os.environ["TERM"] = "xterm"
            ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
            os.execvp("sh", ["sh", "-c", script, "-", *WRITEWISE, *map(str, arguments)])

    def read(self) -> bool:
        """Read what the terminal gets; return whether it is still open."""
        try:
            chunk = os.read(self.master, 4096)
        except OSError:  # EIO: the other end is closed
            return False
        self.raw += chunk
        self._stream.feed(chunk)
        return bool(chunk)

    def shown(self) -> str:
        """Return the screen without blanks at its end."""
        lines = [line.rstrip() for line in self.screen.display]
        return "\n".join(lines).rstrip()

    def until(self, condition: Callable[[str], object]) -> str:
        """Read until the screen matches; return the screen."""
        deadline = time.monotonic() + 30
        while not condition(self.shown()):
            assert self.read() and time.monotonic() < deadline, self.shown()
        return self.shown()

    def end(self) -> str:
        """Read to the end; return the screen."""
        while self.read():
            pass
        os.waitpid(self.pid, 0)
        os.close(self.master)
        return self.shown()


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    path = tmp_path / "contract"
    path.write_text(f"2,monitortimeframe,300ms\nwrites,{tmp_path}/data,write,all,count,1\n")
    return path


def writer(folder: Path) -> list[str]:
    """Return a command that makes about 1,000 writes of 1,000 bytes a second until `stop`."""
    program = (
        "import os, sys, time\nfd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n"
        "end = time.monotonic() + 60\n"
        "while not os.path.exists(sys.argv[2]) and time.monotonic() < end:\n"
        " os.write(fd, bytes(1000)); time.sleep(0.001)\n"
    )
    return [sys.executable, "-c", program, str(folder / "data" / "file"), str(folder / "stop")]


def assert_clean(terminal: Terminal, screen: str) -> None:
    assert VIEW not in screen
    assert "before" in screen or terminal.screen.columns < COLUMNS  # else scrolled away
    assert not terminal.screen.cursor.hidden
    assert b"\x1b[?1049h" not in terminal.raw  # never on an alternate screen
    assert terminal.screen.cursor.attrs == pyte.screens.Cursor(0, 0).attrs  # colours are reset


def test_it_shows_rates_and_dirty_memory_and_is_erased(contract: Path, tmp_path: Path) -> None:
    script = f'echo before; "$@" >{tmp_path}/out 2>{tmp_path}/err; echo "after $?"'
    terminal = Terminal(script, "--contract", contract, "--live", "--", *writer(tmp_path))
    row = re.compile(r"^write /\S+ +([\d,]+) +([1-9][\d,]*) +[\d.]+ .?i?B/s +[\d.]+ [nµm]s", re.M)
    shown = terminal.until(row.search)
    assert "calls/s" in shown and "dirty of" in shown and VIEW in shown
    before, seen_at = terminal.raw.count(VIEW.encode()), time.monotonic()
    terminal.until(lambda _: time.monotonic() >= seen_at + 2)
    assert terminal.raw.count(VIEW.encode()) >= before + 2 * 2  # at least twice a second
    (tmp_path / "stop").touch()
    screen = terminal.end()
    assert_clean(terminal, screen)
    assert screen == "before\nafter 0"
    assert "write calls" in (tmp_path / "err").read_text()


def test_ctrl_c_ends_it_with_the_report_alone(contract: Path) -> None:
    terminal = Terminal(SHELL, "--contract", contract, "--live", "--duration", "60s")
    terminal.until(lambda shown: VIEW in shown)
    os.write(terminal.master, b"\x03")
    screen = terminal.end()
    assert_clean(terminal, screen)
    assert "writes" in screen and "Lost: nothing." in screen
    assert "^C" not in screen.split("rule", 1)[1]
    assert screen.count("rule  ") == 1


def test_a_narrow_terminal_is_left_clean(contract: Path) -> None:
    terminal = Terminal(
        SHELL,
        "--contract",
        contract,
        "--live",
        "--pid",
        os.getpid(),
        "--duration",
        "1s",
        columns=40,
    )
    terminal.until(lambda shown: "·····" in shown)
    assert_clean(terminal, terminal.end())


def test_a_command_that_writes_to_the_terminal_is_refused(contract: Path) -> None:
    terminal = Terminal(SHELL, "--contract", contract, "--live", "--", "echo", "mine")
    screen = terminal.end()
    assert_clean(terminal, screen)
    assert "the live view and the command's output would mix on the terminal" in screen
    assert screen.endswith("after 125")
    assert "mine" not in screen.splitlines()


def test_a_profile_that_is_killed_leaves_a_visible_cursor(contract: Path) -> None:
    terminal = Terminal(SHELL, "--contract", contract, "--live", "--duration", "60s")
    terminal.until(lambda shown: VIEW in shown)
    with contextlib.suppress(FileNotFoundError):
        children = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text()
        os.kill(int(children.split()[0]), 9)
    terminal.end()
    assert not terminal.screen.cursor.hidden
