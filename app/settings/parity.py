"""The flag that brings back how the upstream autoscaler does it, as a whole or bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Final

from app.core.recommendation.rules import Departures
from app.core.updating.rules import Upstream
from app.model.errors import BadSetting
from app.model.words import nearest
from app.settings.flags import Kind

_EVERYTHING: Final = "upstream"


@dataclass(frozen=True, slots=True)
class Parity:
    """Where to do as upstream does."""

    is_whole: bool = False
    switches: frozenset[str] = frozenset()  # fields of `Upstream` or `Departures`


def _parity(differences: type, texts: Sequence[str]) -> Parity:
    known = [_EVERYTHING, *(field.name for field in fields(differences))]
    words = [word.strip().replace("-", "_") for text in texts for word in text.split(",")]
    for word in filter(None, words):
        if word not in known:
            raise BadSetting(f'no difference is called "{word}"{nearest(word, known)}')
    return Parity(_EVERYTHING in words, frozenset(filter(None, words)) - {_EVERYTHING})


_WANTED: Final = "upstream, or names of differences with commas between them"
PARITY: Final = Kind("NAME,...", _WANTED, partial(_parity, Upstream), repeats=True)
RECOMMENDER_PARITY: Final = Kind("NAME,...", _WANTED, partial(_parity, Departures), repeats=True)
