"""The flags for what is done differently from upstream: less of it, or more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from app.core.recommendation.rules import Departures
from app.model.errors import BadSetting
from app.model.text import nearest
from app.settings.flags import Kind

_EVERYTHING: Final = "upstream"


@dataclass(frozen=True, slots=True)
class Parity:
    """Where to do as upstream does."""

    is_whole: bool = False
    switches: frozenset[str] = frozenset()  # fields of `Departures`


def _parity(texts: Sequence[str]) -> Parity:
    words = _words(texts, [_EVERYTHING, *(field.name for field in fields(Departures))])
    return Parity(_EVERYTHING in words, words - {_EVERYTHING})


def _extras(texts: Sequence[str]) -> tuple[str, ...]:
    known = [field.name for field in fields(Departures) if field.default is False]
    return tuple(sorted(_words(texts, known)))


def _words(texts: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    words = {word.strip().replace("-", "_") for text in texts for word in text.split(",")} - {""}
    for word in sorted(words - set(known)):
        raise BadSetting(f'no difference is called "{word}"{nearest(word, known)}')
    return frozenset(words)


RECOMMENDER_PARITY: Final = Kind(
    "NAME,...", "upstream, or names of differences with commas between them", _parity, repeats=True
)
EXTRAS: Final = Kind(
    "NAME,...", "names of differences with commas between them", _extras, repeats=True
)
