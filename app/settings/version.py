"""Settings of telling the version."""

from __future__ import annotations

from dataclasses import dataclass

from app.settings.shared import Showing


@dataclass(frozen=True, slots=True)
class VersionSettings:
    """All that telling the version can be told."""

    showing: Showing
