"""Settings of which model recommends: ours, ours with extras, or upstream's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Final

from app.flags.flags import Flag, FlagKind, chosen
from app.model.errors import BadSetting
from app.model.text import nearest
from app.recommender.core.rules import Extras

_NO_SINGLE_WORDS: Final = (
    "since 0.2 there are no single words: --parity=upstream does everything as upstream does, "
    "--parity=none nothing"
)


class ParityWith(StrEnum):
    """With whom the recommender agrees, number by number."""

    NONE = "none"
    UPSTREAM = "upstream"


def _parity(texts: Sequence[str]) -> ParityWith:
    try:
        return _CHOSEN.read([texts[-1] or ParityWith.NONE])
    except ValueError:
        raise BadSetting(_NO_SINGLE_WORDS) from None


def _extras(texts: Sequence[str]) -> tuple[str, ...]:
    known = [field.name for field in fields(Extras) if field.default is False]
    words = {word.strip().replace("-", "_") for text in texts for word in text.split(",")} - {""}
    for word in sorted(words - set(known)):
        raise BadSetting(f'no difference is called "{word}"{nearest(word, known)}')
    return tuple(sorted(words))


_CHOSEN: Final = chosen(ParityWith)
_PARITY: Final = FlagKind(_CHOSEN.word, _CHOSEN.wanted, _parity)
_EXTRAS: Final = FlagKind(
    "NAME,...", "names of differences with commas between them", _extras, repeats=True
)


@dataclass(frozen=True, slots=True)
class Likeness:
    """Likeness to upstream."""

    parity: Annotated[
        ParityWith, Flag("parity", _PARITY, "none", "upstream: recommend as upstream does")
    ]
    extras: Annotated[
        tuple[str, ...],
        Flag("extras", _EXTRAS, "", "do also what is off unless named here; may be repeated"),
    ]
