"""Gathers what VPAs are judged by: themselves as they were written, and the objects around them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from app.diagnosis.core.facts import Finding, Level
from app.diagnosis.core.members import VpaKey, targets
from app.diagnosis.core.vpa_problems import EVERY_GATE, WrittenObjects, vpa_problems, vpa_schemas
from app.diagnosis.gathering import GatheredObjects, ask_with_lookups
from app.kube.manifests import documents
from app.model.gates import FeatureGates
from app.ports import VPAS, Clock

LEVEL_WORDS: Final = {
    Level.SERIOUS: "error",
    Level.WARNING: "warning",
    Level.UNKNOWN: "unknown",
    Level.NOTE: "note",
}


def written_objects(
    seen: GatheredObjects, clock: Clock, gates: FeatureGates = EVERY_GATE
) -> WrittenObjects:
    """Return the VPAs that were gathered, with what they are compared with."""
    looked_up = ask_with_lookups(
        seen.owners, clock, lambda known: (dict(known), targets(seen.snapshot))
    )
    return WrittenObjects(
        seen.snapshot,
        list(seen.objects_of(VPAS)),
        looked_up,
        vpa_schemas(documents.objects("crd")),
        gates,
        are_all=any(view.workloads for view in seen.snapshot.namespaces.values()),
    )


def problems_of(
    seen: GatheredObjects, clock: Clock, gates: FeatureGates = EVERY_GATE
) -> list[tuple[VpaKey, Finding]]:
    """Return what is wrong with the VPAs that were gathered."""
    return list(vpa_problems(written_objects(seen, clock, gates)))


def sentences(found: Iterable[tuple[VpaKey, Finding]], shown: Container[VpaKey]) -> list[str]:
    """Return as sentences what was found about the VPAs that are shown."""
    return [
        f"{LEVEL_WORDS[one.level]}: {one.about}: {one.sentence}"
        for key, one in found
        if key in shown
    ]
