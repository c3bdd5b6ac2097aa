"""Reads a recording out of a Prometheus, piece by piece, a few at once.

Strategy: a piece that was read is kept in a folder beside the file, so that what was broken off
goes on where it was. A question that is too much for the server is asked in halves, and given up
if one step is too much. What is never answered stays unknown, and is told.
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

from app.backtest.patient_prometheus import PatientPrometheus, TooMuch, Unanswerable, Wait
from app.backtest.piece_folder import PieceFolder
from app.backtest.piece_reader import PieceReader
from app.backtest.pieces import NamespaceSizes, RecordingPiece, RecordingSpan
from app.backtest.prometheus_queries import Answered, MetricNames, RosterKind
from app.model.errors import BadObject, Unavailable
from app.ports import Clock, Json, Prometheus
from app.recommender.core.promql import Flaws
from app.recommender.core.reading import Question

Progress = Callable[[float, float], None]  # share of all, seconds left

AT_ONCE: Final = 3  # questions
_LOOK_SECONDS: Final = 0.2


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
    halves: Sequence[RecordingPiece] = ()  # to be read in its place


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
        self._stopping = Event()

    def record(
        self,
        pieces: Sequence[RecordingPiece],
        clock: Clock,
        progress: Progress,
        pause: Wait | None = None,
    ) -> RecordedPieces:
        """Read pieces into the folder.

        Raises:
            PlumblineError: it cannot go on; what was read is kept.
        """
        found, waiting, began = RecordedPieces(), deque(pieces), clock.monotonic()
        total, done = max(sum(map(self._points, pieces)), 1), 0
        free = SimpleQueue[PatientPrometheus]()
        for server in self._servers:
            free.put(PatientPrometheus(server, pause or self._stopping.wait, is_reached=True))
        running = set[Future[_Outcome]]()
        with ThreadPoolExecutor(len(self._servers)) as pool, self._ending():
            while waiting or running:
                while waiting and len(running) < len(self._servers):
                    running.add(pool.submit(self._read, free, waiting.popleft()))
                over, running = wait(running, _LOOK_SECONDS, FIRST_COMPLETED)
                for outcome in (each.result() for each in over):
                    waiting.extendleft(reversed(outcome.halves))
                    done += 0 if outcome.halves else self._points(outcome.piece)
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
        for what, question in reader.questions():
            try:
                for body in self._answers(server, question):
                    reader.take(what, body)
            except TooMuch as error:
                if question.start is None and piece.halves():
                    return _Outcome(piece, Flaws(), [], piece.halves())
                missing.append(f"{piece.namespace}: {what}: {error}")
            except Unanswerable as error:
                missing.append(f"{piece.namespace}: {what}: {error}")
            except BadObject as error:
                missing.append(f"{piece.namespace}: {what}: no answer that can be read: {error}")
            else:
                missing += _left_out(what, reader.containers, piece, self._sizes)
        self._folder.keep(piece, reader.recording())
        return _Outcome(piece, reader.flaws, missing)

    def _answers(self, server: PatientPrometheus, question: Question) -> Iterator[Json]:
        """Yield the answers to a question; what one step alone is too much for is given up.

        Raises:
            ClusterError: it is refused, or there is no answer.
        """
        if self._stopping.is_set():
            raise Unavailable("broken off")
        try:
            yield server.ask(question)
        except TooMuch:
            halves = question.halves()
            if not halves:
                raise
            for half in halves:
                yield from self._answers(server, half)


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
