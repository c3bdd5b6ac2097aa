"""A write that is being tried, and who has a say in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.ports import Json
from app.sandbox.kinds import Kind


class Operation(StrEnum):
    """What is tried, as webhooks call it."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One write before it is made."""

    operation: Operation
    kind: Kind
    namespace: str
    name: str  # empty while it is still to be generated
    item: Json | None  # None when it is to be deleted
    old: Json | None = None
    subresource: str = ""
    dry_run: bool = False


class Gate(Protocol):
    """Somebody who may change or refuse what is tried; refusals are `ClusterError`."""

    def change(self, attempt: Attempt) -> Json:
        """Return the object as it is to be, which may be the one of the attempt, changed."""
        ...

    def check(self, attempt: Attempt) -> None:
        """Refuse by raising; the object is final."""
        ...
