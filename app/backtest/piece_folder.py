"""The folder beside a recording that keeps its pieces until all of them were read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import orjson

from app.backtest.pieces import RecordingPiece, RecordingSpan
from app.backtest.recording import Recording
from app.backtest.recording_file import load_recording, save_recording
from app.kube.failures import cause_of
from app.model.errors import BadSetting

_SUFFIX: Final = ".pieces"
_REQUEST: Final = "request.json"
_FILE: Final = re.compile(r"([^.][^/]*)\.([0-9]+)\.([0-9]+)\.npz", re.ASCII)


class PieceFolder:
    """Pieces of one recording."""

    def __init__(self, file: Path) -> None:
        self.path = file.with_name(f"{file.name}{_SUFFIX}")

    def begun(self, request: Mapping[str, object]) -> RecordingSpan | None:
        """Return what is being read already, None if nothing was read yet.

        Raises:
            BadSetting: the folder keeps another recording.
        """
        told = self.path / _REQUEST
        if not self.pieces():
            return None
        try:
            found = orjson.loads(told.read_bytes())
            asked, span = found["asked"], RecordingSpan(*found["span"])
        except OSError as error:
            raise BadSetting(f"{told}: cannot be read: {cause_of(error)}") from None
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise BadSetting(f"{told}: cannot be read; remove {self.path}") from None
        if asked == request:
            return span
        problem = "keeps pieces of a recording that was asked for otherwise"
        raise BadSetting(f"{self.path}: {problem}: repeat that command, or remove the folder")

    def begin(self, request: Mapping[str, object], span: RecordingSpan) -> Sequence[RecordingPiece]:
        """Return the pieces that were read before; one that is damaged is read again.

        Raises:
            BadSetting: the folder cannot be written.
        """
        begun = {"asked": dict(request), "span": [span.start, span.step, span.count]}
        try:
            self.path.mkdir(exist_ok=True)
            (self.path / _REQUEST).write_bytes(orjson.dumps(begun))
        except OSError as error:
            raise BadSetting(f"{self.path}: cannot be written: {cause_of(error)}") from None
        for path, piece in list(self._files()):
            try:
                found = load_recording(path, is_whole=False)
                is_it = found.start == span.time(piece.first) and found.count == piece.count
            except BadSetting:
                is_it = False
            if not is_it:
                path.unlink()
        return self.pieces()

    def keep(self, piece: RecordingPiece, recording: Recording) -> None:
        """Keep a piece."""
        name = f"{quote(piece.namespace, safe='')}.{piece.first}.{piece.count}.npz"
        save_recording(recording, self.path / name)

    def pieces(self) -> list[RecordingPiece]:
        """Return the pieces that are kept."""
        return [piece for _, piece in self._files()]

    def recordings(self) -> Iterator[Recording]:
        """Yield all that is kept.

        Raises:
            BadSetting: it cannot be read.
        """
        for path, _ in self._files():
            yield load_recording(path, is_whole=False)

    def remove(self) -> None:
        """Remove what was kept, and the folder if nothing else is in it."""
        for path in (*(path for path, _ in self._files()), *self.path.glob(".*")):
            path.unlink(missing_ok=True)
        (self.path / _REQUEST).unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def _files(self) -> Iterator[tuple[Path, RecordingPiece]]:
        for path in sorted(self.path.glob("*.npz")):
            if found := _FILE.fullmatch(path.name):
                namespace, first, count = found.groups()
                yield path, RecordingPiece(unquote(namespace), int(first), int(count))
