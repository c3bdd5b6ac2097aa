"""How people see what happens: on a screen that is rewritten, or as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Final, Protocol, TextIO

from app.wiring.screen.job import Job
from app.wiring.screen.picture import picture, told
from app.wiring.screen.terminal import Terminal, is_terminal
from app.wiring.screen.view import Happening, View

_OPENING: Final = "All three are at work; Ctrl-C ends. To be pasted into another terminal:"


class Show(Protocol):
    """What people look at."""

    def entered(self, commands: Sequence[str], /) -> AbstractContextManager[None]:
        """Begin, with commands that can be pasted; the end of the block ends it."""
        ...

    def happened(self, happening: Happening, /) -> None:
        """Show something that happened."""
        ...

    def heed(self) -> None:
        """Do what the shell asks for, such as to stop for a while."""
        ...

    def wants_view(self) -> bool:
        """Whether it is time to draw."""
        ...

    def draw(self, view: View, /) -> None:
        """Show everything as it is."""
        ...

    def told(self, lines: Iterable[str], /) -> None:
        """Show the last words."""
        ...


def shown_on(
    stream: TextIO, environment: Mapping[str, str], frame_seconds: float, *, is_plain: bool
) -> Show:
    """Return what fits a stream; a screen is drawn so often at most."""
    if is_plain or not is_terminal(stream, environment):
        return Lines(stream)
    return Screen(stream, environment, frame_seconds)


class Lines:
    """One plain line an event."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def entered(self, commands: Sequence[str], /) -> Iterator[None]:
        """Say what can be pasted."""
        self.told([_OPENING, "", *commands, ""])
        yield

    def happened(self, happening: Happening, /) -> None:
        """Write a line."""
        self.told([told(happening)])

    def heed(self) -> None:
        """Do nothing: there is nothing to be given back."""

    def wants_view(self) -> bool:
        """Nothing is drawn."""
        return False

    def draw(self, view: View, /) -> None:
        """Do nothing."""

    def told(self, lines: Iterable[str], /) -> None:
        """Write lines."""
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()


class Screen:
    """One screen, rewritten in place."""

    def __init__(
        self, stream: TextIO, environment: Mapping[str, str], frame_seconds: float
    ) -> None:
        self._frame_seconds = frame_seconds
        self._lines = Lines(stream)
        self._terminal = Terminal(stream, environment)
        self._job = Job()
        self._commands: Sequence[str] = ()
        self._drawn_at = float("-inf")

    @contextmanager
    def entered(self, commands: Sequence[str], /) -> Iterator[None]:
        """Take the terminal; the commands stay readable above, when it is given back."""
        self._commands = commands
        with self._lines.entered(commands), self._job.heeding(), self._terminal.entered():
            yield

    def happened(self, happening: Happening, /) -> None:
        """Do nothing: the view has it."""

    def heed(self) -> None:
        """Stop with the terminal as it was before; draw anew when it is ours again."""
        if self._job.is_to_stop():
            self._terminal.give_back()
            self._job.stop()
        elif not self._job.is_continued() and self._terminal.is_taken:
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

    def told(self, lines: Iterable[str], /) -> None:
        """Write lines below."""
        self._lines.told(lines)
