"""Which VPAs update running pods at all."""

from __future__ import annotations

from typing import Final

from app.model.gates import FeatureGate, FeatureGates
from app.model.vpa import UpdateMode, Vpa
from app.updater.core.decisions import Reason

IN_PLACE_MODES: Final = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)
_RECREATE: Final = (UpdateMode.RECREATE, UpdateMode.AUTO, UpdateMode.UPSCALE_ONLY)


def switched_off(vpa: Vpa, gates: FeatureGates) -> tuple[Reason, str] | None:
    """Return why a VPA updates no running pods, None if it does."""
    mode = vpa.mode
    if mode in _RECREATE or mode == UpdateMode.IN_PLACE_OR_RECREATE:
        return None
    if mode == UpdateMode.IN_PLACE:
        if FeatureGate.IN_PLACE in gates:
            return None
        return Reason.GATE_DISABLED, "mode InPlace needs the feature gate InPlace"
    if mode == UpdateMode.INITIAL:
        return Reason.MODE_INITIAL, "mode Initial sizes pods only when they are created"
    if mode == UpdateMode.OFF:
        return Reason.MODE_OFF, "mode Off changes no pods"
    return Reason.MODE_OFF, f'the update mode "{mode[:40]}" is not known'
