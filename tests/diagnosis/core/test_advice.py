"""What helps where a pod is left as it is."""

from __future__ import annotations

from app.diagnosis.core.outlook import MATCHES, UPDATES
from app.sizing.matching import MatchReason
from app.updater.core.decisions import Reason


def test_every_reason_has_its_advice() -> None:
    """No reason is forgotten; an empty advice says that nothing needs to be done."""
    assert set(UPDATES) == set(Reason)
    assert set(MATCHES) == set(MatchReason)
