"""Settings of printing what is applied to a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from app.settings.flags import Rest
from app.settings.shared import AsYaml


@dataclass(frozen=True, slots=True)
class Printing:
    """How it is printed."""

    output: AsYaml


@dataclass(frozen=True, slots=True)
class ManifestsSettings:
    """All that printing documents can be told."""

    printing: Printing
    names: Annotated[tuple[str, ...], Rest("DOCUMENT", "which of them")]
