"""Feature gates: which there are, how ripe they are, which are on; and what API servers can do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.model.errors import BadSetting
from app.model.text import BOOLEANS, nearest


class FeatureGate(StrEnum):
    """The gates that exist."""

    CPU_STARTUP_BOOST = "CPUStartupBoost"
    IN_PLACE = "InPlace"
    PER_VPA_CONFIG = "PerVPAConfig"


class FeatureStage(StrEnum):
    """How ripe a gate is; alpha and beta ones can be switched together."""

    ALPHA = "Alpha"
    BETA = "Beta"


STAGES = {
    FeatureGate.CPU_STARTUP_BOOST: FeatureStage.ALPHA,
    FeatureGate.IN_PLACE: FeatureStage.ALPHA,
    FeatureGate.PER_VPA_CONFIG: FeatureStage.ALPHA,
}
ADMISSION, RECOMMENDER, UPDATER = "admission controller", "recommender", "updater"
NEEDED_BY = {  # the processes that a gate changes; it should be on in all of them or in none
    FeatureGate.CPU_STARTUP_BOOST: (ADMISSION, UPDATER, RECOMMENDER),
    FeatureGate.IN_PLACE: (ADMISSION, UPDATER),
    FeatureGate.PER_VPA_CONFIG: (ADMISSION, UPDATER, RECOMMENDER),
}
_ALL = {"AllAlpha": FeatureStage.ALPHA, "AllBeta": FeatureStage.BETA}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The gates that are on."""

    enabled: frozenset[FeatureGate] = frozenset()

    def __contains__(self, gate: FeatureGate) -> bool:
        return gate in self.enabled


def parse_gates(texts: Iterable[str]) -> FeatureGates:
    """Read `A=true,B=false` texts; what is said of one gate outranks what is said of a stage."""
    said: dict[str, bool] = {}
    for text in texts:
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, word = (piece.strip() for piece in part.partition("="))
            if not equals:
                raise BadSetting(f'feature gate "{name}" needs a value: write {name}=true')
            if word not in BOOLEANS:
                raise BadSetting(f'feature gate "{name}" is true or false, not "{word}"')
            _check_known(name)
            said[name] = BOOLEANS[word]
    enabled = {
        gate
        for gate, stage in STAGES.items()
        if said.get(gate, any(said.get(all_) for all_, of in _ALL.items() if of == stage))
    }
    return FeatureGates(frozenset(enabled))


def _check_known(name: str) -> None:
    known = [*FeatureGate, *_ALL]
    if name not in known:
        raise BadSetting(f'unknown feature gate "{name}"{nearest(name, known)}')


ServerVersion = tuple[int, int]  # major and minor

RESIZES_PODS: Final[ServerVersion] = (1, 33)  # running ones, unless switched off

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def read_version(text: str) -> ServerVersion | None:
    """Read a version such as v1.36.3, None if it is none."""
    found = _VERSION.match(text)
    return None if found is None else (int(found[1]), int(found[2]))
