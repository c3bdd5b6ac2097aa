"""The rules that flags ask for, as the shells and cores take them."""

from __future__ import annotations

from app.core.admission.mutate import PodRules
from app.core.admission.overlap import Disjointness
from app.core.admission.validate import ValidationRules
from app.settings.admission import Decisions
from app.web.reviews import ReviewRules


def review_rules(decisions: Decisions) -> ReviewRules:
    """Return the rules of reviews."""
    return ReviewRules(
        PodRules(decisions.gates, decisions.max_cpu_boost),
        ValidationRules(Disjointness(decisions.disjointness)),
    )
