"""The plan for all pods at one moment: one decision each, and queues of what to carry out.

Strategy: namespace by namespace, owner by owner. Each owner's pods are matched with their VPAs
and assessed; only owners with a pod that wishes something are settled. What was decided for a
namespace that did not change stays as it is until its time is over; so a quiet cluster costs
next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Final

from app.model.gates import FeatureGates
from app.model.snapshot import Snapshot
from app.model.workloads import NOTHING_LOOKED_UP, LookedUp, Lookup
from app.updater.core.carrying import Queue
from app.updater.core.decisions import Decision
from app.updater.core.ledger import Ledger
from app.updater.core.memory import Memory, Place, observed
from app.updater.core.namespaces import NamespacePlan, Scene, Total, plan_namespace
from app.updater.core.owned import Overlap
from app.updater.core.rules import UpdateRules
from app.updater.core.wishes import Terms

_GOLDEN: Final = 0.618  # its multiples spread evenly, whatever the step


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done about every controlled pod."""

    now: datetime
    rules: UpdateRules
    gates: FeatureGates
    memory: Memory
    namespaces: Mapping[str, NamespacePlan]
    is_partial: bool = False  # about some pods alone

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions, by namespace and pod."""
        return tuple(chain.from_iterable(found.decisions for found in self.namespaces.values()))

    @property
    def queues(self) -> tuple[Queue, ...]:
        """What is to be carried out, per owner, the most urgent first; side by side if wanted."""
        found = chain.from_iterable(found.queues for found in self.namespaces.values())
        return tuple(sorted(found, key=attrgetter("rank")))

    @property
    def totals(self) -> tuple[Total, ...]:
        """How many pods each VPA has, and how many of them could be updated."""
        return tuple(chain.from_iterable(found.totals for found in self.namespaces.values()))

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """The controllers that would have to be known to decide about more pods."""
        return tuple(chain.from_iterable(found.lookups for found in self.namespaces.values()))

    @property
    def overlaps(self) -> tuple[Overlap, ...]:
        """VPAs that claim the same pods."""
        return tuple(chain.from_iterable(found.overlaps for found in self.namespaces.values()))


@dataclass(frozen=True, slots=True)
class Around:
    """What a plan may take into account beside the cluster's objects."""

    webhook_is_healthy: bool = True
    looked_up: Mapping[str, LookedUp] = field(default_factory=dict)  # by namespace
    before: Plan | None = None  # whose unchanged parts are taken over
    only: frozenset[Place] | None = None  # the pods to decide about, None for all
    without: frozenset[str] = frozenset()  # namespaces that are left out


NOTHING_AROUND = Around()


class Unplannable(Exception):
    """A namespace of which no plan can be made, by a defect of ours."""

    def __init__(self, namespace: str) -> None:
        super().__init__(f"no plan can be made of namespace {namespace}")
        self.namespace = namespace


def plan(
    snapshot: Snapshot,
    rules: UpdateRules,
    gates: FeatureGates,
    memory: Memory,
    now: datetime,
    around: Around = NOTHING_AROUND,
) -> Plan:
    """Decide about every controlled pod, or about some alone such as those just unboosted.

    Raises:
        Unplannable: one namespace spoils the whole; it can be left out.
    """
    memory = observed(memory, snapshot, rules, now)
    is_partial = around.only is not None
    terms = Terms(rules, gates, memory, now, around.webhook_is_healthy, is_partial)
    scene = Scene(terms, Ledger(terms), snapshot.nodes)
    touched = memory.namespaces()
    before = _comparable(around.before, rules, gates, now)
    found: dict[str, NamespacePlan] = {}
    for namespace, only in _wanted(_in_turn(snapshot, scene), around.only):
        view = snapshot.of(namespace)
        if not view.vpas or not view.pods or not rules.covers(namespace):
            continue
        if namespace in around.without:
            continue
        looked_up = around.looked_up.get(namespace, NOTHING_LOOKED_UP)
        old = before.get(namespace)
        is_quiet = old is not None and only is None and namespace not in touched
        if old is not None and is_quiet and old.still_holds(view, looked_up, now):
            found[namespace] = old
            continue
        try:
            found[namespace] = plan_namespace(namespace, view, looked_up, scene, old=old, only=only)
        except Exception as error:
            raise Unplannable(namespace) from error
    found = dict(sorted(found.items()))
    return Plan(now, rules, gates, scene.ledger.memory(), found, is_partial)


def _in_turn(snapshot: Snapshot, scene: Scene) -> list[str]:
    """Return the namespaces by name; while few evictions are left another one begins each time.

    Else one whose evictions are all refused would for ever take what is left for others.
    """
    names = sorted(snapshot.namespaces)
    if scene.ledger.evictions_left is None:
        return names
    first = int(scene.terms.now.timestamp() * _GOLDEN % 1 * len(names))
    return names[first:] + names[:first]


def _wanted(
    namespaces: Iterable[str], only: frozenset[Place] | None
) -> Iterator[tuple[str, frozenset[str] | None]]:
    """Return the namespaces in their order, each with the pods that are meant."""
    if only is None:
        yield from ((namespace, None) for namespace in namespaces)
        return
    for namespace in sorted({place[0] for place in only}):
        yield namespace, frozenset(place[1] for place in only if place[0] == namespace)


def _comparable(
    before: Plan | None, rules: UpdateRules, gates: FeatureGates, now: datetime
) -> Mapping[str, NamespacePlan]:
    """Return what an earlier plan said, nothing if it was made by other rules or another clock."""
    if before is None or before.is_partial or before.now > now:
        return {}
    if before.rules != rules or before.gates != gates:
        return {}
    return before.namespaces
