"""A terminal that is rewritten in place, and given back as it was.

Strategy: on the alternate screen, without cursor, only lines that changed are written, all of them
at once. What is typed meanwhile is not shown. Leaving the block restores everything, however it is
left; so does stopping for a while. In the background the terminal is the shell's: nothing is drawn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

from app.output.formats import Output, shown
from app.output.report import Line, Report, Text

try:
    import termios
except ImportError:  # not every system has it
    termios = None  # type: ignore[assignment]  # asked for before use

_ENTER: Final = "\033[?1049h\033[?25l\033[?7l\033[2J"
_LEAVE: Final = "\033[?7h\033[?25h\033[?1049l"
_CLEAR: Final = "\033[2J"
_TO_END: Final = "\033[K"
_USUAL_SIZE: Final = (100, 30)


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
        """Take the terminal over, unless a shell has it; nobody knows what it shows."""
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
        found = list(shown(_report(lines), Output.TABLE, is_coloured=self._is_coloured))
        start = ""
        if size != self._size:
            self._size, self._drawn, start = size, [], _CLEAR
        before = self._drawn + [""] * max(len(found) - len(self._drawn), 0)
        found += [""] * (len(before) - len(found))
        parts = [
            f"\033[{row};1H{new}{_TO_END}"
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


def _report(lines: Sequence[Line]) -> Report:
    return Report(Text(lines), (), ())


class _Typing:
    """What is typed, which is not shown meanwhile."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def hide(self) -> None:
        if termios is None or not self._is_heard():
            return
        found = termios.tcgetattr(sys.stdin)
        self._before = self._before or found  # whoever stopped us may have left it hidden
        quiet = [*found[:3], found[3] & ~termios.ECHO, *found[4:]]
        termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)

    def show(self) -> None:
        if self._before is None or not self._is_heard():
            return
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSANOW, self._before)
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        self._before = None

    @staticmethod
    def _is_heard() -> bool:
        """Whether somebody types to us."""
        return sys.stdin is not None and sys.stdin.isatty() and _is_ours(sys.stdin)


def _is_ours(stream: TextIO) -> bool:
    """Whether a terminal takes orders from us, and not from a shell that is already back."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # it is nobody's terminal
        return True
