"""VPAs that were let pass a moment ago and may not be stored yet.

Strategy: a webhook answers before the object is stored, so of two VPAs written at the same moment
neither would see the other among those that are stored. Whoever lets one pass notes it here, for
about as long as an API server needs to store it, and counts the notes among the siblings.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.model.vpa import Vpa

# Far more than storing takes, far less than anybody needs to change his mind and delete it again.
LIFETIME: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Claims:
    """The VPAs let pass lately, each with the moment it was."""

    noted: tuple[tuple[datetime, Vpa], ...] = ()

    def adding(self, vpa: Vpa, now: datetime) -> Claims:
        """Return the claims with one more, less those that are over."""
        return Claims((*self._held(now), (now, vpa)))

    def held(self, now: datetime) -> tuple[Vpa, ...]:
        """Return the VPAs that may be on their way to being stored."""
        return tuple(vpa for _, vpa in self._held(now))

    def _held(self, now: datetime) -> tuple[tuple[datetime, Vpa], ...]:
        return tuple(note for note in self.noted if now - note[0] < LIFETIME)
