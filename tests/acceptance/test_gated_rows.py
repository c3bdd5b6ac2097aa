"""With all gates off: what they guard is refused, and ignored where it is there already."""

from __future__ import annotations

from threading import Lock

import pytest

from app.model.fields import Json
from tests.acceptance.rows import Rows, row_test
from tests.acceptance.space import boost
from tests.acceptance.stage import Stage
from tests.cluster.api import Refusal

WEBHOOK = True
WORKERS: dict[str, tuple[str, ...]] = {"updater": ()}
ROWS = Rows()
test_row = row_test(ROWS)

ONE_AT_A_TIME = Lock()
BOOST = boost(type="Factor", factor=3, durationSeconds=1)


@ROWS.row("SX-20", "SX-32")
def gated(stage: Stage) -> None:
    """A VPA that needs a gate is refused; one that was stored before does nothing of it."""
    cases: dict[str, tuple[str, Json, str, str]] = {
        "SX-20": ("Recreate", BOOST, "startupBoost", "100m/100Mi"),
        "SX-32": ("InPlace", {}, "InPlace", "200m/200Mi"),
    }
    mode, spec, word, sizes = cases[stage.name]
    with ONE_AT_A_TIME:
        with pytest.raises(Refusal, match=word):
            stage.vpa(mode, name="new", **spec)
        stage.while_unregistered(lambda: stage.vpa(mode, **spec))
    stage.start()
    stage.recommend(sizes)
    stage.quiet()
    if stage.name == "SX-20":
        stage.delete_one()  # for whom the webhook knows the VPA for sure
    assert stage.requests() == ["100m"] * 3
