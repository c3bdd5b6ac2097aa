"""Which namespaces a viewer may see, as its API server says.

Strategy: a viewer of a few namespaces costs a question for each one that there is. So what may be
seen is believed for a minute, what may not for some minutes, each for another time: they are not
all asked about again at the same moment. One request of a viewer asks, others of the same one wait
for it; what takes too long is not waited for, and what was answered stays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from app.model.review import Identity
from app.ports import PODS, VPAS
from app.runtime.access import Guard
from app.runtime.answers import Refusal

EVERYWHERE: Final = ""  # in the place of a namespace: in all of them
SEEN_SECONDS: Final = 60.0  # for which it is believed that a namespace may be seen
UNSEEN_SECONDS: Final = 240.0  # the same for one that may not, or up to twice as long
_GOLDEN: Final = 0.618  # its multiples spread evenly
_ASKERS: Final = 8  # side by side, for all viewers
_AT_ONCE: Final = 64
_PATIENCE_SECONDS: Final = 5.0
_MOST_VIEWERS: Final = 200
_LATER: Final = {"retry-after": "5"}
_ASKING: Final = "the API server is still being asked which namespaces you may see"


@dataclass(slots=True)
class _Answers:
    """What is known of one viewer."""

    lock: Lock = field(default_factory=Lock)
    known: dict[str, tuple[float, bool]] = field(default_factory=dict)  # until when, by namespace

    def of(self, namespace: str, now: float) -> bool | None:
        """Return whether a namespace may be seen, None if that has to be asked."""
        until, may_be_seen = self.known.get(namespace, (0.0, False))
        return may_be_seen if now < until else None


class SeenNamespaces:
    """Knows what viewers may see; any thread may ask."""

    def __init__(self, guard: Guard, monotonic: Callable[[], float]) -> None:
        self._guard = guard
        self._monotonic = monotonic
        self._lock = Lock()
        self._viewers: OrderedDict[Hashable, _Answers] = OrderedDict()
        self._askers = ThreadPoolExecutor(_ASKERS, "namespaces")

    def of(self, identity: Identity, wanted: Collection[str]) -> Callable[[str], bool]:
        """Return what tells whether a viewer may see a namespace; of `wanted` that is known then.

        Raises:
            Refusal: this cannot be checked, or not as fast as one waits.
        """
        found = self._answers(identity)
        until = self._monotonic() + _PATIENCE_SECONDS
        if not found.lock.acquire(timeout=_PATIENCE_SECONDS):
            raise Refusal(503, _ASKING, headers=_LATER)
        try:
            if not self._settled(found, identity, EVERYWHERE):
                self._ask(found, identity, wanted, until)
        finally:
            found.lock.release()

        def may_see(namespace: str) -> bool:
            return found.known[EVERYWHERE][1] or self._settled(found, identity, namespace)

        return may_see

    def forget(self, identity: Identity) -> None:
        """Have everything asked again about a viewer, who may have got other rights."""
        with self._lock:
            self._viewers.pop(_key(identity), None)

    def _answers(self, identity: Identity) -> _Answers:
        key = _key(identity)
        with self._lock:
            found = self._viewers.setdefault(key, _Answers())
            self._viewers.move_to_end(key)
            while len(self._viewers) > _MOST_VIEWERS:
                self._viewers.popitem(last=False)
        return found

    def _ask(
        self, found: _Answers, identity: Identity, wanted: Collection[str], until: float
    ) -> None:
        """Settle what is not known of some namespaces."""
        now = self._monotonic()
        for name in found.known.keys() - {EVERYWHERE, *wanted}:
            del found.known[name]
        due = sorted(name for name in wanted if found.of(name, now) is None)
        for begin in range(0, len(due), _AT_ONCE):
            if self._monotonic() > until:
                raise Refusal(503, _ASKING, headers=_LATER)
            self._ask_some(found, identity, due[begin : begin + _AT_ONCE])

    def _ask_some(self, found: _Answers, identity: Identity, names: Sequence[str]) -> None:
        for _ in self._askers.map(lambda name: self._settled(found, identity, name), names):
            pass

    def _settled(self, found: _Answers, identity: Identity, namespace: str) -> bool:
        """Return whether a namespace may be seen, and ask if that is not known."""
        known = found.of(namespace, self._monotonic())
        if known is not None:
            return known
        may = self._guard.may
        may_be_seen = may(identity, "list", namespace, VPAS) and may(
            identity, "list", namespace, PODS
        )
        is_short = may_be_seen or namespace == EVERYWHERE
        spread = 1 + len(found.known) * _GOLDEN % 1
        seconds = SEEN_SECONDS if is_short else UNSEEN_SECONDS * spread
        found.known[namespace] = self._monotonic() + seconds, may_be_seen
        return may_be_seen


def _key(identity: Identity) -> Hashable:
    extra = tuple(sorted((key, tuple(values)) for key, values in identity.extra.items()))
    return identity.username, identity.uid, identity.groups, extra
