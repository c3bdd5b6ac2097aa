"""The update modes, and what each allows: a new mode is a member, its row, and its tests.

Beside them the annotation that pauses the updates of running pods, of a namespace or of a VPA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.model.fields import Object, labels_at, object_at
from app.model.gates import FeatureGate
from app.model.text import BOOLEANS


class UpdateMode(StrEnum):
    """What a VPA may do to pods."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    AUTO = "Auto"  # an older word for Recreate
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"
    UPSCALE_ONLY = "UpscaleOnly"


@dataclass(frozen=True, slots=True)
class ModeRules:
    """What a mode allows; a mode that is not known sizes new pods alone."""

    on_creation: bool = True  # new pods get what is recommended
    may_evict: bool = False
    may_resize: bool = False  # in place
    only_upwards: bool = False  # running pods are never made smaller
    gate: FeatureGate | None = None  # that has to be on
    means: UpdateMode | None = None  # deprecated: an older word for that mode


DEFAULT_MODE: Final = UpdateMode.RECREATE
UNKNOWN_MODE: Final = ModeRules()
MODES: Final[Mapping[str, ModeRules]] = {
    UpdateMode.OFF: ModeRules(on_creation=False),
    UpdateMode.INITIAL: ModeRules(),
    UpdateMode.RECREATE: ModeRules(may_evict=True),
    UpdateMode.AUTO: ModeRules(may_evict=True, means=UpdateMode.RECREATE),
    UpdateMode.IN_PLACE_OR_RECREATE: ModeRules(may_evict=True, may_resize=True),
    UpdateMode.IN_PLACE: ModeRules(may_resize=True, gate=FeatureGate.IN_PLACE),
    UpdateMode.UPSCALE_ONLY: ModeRules(may_evict=True, only_upwards=True),
}


def mode_rules(mode: str) -> ModeRules:
    """Return what a mode allows."""
    return MODES.get(mode, UNKNOWN_MODE)


# Its author means to stop something, so a value that is no boolean pauses too.
PAUSED_ANNOTATION: Final = "plumbline/paused"


def pausing_value(annotations: Mapping[str, str]) -> str | None:
    """Return the annotation's value if it pauses, None without one or with a false one."""
    value = annotations.get(PAUSED_ANNOTATION)
    return None if value is None or BOOLEANS.get(value) is False else value


def read_pausing_namespace(item: Object) -> str | None:
    """Read a namespace: the value that pauses it, None if nothing does."""
    metadata = object_at(item, "metadata", "")
    return pausing_value(labels_at(metadata, "annotations", "metadata"))
