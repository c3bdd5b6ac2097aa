"""A view to begin with, for tests of what is shown."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from app.diagnosis.core.attention import Attention, Status
from app.run.view import (
    Activity,
    ActivityKind,
    ClusterSpeed,
    ResourceAmounts,
    ReviewCounts,
    Sums,
    Totals,
    Upcoming,
    View,
    VpaRow,
)

NOW = datetime(2026, 1, 5, 10, 42, 10, tzinfo=UTC)
MIB = 2**20
ROW = VpaRow(
    "shop",
    "web",
    "Recreate",
    3,
    ResourceAmounts(request=50, usage=402, target=627, lower=590, upper=17000),
    ResourceAmounts(400 * MIB, 320 * MIB, 392 * MIB, 373 * MIB, 9953 * MIB),
    Status(
        Attention.BLOCKED, "blocked: PDB web", "", "PodDisruptionBudget web allows no disruption"
    ),
)
FINE = VpaRow(
    "shop",
    "api",
    "InPlaceOrRecreate",
    2,
    ResourceAmounts(200, 150, 200, 150, 900),
    ResourceAmounts(64 * MIB, 60 * MIB, 64 * MIB, 50 * MIB, 99 * MIB),
    Status(Attention.FINE, "ok"),
)
TOTALS = Totals(
    ReviewCounts(reviews=41, pods_changed=24, vpas_refused=1),
    Counter(
        {
            ActivityKind.EVICT: 6,
            ActivityKind.RESIZE: 8,
            ActivityKind.UNBOOST: 4,
            ActivityKind.KILL: 11,
        }
    ),
    Counter(PDBBlocked=2, TooFewReplicas=1),
    before=Sums(9900, 16 * 2**30),
    after=Sums(4620, 7 * 2**30),
    killed_at=NOW - timedelta(minutes=40),
)
VIEW = View(
    "Plumbline",
    NOW,
    timedelta(minutes=42),
    ClusterSpeed(60.0),
    [ROW, FINE],
    [Activity(NOW, ActivityKind.EVICT, "web-1", "outside of its bounds")],
    TOTALS,
    Upcoming(NOW + timedelta(hours=1), "a new version of web"),
)
