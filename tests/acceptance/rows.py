"""Rows of the acceptance table: each is a story, and all of a module are played side by side.

Strategy: rows mostly wait, so all of a module that were chosen begin at once, each in a thread and
a namespace of its own; the test of a row then waits for its end. What failed is told with the
lines of all logs that name the row's namespace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

import pytest

from tests.acceptance.logs import Logs
from tests.acceptance.stage import Stage

Story = Callable[[Stage], str | None]  # it may return a figure: a sentence with what it measured
PROPERTY: Final = "row"  # of a test: the row, and how long it took
FIGURE: Final = "figure"  # of a test: a sentence with what it measured
_LINES: Final = 60


@dataclass(frozen=True, slots=True)
class Row:
    """A story; `alone` means that it has processes of its own."""

    story: Story
    alone: bool = False


class Rows(Mapping[str, Row]):
    """The rows of a module by their ids."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._run = token_hex(2)

    def row(self, *names: str, alone: bool = False) -> Callable[[Story], Story]:
        """Add a story under one name, or under several if it looks at the stage's name itself."""

        def add(story: Story) -> Story:
            self._rows |= dict.fromkeys(names, Row(story, alone))
            return story

        return add

    def namespace(self, name: str) -> str:
        """Return where a row is played; it is known before anything starts."""
        return f"{name.lower()}-{self._run}".replace(" ", "-")

    def alone(self) -> Sequence[str]:
        """Return the namespaces that shared processes must leave alone."""
        found = [self.namespace(name) for name, row in self.items() if row.alone]
        return [*found, *(f"{name}-b" for name in found)]

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Played:
    """Rows under way."""

    def __init__(
        self, rows: Rows, chosen: Sequence[str], stage: Callable[[str, str], Stage], logs: Logs
    ) -> None:
        self._rows = rows
        self._stage = stage
        self._logs = logs
        self._pool = ThreadPoolExecutor(max_workers=max(len(chosen), 1))
        self._ends: dict[str, Future[tuple[float, str | None]]] = {
            name: self._pool.submit(self._play, name) for name in chosen
        }

    def close(self) -> None:
        """Wait for the rows that still run."""
        self._pool.shutdown(cancel_futures=True)

    def end(self, name: str) -> tuple[float, str | None]:
        """Return how long a row took, and its figure, or raise what went wrong in it."""
        return self._ends[name].result()

    def _play(self, name: str) -> tuple[float, str | None]:
        began = time.monotonic()
        namespace = self._rows.namespace(name)
        with self._stage(name, namespace) as stage:
            try:
                figure = self._rows[name].story(stage)
            except pytest.skip.Exception:
                raise
            except BaseException as error:
                error.add_note(stage.picture())
                error.add_note(self._logs.naming(namespace, _LINES))
                raise
        return time.monotonic() - began, figure


def row_test(rows: Rows) -> Callable[..., None]:
    """Return the test of all rows of a module."""

    @pytest.mark.parametrize(PROPERTY, rows)
    def test_row(played: Played, row: str, record_property: Callable[[str, object], None]) -> None:
        """A row of the table comes out as it says."""
        seconds, figure = played.end(row)
        record_property(PROPERTY, seconds)
        if figure is not None:
            record_property(FIGURE, figure)

    return test_row


def chosen_rows(request: pytest.FixtureRequest) -> Sequence[str]:
    """Return the rows of a module that are to be tested."""
    found = []
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module:
            name = item.callspec.params.get(PROPERTY) if hasattr(item, "callspec") else None
            if isinstance(name, str):
                found.append(name)
    return found
