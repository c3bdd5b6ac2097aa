"""The flag that brings back how the upstream autoscaler does it, as a whole or bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from app.core.updating.rules import Upstream
from app.model.errors import BadSetting
from app.model.words import nearest
from app.settings.flags import Kind

_EVERYTHING: Final = "upstream"


@dataclass(frozen=True, slots=True)
class Parity:
    """Where to do as upstream does."""

    is_whole: bool = False
    switches: frozenset[str] = frozenset()  # fields of `Upstream`


def _parity(texts: Sequence[str]) -> Parity:
    known = [_EVERYTHING, *(field.name for field in fields(Upstream))]
    words = [word.strip().replace("-", "_") for text in texts for word in text.split(",")]
    for word in filter(None, words):
        if word not in known:
            raise BadSetting(f'no difference is called "{word}"{nearest(word, known)}')
    return Parity(_EVERYTHING in words, frozenset(filter(None, words)) - {_EVERYTHING})


PARITY: Final = Kind(
    "NAME,...", "upstream, or names of differences with commas between them", _parity, repeats=True
)
