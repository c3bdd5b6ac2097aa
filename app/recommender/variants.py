"""A model and everything around it that goes with it, as one value.

Strategy: which one a process has is chosen once, where the process is put together; from there on
nothing asks which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from app.model.fields import Object
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import LookedUp
from app.ports import Cluster
from app.recommender.checkpoint_store import put_checkpoint
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.estimation import MOST
from app.recommender.core.model import Model, RecommenderModel
from app.recommender.core.oom import OomRecord, evicted
from app.recommender.core.reading import Reading
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.targets import ObservedVpa, resolve_target
from app.recommender.usage_feed import ExternalUsage
from app.sizing.matching import LookupNeeded

# How the target of a VPA is resolved: to the target, or to what is to be looked up first.
Resolve = Callable[[Vpa, NamespaceView, LookedUp], ObservedVpa | LookupNeeded]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to recommend."""

    make_model: Callable[[RecommenderRules], RecommenderModel]
    adjust_rules: Callable[[RecommenderRules], RecommenderRules]  # from those that flags ask for
    most_usage: float  # millicores or bytes; greater amounts are refused
    external_usage: type[ExternalUsage]
    past_reading: type[Reading]
    evicted: Callable[[Object], list[OomRecord]]  # the containers that an event blames
    put_checkpoint: Callable[[Cluster, Checkpoint], None]
    checkpoints_by_name: bool  # so one may overwrite that of another container
    budgets_checkpoints: bool  # a round writes the most urgent ones, else all as time allows
    flushes_checkpoints: bool  # what changed is stored before the end
    resolve: Resolve
    lookup_seconds: float  # for all look-ups of one round together
    begins_at_once: bool  # else one interval after start, and when the past is read
    samples_meanwhile: bool  # reads usage that is due also while writes of a round go on


OURS: Final = Variant(
    make_model=Model,
    adjust_rules=lambda rules: rules,
    most_usage=MOST,
    external_usage=ExternalUsage,
    past_reading=Reading,
    evicted=partial(evicted, share_resource=True),
    put_checkpoint=put_checkpoint,
    checkpoints_by_name=False,
    budgets_checkpoints=True,
    flushes_checkpoints=True,
    resolve=resolve_target,
    lookup_seconds=5.0,
    begins_at_once=True,
    samples_meanwhile=True,
)
