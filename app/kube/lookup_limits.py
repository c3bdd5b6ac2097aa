"""Limits of what is looked up, and how it is told that one was reached."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class LookupLimit(StrEnum):
    """A limit of what is looked up because objects or callers name it, as metrics name it."""

    OWNER_LOOKUPS = "owner_lookups"  # waiting or under way
    OWNERS_KEPT = "owners_kept"
    API_GROUPS = "api_groups"
    ACCESS_ANSWERS = "access_answers"


class LimitReached(Protocol):
    """Told whenever a limit is reached; from any thread."""

    def __call__(self, limit: StrEnum, times: int = 1, /, **about: object) -> None:
        """Count it; `about` says in the log what it was about."""
        ...
