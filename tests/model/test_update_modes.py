"""The table of update modes, and what pauses updates."""

from __future__ import annotations

from app.model.gates import FeatureGate
from app.model.snapshot import Collection, Replacement, removal, replacement
from app.model.update_modes import (
    MODES,
    PAUSED_ANNOTATION,
    UNKNOWN_MODE,
    ModeRules,
    UpdateMode,
    mode_rules,
    pausing_value,
)
from tests import make
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


@cases(
    "value pauses",
    {
        "none": (None, False),
        "true": ("true", True),
        "another true": ("1", True),
        "false": ("false", False),
        "another false": ("F", False),
        "no boolean": ("yes", True),
        "no boolean, meant as false": ("off", True),
        "nothing": ("", True),
        "the right word, spelled wrong": (" false", True),
    },
)
def test_what_pauses(value: str | None, pauses: bool) -> None:
    """Only a false boolean, or no annotation, pauses nothing: to stop is the safe side."""
    annotations = {"other": "true"} | ({} if value is None else {PAUSED_ANNOTATION: value})
    assert pausing_value(annotations) == (value if pauses else None)


def test_paused_namespaces_of_a_snapshot() -> None:
    """A snapshot has the paused ones alone, whether they have pods or not, and loses them again."""
    paused, other = make.namespace_json("shop", paused="true"), make.namespace_json("bank")
    snapshot = make.snapshot(paused, other, make.pod())
    assert snapshot.paused_namespaces == {"shop": "true"}
    assert list(snapshot.namespaces) == ["default"]
    assert snapshot.value(Collection.PAUSED_NAMESPACES, "", "shop") == "true"
    resumed = replacement(make.namespace_json("shop", paused="false"))
    assert resumed == Replacement(Collection.PAUSED_NAMESPACES, "default", "shop", None)
    assert snapshot.changed([resumed]).paused_namespaces == {}
    gone = removal("v1", "Namespace", "", "shop")
    assert gone is not None
    assert snapshot.changed([gone]).paused_namespaces == {}
    assert snapshot.paused_namespaces == {"shop": "true"}
