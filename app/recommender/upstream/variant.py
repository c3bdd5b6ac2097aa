"""Upstream's way to recommend, weaknesses included."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

from app.recommender.core.oom import evicted
from app.recommender.core.targets import resolve_target
from app.recommender.core.usage import UsageLimits
from app.recommender.upstream.checkpoint_status import put_status
from app.recommender.upstream.model import UpstreamModel
from app.recommender.upstream.reading_once import ReadingOnce
from app.recommender.upstream.sources import ExternalUsageWhole
from app.recommender.upstream.tuning import as_upstream
from app.recommender.variants import CheckpointPolicy, Variant

UPSTREAM: Final = Variant(
    model=UpstreamModel,
    tuned=as_upstream,
    usage=UsageLimits(absent=0, most=inf),  # what is not told is not used
    external_usage=ExternalUsageWhole,
    history=ReadingOnce,
    evicted=partial(evicted, share_resource=False),
    checkpoints=CheckpointPolicy(put_status, is_budgeted=False, is_flushed=False),
    resolve=partial(resolve_target, by_kind=True),
    lookup_seconds=60.0,  # checkpoints are read once, for VPAs whose target is known by then
    begins_at_once=False,
    samples_meanwhile=False,
)
