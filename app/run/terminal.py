"""How people see what happens: on a terminal that is rewritten in place, or as lines.

Strategy: on the alternate screen, without cursor, only lines that changed are written, all of them
at once. What is typed meanwhile is not shown; it is read as keys. Leaving the block restores
everything, however it is left; so does stopping for a while. In the background the terminal is the
shell's: nothing is drawn.
A signal (Ctrl-Z, `fg`) only leaves a mark, because it may come in the middle of a line;
what it asks for is done between two frames.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Final, TextIO

from app.output import Line, Output, Report, Text, shown
from app.run.screen import picture
from app.run.view import Activity, View, activity_line

try:
    import termios
except ImportError:  # not every system has it
    termios = None  # type: ignore[assignment]  # asked for before use

_ENTER: Final = "\033[?1049h\033[?25l\033[?7l\033[2J"
_LEAVE: Final = "\033[?7h\033[?25h\033[?1049l"
_CLEAR: Final = "\033[2J"
_ERASE: Final = "\033[2K"  # first: after a full line the cursor stands on its last character
_USUAL_SIZE: Final = (100, 30)
_MOST_KEYS: Final = 64  # read at once


def is_terminal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether a stream leads to a terminal that can be rewritten in place."""
    return stream.isatty() and environment.get("TERM", "dumb") != "dumb"


class Terminal:
    """Draws on a stream; `entered` takes it over."""

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
        self._stream = stream
        self._is_coloured = not environment.get("NO_COLOR")
        self._drawn: list[str] = []
        self._size = (0, 0)
        self.is_taken = False
        self._typing = _Typing()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Take the terminal over, and give it back at the end."""
        self.take()
        try:
            yield
        finally:
            self.give_back()

    def take(self) -> None:
        """Take the terminal over, unless a shell has it; what it shows is not known."""
        self.is_taken = _is_ours(self._stream)
        if not self.is_taken:
            return
        self._typing.hide()
        self._size = (0, 0)
        self._write(_ENTER)

    def give_back(self) -> None:
        """Leave the terminal as it was before it was taken."""
        if not self.is_taken:
            return
        self.is_taken = False
        self._write(_LEAVE)
        self._typing.show()

    def typed(self) -> str:
        """Return what was typed since this was asked last."""
        return self._typing.read() if self.is_taken else ""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return _USUAL_SIZE
        return columns, rows

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines, and nothing else."""
        if self.is_taken:
            self._write(self.changes(lines, self.size))

    def changes(self, lines: Sequence[Line], size: tuple[int, int]) -> str:
        """Return what has to be written so that a terminal of a size shows these lines."""
        report = Report(Text(lines), (), ())
        found = list(shown(report, Output.TABLE, is_coloured=self._is_coloured))
        start = ""
        if size != self._size:
            self._size, self._drawn, start = size, [], _CLEAR
        before = self._drawn + [""] * max(len(found) - len(self._drawn), 0)
        found += [""] * (len(before) - len(found))
        parts = [
            f"\033[{row};1H{_ERASE}{new}"
            for row, (old, new) in enumerate(zip(before, found, strict=True), 1)
            if old != new
        ]
        self._drawn = found
        return start + "".join(parts)

    def _write(self, text: str) -> None:
        if text:
            with suppress(OSError, ValueError):  # a terminal that is gone shows nothing
                self._stream.write(text)
                self._stream.flush()


