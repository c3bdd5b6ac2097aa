"""A question that is asked again and again, and answered whenever the answer changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from app.model.errors import ClusterError
from app.output import Report, Text
from app.ports import Clock

PAUSE_SECONDS: Final = 10.0  # between two questions


def watched(ask: Callable[[], Report], clock: Clock) -> Iterator[Report]:
    """Yield the answer to a question, and then each that has other objects or notes.

    Of a later answer only the objects that changed are for programs. A cluster that does not answer
    later is noted, and asked again.
    """
    last = ask()
    yield last
    while True:
        clock.wait(PAUSE_SECONDS)
        try:
            found = ask()
        except ClusterError as error:
            found = Report(Text(()), last.items, (), [f"{error}; it is asked again"])
        if (found.items, found.notes) != (last.items, last.notes):
            known = list(last.items)
            yield replace(found, items=[item for item in found.items if item not in known])
        last = found
