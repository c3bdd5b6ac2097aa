"""A terminal is rewritten in place, line by line, and given back as it was."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from app.output import Tone, line
from app.run.terminal import Terminal, is_terminal
from tests.cases import cases
from tests.run.glass import panes

SIZE = (100, 30)
ENTERED, LEFT = "\033[?1049h\033[?25l\033[?7l\033[2J", "\033[?7h\033[?25h\033[?1049l"


class Tty(StringIO):
    """A stream that says it leads to a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def terminal(environment: dict[str, str] | None = None) -> Terminal:
    """Return a terminal with a clean screen of the usual size."""
    found = Terminal(Tty(), environment or {})
    found.changes([], SIZE)
    return found


def test_only_what_changed_is_written() -> None:
    """A picture that stays the same writes nothing, so nothing flickers."""
    screen = terminal()
    first = screen.changes([line("one"), line("two")], SIZE)
    same = screen.changes([line("one"), line("two")], SIZE)
    other = screen.changes([line("one"), line("three")], SIZE)

    assert first == "\033[1;1H\033[2Kone\033[2;1H\033[2Ktwo"
    assert (same, other) == ("", "\033[2;1H\033[2Kthree")


@pytest.mark.parametrize("length", [9, 10])
def test_full_lines_are_shown_whole(tmp_path: Path, length: int) -> None:
    """A line as wide as the terminal keeps its last character, also when it replaces another."""
    screen = Terminal(Tty(), {})
    first = screen.changes([line("a" * 10), line("b" * 10)], (10, 4))
    second = screen.changes([line("c" * length), line("b" * 10)], (10, 4))

    for shown in panes(tmp_path, ENTERED + first + second, 10, 4):
        assert shown == ["c" * length, "b" * 10, "", ""]


def test_lines_that_go_are_cleared() -> None:
    """A shorter picture leaves nothing of the longer one."""
    screen = terminal()
    screen.changes([line("one"), line("two")], SIZE)

    assert screen.changes([line("one")], SIZE) == "\033[2;1H\033[2K"


def test_another_size_begins_anew() -> None:
    """After a change of size nobody knows what the terminal shows."""
    screen = terminal()
    screen.changes([line("one")], SIZE)

    assert screen.changes([line("one")], (80, 24)) == "\033[2J\033[1;1H\033[2Kone"


@cases(
    "environment text",
    {
        "usually": ({}, "\033[1;1H\033[2K\033[31mone\033[0m"),
        "NO_COLOR": ({"NO_COLOR": "1"}, "\033[1;1H\033[2Kone"),
    },
)
def test_colours(environment: dict[str, str], text: str) -> None:
    """Colours are left out where somebody does not want them."""
    assert terminal(environment).changes([line("one", Tone.BAD)], SIZE) == text


def test_it_is_given_back_also_after_an_error() -> None:
    """However the block is left, cursor and screen are as before."""
    stream = Tty()

    def fail() -> None:
        with Terminal(stream, {}).entered():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert stream.getvalue() == ENTERED + LEFT


def test_what_is_not_taken_is_not_drawn_on() -> None:
    """Nothing is written before a terminal is taken, nor after it was given back."""
    stream = Tty()
    screen = Terminal(stream, {})
    screen.draw([line("one")])
    screen.give_back()
    before = stream.getvalue()
    screen.take()
    screen.give_back()
    screen.draw([line("one")])

    assert (before, stream.getvalue()) == ("", ENTERED + LEFT)


def test_a_terminal_that_is_gone_is_no_error() -> None:
    """A closed window ends nothing by itself."""
    stream = Tty()
    screen = Terminal(stream, {})
    screen.take()
    stream.close()

    screen.draw([line("one")])


@cases(
    "stream term is_one",
    {
        "a terminal": (Tty(), "xterm", True),
        "a pipe": (StringIO(), "xterm", False),
        "one that cannot move its cursor": (Tty(), "dumb", False),
        "nobody knows which": (Tty(), None, False),
    },
)
def test_what_counts_as_a_terminal(stream: StringIO, term: str | None, *, is_one: bool) -> None:
    """Pictures are drawn only where they can be rewritten."""
    assert is_terminal(stream, {} if term is None else {"TERM": term}) is is_one
