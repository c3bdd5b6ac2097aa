"""Namespaces take turns, so that what one of them has much of holds up no other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


def in_turns(items: Mapping[str, Iterable[T]], first: int) -> Iterator[T]:
    """Yield one item of each namespace, then another one of each; `first` says which begins."""
    queues = deque(iter(of_one) for of_one in items.values())
    queues.rotate(-first)
    while queues:
        queue = queues.popleft()
        for item in queue:
            yield item
            queues.append(queue)
            break
