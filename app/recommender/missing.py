"""How VPAs stand: what is counted of each, and which have had no recommendation for long."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from app.model.update_modes import DEFAULT_MODE
from app.model.vpa import Vpa
from app.ports import Clock
from app.recommender.core.status import ConditionType
from app.recommender.core.targets import VpaKey
from app.recommender.metrics import VpaState

log = logging.getLogger("recommender.vpas")

_LONG_SECONDS: Final = 1800.0
_MOST_NAMED: Final = 10


class Missing:
    """Remembers since when VPAs have had none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[VpaKey, float] = {}  # or since it was last told

    def look(self, vpas: Iterable[Vpa]) -> None:
        """Tell in one line who has had none for half an hour, and again after another one."""
        now = self._clock.monotonic()
        without = ((one.namespace, one.name) for one in vpas if not one.recommendation)
        self._since = {key: self._since.get(key, now) for key in without}
        late = [key for key, since in self._since.items() if now - since > _LONG_SECONDS]
        if late:
            self._since.update(dict.fromkeys(late, now))
            names = ["/".join(key) for key in sorted(late)[:_MOST_NAMED]]
            log.info("without recommendation for long", extra={"count": len(late), "vpas": names})


def state_of(vpa: Vpa) -> VpaState:
    """Return a VPA as it is counted."""
    conditions = {one.type for one in vpa.conditions if one.status == "True"}
    mode = vpa.update_policy.mode if vpa.update_policy is not None else None
    return VpaState(
        update_mode=mode or DEFAULT_MODE,
        has_recommendation=bool(vpa.recommendation),
        version="v1",
        matches_pods=ConditionType.NO_PODS_MATCHED not in conditions,
        unsupported_config=ConditionType.CONFIG_UNSUPPORTED in conditions,
    )
