"""The table of update modes."""

from __future__ import annotations

from app.model.gates import FeatureGate
from app.model.update_modes import MODES, UNKNOWN_MODE, ModeRules, UpdateMode, mode_rules
from tests.cases import cases


def test_every_mode_has_a_row() -> None:
    """No member of the enum is missing, and nothing else has a row."""
    assert set(MODES) == set(UpdateMode)


@cases(
    "mode expected",
    {
        "Off touches no pod at all": ("Off", ModeRules(on_creation=False)),
        "Initial sizes new pods alone": ("Initial", ModeRules()),
        "Recreate evicts": ("Recreate", ModeRules(may_evict=True)),
        "InPlaceOrRecreate resizes, or evicts": (
            "InPlaceOrRecreate",
            ModeRules(may_evict=True, may_resize=True),
        ),
        "InPlace resizes, behind a gate": (
            "InPlace",
            ModeRules(may_resize=True, gate=FeatureGate.IN_PLACE),
        ),
        "UpscaleOnly evicts": ("UpscaleOnly", ModeRules(may_evict=True, only_upwards=True)),
        "an unknown mode sizes new pods alone": ("Odd", UNKNOWN_MODE),
    },
)
def test_what_a_mode_allows(mode: str, expected: ModeRules) -> None:
    """Each mode allows what its row says."""
    assert mode_rules(mode) == expected


def test_a_deprecated_mode_is_like_the_one_it_means() -> None:
    """Auto allows what Recreate does."""
    auto, recreate = mode_rules("Auto"), mode_rules("Recreate")
    assert auto.means == "Recreate"
    assert (auto.on_creation, auto.may_evict, auto.may_resize, auto.only_upwards, auto.gate) == (
        recreate.on_creation,
        recreate.may_evict,
        recreate.may_resize,
        recreate.only_upwards,
        recreate.gate,
    )
