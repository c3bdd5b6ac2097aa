"""Reads a recording out of a Prometheus, piece by piece, a few at once.

Strategy: a piece that was read is kept in a folder beside the file, so that what was broken off
goes on where it was. A question that is too much for the server is asked in halves, and given up
if single steps are too much. What is never answered stays unknown, and is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event
from typing import Final

from app.backtest.patient_prometheus import (
    PatientPrometheus,
    Tell,
    TooMuch,
    Unanswerable,
    Wait,
    silent,
)
from app.backtest.piece_folder import PieceFolder
from app.backtest.piece_reader import PieceReader
from app.backtest.pieces import NamespaceSizes, RecordingPiece, RecordingSpan
from app.backtest.prometheus_queries import Answered, MetricNames, RosterKind
from app.model.errors import BadObject, Unavailable
from app.ports import Clock, Prometheus
from app.recommender.core.promql import Flaws

Progress = Callable[[float, float], None]  # share of all, seconds left

AT_ONCE: Final = 3  # questions
_LOOK_SECONDS: Final = 0.2
_MOST_REFUSED: Final = 3  # single steps that are too much, until a question is given up
_FEWEST_STEPS: Final = 12  # that are asked for first


@dataclass(slots=True)
class RecordedPieces:
    """What became of the pieces."""

    flaws: Flaws = field(default_factory=Flaws)
    missing: list[str] = field(default_factory=list)  # sentences about what was not answered


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one piece."""

    piece: RecordingPiece
    flaws: Flaws
    missing: list[str]


class Recorder:
    """Reads all pieces of a recording, from as many servers as questions may be asked at once."""

    def __init__(
        self,
        servers: Sequence[Prometheus],
        names: MetricNames,
        span: RecordingSpan,
        sizes: Mapping[str, NamespaceSizes],
        folder: PieceFolder,
    ) -> None:
        self._servers = servers
        self._names = names
        self._span = span
        self._sizes = sizes
        self._folder = folder
        self._parts: dict[tuple[str, Answered | RosterKind], int] = {}  # steps, by what is asked
        self._stopping = Event()

    def record(
        self,
        pieces: Sequence[RecordingPiece],
        clock: Clock,
        progress: Progress,
        pause: Wait | None = None,
        tell: Tell = silent,
    ) -> RecordedPieces:
        """Read pieces into the folder.

        Raises:
            PlumblineError: it cannot go on; what was read is kept.
        """
        found, waiting, began = RecordedPieces(), deque(pieces), clock.monotonic()
        total, done = max(sum(map(self._points, pieces)), 1), 0
        free = SimpleQueue[PatientPrometheus]()
        for server in self._servers:
            wait_for = pause or self._stopping.wait
            free.put(PatientPrometheus(server, wait_for, tell, is_reached=True))
        running = set[Future[_Outcome]]()
        with ThreadPoolExecutor(len(self._servers)) as pool, self._ending():
            while waiting or running:
                while waiting and len(running) < len(self._servers):
                    running.add(pool.submit(self._read, free, waiting.popleft()))
                over, running = wait(running, _LOOK_SECONDS, FIRST_COMPLETED)
                for outcome in (each.result() for each in over):
                    done += self._points(outcome.piece)
                    _add(outcome, found)
                seconds = clock.monotonic() - began
                progress(done / total, seconds * (total - done) / done if done else 0.0)
        return found

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Whatever happens, pieces that are being read end with the question of the moment."""
        try:
            yield
        finally:
            self._stopping.set()

    def _points(self, piece: RecordingPiece) -> int:
        return piece.count * self._sizes[piece.namespace].most

    def _read(self, free: SimpleQueue[PatientPrometheus], piece: RecordingPiece) -> _Outcome:
        server = free.get()
        try:
            return self._asked(server, piece)
        finally:
            free.put(server)

    def _asked(self, server: PatientPrometheus, piece: RecordingPiece) -> _Outcome:
        """Ask all questions of a piece, each in halves if it is too much."""
        reader, missing = PieceReader(self._names, self._span, piece), list[str]()
        for what in (*Answered, *RosterKind):
            unanswered = self._answered(server, reader, what, piece)
            if unanswered:
                missing.append(f"{piece.namespace}: {what}: {unanswered}")
            else:
                missing += _left_out(what, reader.containers, piece, self._sizes)
        self._folder.keep(piece, reader.recording())
        return _Outcome(piece, reader.flaws, missing)

    def _answered(
        self,
        server: PatientPrometheus,
        reader: PieceReader,
        what: Answered | RosterKind,
        piece: RecordingPiece,
    ) -> str:
        """Ask a question, in halves where it is too much; return what is wrong with an answer.

        The next piece of the namespace is asked for in parts that were answered. Of a question
        for which some single steps are too much the rest is given up.

        Raises:
            ClusterError: it is refused, or there is no answer.
        """
        parts = self._parts.setdefault((piece.namespace, what), piece.count)
        waiting, refused, most, wrong = deque(piece.cut(parts)), 0, 0, ""
        while waiting and refused < _MOST_REFUSED:
            if self._stopping.is_set():
                raise Unavailable("broken off")
            part = waiting.popleft()
            try:
                reader.take(what, server.ask(reader.question(what, part)))
                most = max(most, part.count)
            except TooMuch as error:
                halves = part.halves()
                waiting.extendleft(reversed(halves))
                if not halves:
                    refused, wrong = refused + 1, str(error)
            except Unanswerable as error:
                return str(error)
            except BadObject as error:
                wrong = f"no answer that can be read: {error}"
        if most:
            self._parts[piece.namespace, what] = max(most, _FEWEST_STEPS)
        return wrong


def _left_out(
    what: Answered | RosterKind,
    number: int,
    piece: RecordingPiece,
    sizes: Mapping[str, NamespaceSizes],
) -> Iterator[str]:
    expected = sizes[piece.namespace].least(piece)
    if what is Answered.MEMORY and number < expected:
        told = f"{number} of at least {expected} containers are answered"
        yield f"{piece.namespace}: {told}; does a limit cut answers short?"


def _add(outcome: _Outcome, found: RecordedPieces) -> None:
    found.missing += outcome.missing
    found.flaws.series += outcome.flaws.series
    found.flaws.points += outcome.flaws.points
    for sentence in outcome.flaws.sentences:
        found.flaws.note(sentence)