class _Typing:
    """What is typed, which is not shown meanwhile, and comes without waiting for a whole line."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def hide(self) -> None:
        if termios is None or not self._is_heard():
            return
        found = termios.tcgetattr(sys.stdin)
        self._before = self._before or found  # the one that stopped us may have left it hidden
        characters = list(found[6])
        characters[termios.VMIN], characters[termios.VTIME] = 0, 0  # reading never waits
        modes = found[3] & ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(sys.stdin, termios.TCSANOW, [*found[:3], modes, *found[4:6], characters])

    def read(self) -> str:
        """Return what was typed; nothing if there is no terminal."""
        if self._before is None or not self._is_heard():
            return ""
        try:
            return os.read(sys.stdin.fileno(), _MOST_KEYS).decode("ascii", "replace")
        except OSError:  # the terminal is gone
            return ""

    def show(self) -> None:
        if self._before is None or not self._is_heard():
            return
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSANOW, self._before)
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        self._before = None

    @staticmethod
    def _is_heard() -> bool:
        """Whether what is typed reaches this process."""
        return sys.stdin is not None and sys.stdin.isatty() and _is_ours(sys.stdin)


def _is_ours(stream: TextIO) -> bool:
    """Whether a terminal takes orders from us, and not from a shell that is already back."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # no terminal has it
        return True


class JobControl:
    """This program, as the shell sees it."""

    def __init__(self) -> None:
        self._noted: set[int] = set()

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Take note of what the shell asks for; the former handlers come back."""
        numbers = (signal.SIGTSTP, signal.SIGCONT)
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def was_told(self, number: signal.Signals) -> bool:
        """Whether a signal came since this was asked last."""
        is_noted = number in self._noted
        self._noted.discard(number)
        return is_noted

    def stop(self) -> None:
        """Stop, until a shell continues us."""
        mark = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, mark)

    def _note(self, number: int, _frame: object) -> None:
        self._noted.add(number)


class Display:
    """What people look at: one plain line an event."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def entered(self, commands: Sequence[str], /) -> Iterator[None]:
        """Say what is worth trying."""
        self.print_lines(commands)
        yield

    def typed(self) -> str:
        """Nothing is typed."""
        return ""

    def show_activity(self, activity: Activity, /) -> None:
        """Write a line."""
        self.print_lines([activity_line(activity)])

    def follow_shell(self) -> None:
        """Do nothing: there is nothing to be given back."""

    def wants_view(self) -> bool:
        """Nothing is drawn."""
        return False

    def draw(self, view: View, /) -> None:
        """Do nothing."""

    def print_lines(self, lines: Iterable[str], /) -> None:
        """Write lines."""
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()


class FullScreen(Display):
    """One screen, rewritten in place."""

    def __init__(
        self, stream: TextIO, environment: Mapping[str, str], frame_seconds: float
    ) -> None:
        super().__init__(stream)
        self._frame_seconds = frame_seconds
        self._terminal = Terminal(stream, environment)
        self._job_control = JobControl()
        self._commands: Sequence[str] = ()
        self._drawn_at = float("-inf")

    @contextmanager
    def entered(self, commands: Sequence[str], /) -> Iterator[None]:
        """Take the terminal; the commands are part of the picture, and gone with it."""
        self._commands = commands
        with self._job_control.heeding(), self._terminal.entered():
            yield

    def typed(self) -> str:
        """Return what was typed; what it changes is drawn at once."""
        typed = self._terminal.typed()
        if typed:
            self._drawn_at = float("-inf")
        return typed

    def show_activity(self, activity: Activity, /) -> None:
        """Do nothing: the view has it."""

    def follow_shell(self) -> None:
        """Stop with the terminal as it was before; draw again when it is ours."""
        if self._job_control.was_told(signal.SIGTSTP):
            self._terminal.give_back()
            self._job_control.stop()
        elif not self._job_control.was_told(signal.SIGCONT) and self._terminal.is_taken:
            return
        self._terminal.take()
        self._drawn_at = float("-inf")

    def wants_view(self) -> bool:
        """Whether the last picture is old."""
        is_old = monotonic() - self._drawn_at >= self._frame_seconds
        return is_old and self._terminal.is_taken

    def draw(self, view: View, /) -> None:
        """Draw, with the commands below where there is room."""
        self._drawn_at = monotonic()
        columns, rows = self._terminal.size
        self._terminal.draw(picture(view, self._commands, columns, rows))
