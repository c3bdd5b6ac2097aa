"""The program on a terminal: a screen that lives, and a terminal given back as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.cluster.programs import free_port

ROOT = Path(__file__).parents[2]
ROWS, COLUMNS = 40, 100
SECONDS = 60.0
NAMES = ("port", "admission-port", "recommender-port", "updater-port", "page-port")
ENTERED, LEFT = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
ROW = re.compile(r"\033\[(\d+);1H\033\[2K(.*?)(?=\033\[(?:\d+;1H|2J|\?)|\Z)", re.DOTALL)
COLOUR = re.compile(r"\033\[[0-9;]*m")


@dataclass
class Seen:
    """A program on a terminal, and all that it wrote."""

    process: subprocess.Popen[bytes]
    terminal: int
    ports: list[int]
    text: str = ""

    def read(self, seconds: float) -> None:
        """Take in what is written, for so long at most."""
        if select.select([self.terminal], [], [], seconds)[0]:
            try:
                self.text += os.read(self.terminal, 65536).decode()
            except OSError:  # its last reader has left
                return

    def waits(self, holds: Callable[[], bool]) -> bool:
        """Whether something comes about; what is written before and with it is taken in."""
        until = monotonic() + SECONDS
        while monotonic() < until:
            self.read(0.1)
            if holds():
                self.read(0.1)
                return True
        return False

    def waits_for(self, word: str) -> bool:
        """Whether the screen comes to show a word."""
        return self.waits(lambda: any(word in row for row in self.rows()))

    def waits_for_text(self, word: str) -> bool:
        """Whether a word comes to be written."""
        return self.waits(lambda: word in self.text)

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self.terminal, text.encode())

    def rows(self) -> list[str]:
        """Return the rows as they stand now, without colours."""
        shown: dict[int, str] = {}
        for number, row in ROW.findall(self.text):
            shown[int(number)] = COLOUR.sub("", row)
        return [shown[number] for number in sorted(shown)]

    def stops(self) -> bool:
        """Whether the program comes to be stopped."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        return self.waits(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")

    def ends(self) -> bool:
        """Whether the program ends."""
        return self.waits(lambda: self.process.poll() is not None)


@contextmanager
def on_a_terminal(*shell: str, **environment: str) -> Iterator[Seen]:
    """Start the program as a person does, or a shell that may; end it at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    ports = [free_port() for _ in NAMES]
    # Who runs tests in the background ignores interrupts, and children would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        shell or program(ports),
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm-256color", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        process_group=0,  # as a shell has it; nobody stops whom no shell could continue
    )
    signal.signal(signal.SIGINT, before)
    os.close(theirs)
    seen = Seen(process, ours, ports)
    try:
        yield seen
    finally:
        process.terminate()  # so that it takes its folder away
        if not seen.ends():
            process.kill()
        process.wait()
        os.close(ours)


def program(ports: list[int]) -> list[str]:
    """Return what a person types."""
    flags = [f"--{name}={port}" for name, port in zip(NAMES, ports, strict=True)]
    return [sys.executable, "-m", "app", "run", *flags]


def folder(text: str) -> str:
    """Return the folder of the scripts that the screen names."""
    found = re.search(r"sh (\S+)/1-new-pod", text)
    assert found is not None
    return found[1]


def is_free(port: int) -> bool:
    """Whether nobody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_minute_of_it() -> None:
    """Pods are sized before a minute is over; an interrupt ends all, and restores the screen."""
    with on_a_terminal() as seen:
        assert seen.waits_for("resize    web-")
        rows = seen.rows()
        seen.process.send_signal(signal.SIGINT)
        assert seen.ends()
        ended = seen.text.partition(LEFT)

        assert seen.process.returncode == 0
        assert ENTERED in ended[0]
        assert "of the cluster's time:" in ended[2]
        assert max(map(len, rows)) <= COLUMNS
        assert [row.split()[0] for row in rows if "blocked: minReplicas" in row] == ["billing"]
        assert [port for port in seen.ports if not is_free(port)] == []
        assert not Path(folder(ended[0])).exists()


def test_keys() -> None:
    """Space stops time, plus makes it pass faster, q ends; nothing of it is shown."""
    with on_a_terminal() as seen:
        assert seen.waits_for("60x")
        seen.types(" ")
        assert seen.waits_for("PAUSED")
        paused = seen.rows()[0]
        seen.types("+")
        assert seen.waits_for("120x   PAUSED")
        still = seen.rows()[0]
        seen.types(" ")
        assert seen.waits(lambda: "PAUSED" not in seen.rows()[0])
        seen.types("q")
        assert seen.ends()

        assert paused.split()[2] == still.split()[2]
        assert seen.process.returncode == 0
        assert "of the cluster's time:" in seen.text.partition(LEFT)[2]


def test_stopped_and_continued() -> None:
    """Ctrl-Z gives the terminal back, `fg` draws all of it anew, an interrupt still ends it."""
    with on_a_terminal() as seen:
        assert seen.waits_for("billing")
        shown = termios.tcgetattr(seen.terminal)[3] & termios.ECHO
        seen.process.send_signal(signal.SIGTSTP)
        assert seen.stops()
        stopped, is_echoed = seen.text, termios.tcgetattr(seen.terminal)[3] & termios.ECHO
        seen.text = ""
        seen.process.send_signal(signal.SIGCONT)
        assert seen.waits_for("billing")
        drawn = seen.text
        seen.process.send_signal(signal.SIGINT)
        assert seen.ends()

        assert (shown, is_echoed) == (0, termios.ECHO)
        assert stopped.endswith(LEFT)
        assert drawn.startswith(ENTERED)
        assert "STATUS" in drawn
        assert seen.process.returncode == 0


def test_in_the_background() -> None:
    """After `bg` the terminal is the shell's and nothing is drawn, until `fg`."""
    with on_a_terminal("setsid", "-cw", "bash", "--norc", "--noprofile", "-i") as seen:
        seen.types(" ".join(program(seen.ports)) + "\n")
        assert seen.waits_for("billing")
        seen.types("\x1a")
        assert seen.waits_for_text("Stopped")
        seen.text = ""
        seen.types("bg; sleep 2; echo no''body draws\n")
        assert seen.waits_for_text("nobody draws")
        behind = seen.text
        seen.types("fg\n")
        assert seen.waits_for("billing")
        seen.types("\x03")
        assert seen.waits_for_text("of the cluster's time:")
        seen.types("exit\n")
        assert seen.ends()

        assert "\033[?1049" not in behind
        assert ENTERED in seen.text


def test_without_colours() -> None:
    """NO_COLOR is honoured."""
    with on_a_terminal(NO_COLOR="1") as seen:
        assert seen.waits_for("recommend ")

        assert COLOUR.search(seen.text) is None
