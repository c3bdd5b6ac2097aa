"""Which VPAs update running pods."""

from __future__ import annotations

import pytest

from app.model.gates import FeatureGates
from app.updater.core.assess import mode_blocker
from app.updater.core.decisions import Reason
from tests import make
from tests.make import ALL_GATES, NO_GATES


@pytest.mark.parametrize(
    ("mode", "gates", "expected"),
    [
        (None, NO_GATES, None),
        ("", NO_GATES, None),
        ("Recreate", NO_GATES, None),
        ("Auto", NO_GATES, None),
        ("UpscaleOnly", NO_GATES, None),
        ("InPlaceOrRecreate", NO_GATES, None),
        ("InPlace", ALL_GATES, None),
        pytest.param("InPlace", NO_GATES, Reason.GATE_DISABLED, id="InPlace without its gate"),
        ("Off", NO_GATES, Reason.MODE_OFF),
        ("Initial", NO_GATES, Reason.MODE_INITIAL),
        ("Sometimes", NO_GATES, Reason.MODE_OFF),
    ],
)
def test_modes(mode: str | None, gates: FeatureGates, expected: Reason | None) -> None:
    """Each mode acts on running pods, or has a reason why not."""
    found = mode_blocker(make.vpa(mode=mode), gates)
    assert (found[0] if found else None) is expected


def test_unknown_modes_do_nothing() -> None:
    """Not even if the VPA has a boost."""
    vpa = make.vpa(mode="Sometimes", boost=make.boost_json(factor=2))
    found = mode_blocker(vpa, ALL_GATES)
    assert found == (Reason.MODE_OFF, 'the update mode "Sometimes" is not known')
