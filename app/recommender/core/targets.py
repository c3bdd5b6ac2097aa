"""VPAs with their targets: which pods a target has, or why it cannot be used.

Strategy: the target must exist, know its pods, and be the topmost controller that is built in
or can be scaled. What the view does not hold is not guessed: the answer is `LookupNeeded` with what
to look up. With `by_kind` the seven built-in kinds are told by their kind alone, in any API
group, as upstream does.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.model.kinds import BUILT_IN_KINDS, ObjectKey
from app.model.selectors import Selector
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import Absent, Failed, LookedUp, Lookup, LookupResult, Workload
from app.sizing.matching import LookupNeeded

# Conditions are compared by other programs, so these read as they always have.
_TOPMOST = "a topmost well-known or scalable controller"
_CHECK_FAILED = f"Error checking if target {{}} is {_TOPMOST}: {{}}"
_HAS_PARENT = f"The target {{}} has a parent controller but it should point to {_TOPMOST}"
_NO_TARGET = "targetRef not defined. If this is a v1beta1 object, switch to v1"
_UNHANDLED = "unhandled targetRef {} / {} / {}, last error {}"
_NO_SELECTOR = "resource {}/{} has an empty selector for scale sub-resource"
_NODE = "node is not a valid owner"
_CYCLE = "cycle detected in ownership chain"


VpaKey = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class ObservedVpa:
    """A VPA, and what its target turned out to be."""

    vpa: Vpa
    selector: Selector | None  # of the target's pods; None if the target cannot be resolved
    problem: str = ""  # why not, as a sentence for the condition ConfigUnsupported

    @property
    def key(self) -> VpaKey:
        """What identifies the VPA."""
        return (self.vpa.namespace, self.vpa.name)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Where controllers are looked for."""

    namespace: str
    view: NamespaceView
    looked_up: LookedUp
    by_kind: bool

    def key(self, found: ObjectKey) -> ObjectKey:
        """Return the key under which a controller is known."""
        if self.by_kind and found.kind in BUILT_IN_KINDS:
            return found._replace(group="")
        return found

    def find(self, api_version: str, key: ObjectKey) -> LookupResult | LookupNeeded:
        """Return a controller, or what to look up."""
        found = self.view.workloads.get(key) or self.looked_up.get(key)
        if found is not None:
            return found
        return LookupNeeded(Lookup(self.namespace, api_version, key.kind, key.name, key))

    def missing(self, key: ObjectKey) -> str:
        """Say that a built-in controller does not exist."""
        return f"{key.kind} {self.namespace}/{key.name} does not exist"


def resolve_target(
    vpa: Vpa, view: NamespaceView, looked_up: LookedUp, *, by_kind: bool = False
) -> ObservedVpa | LookupNeeded:
    """Return a VPA with what its target is, or what to look up for that."""
    target = vpa.target
    if target is None:
        return _unread(vpa, _NO_TARGET)
    around = _Surroundings(vpa.namespace, view, looked_up, by_kind)
    key = around.key(target.key)
    shown = f"{target.api_version}.{target.kind}/{target.name}"
    found = around.find(target.api_version, key)
    if isinstance(found, LookupNeeded):
        return found
    if not isinstance(found, Workload):
        return _unread(vpa, _why_not(found, target.api_version, key, around))
    if found.selector.never and not key.is_built_in:
        why = _NO_SELECTOR.format(vpa.namespace, target.name)
        why = _UNHANDLED.format(target.api_version, target.kind, target.name, why)
        return _unread(vpa, why)
    above = _has_top_above(found, around)
    if isinstance(above, LookupNeeded):
        return above
    if isinstance(above, str):
        return ObservedVpa(vpa, None, _CHECK_FAILED.format(shown, above))
    if above:
        return ObservedVpa(vpa, None, _HAS_PARENT.format(shown))
    return ObservedVpa(vpa, found.selector)


def _unread(vpa: Vpa, why: str) -> ObservedVpa:
    return ObservedVpa(vpa, None, f"Cannot read targetRef. Reason: {why}")


def _why_not(
    found: Absent | Failed, api_version: str, key: ObjectKey, around: _Surroundings
) -> str:
    if key.is_built_in:
        return found.message if isinstance(found, Failed) else around.missing(key)
    why = found.message if isinstance(found, Failed) else "it cannot be scaled"
    return _UNHANDLED.format(api_version, key.kind, key.name, why)


def _has_top_above(start: Workload, around: _Surroundings) -> bool | str | LookupNeeded:
    """Tell whether a topmost controller stands above another; a text says why that is not known."""
    has_parent, seen, owner = False, {start.key}, start.owner
    while owner is not None:
        if owner.kind == "Node":
            return _UNHANDLED.format(owner.api_version, owner.kind, owner.name, _NODE)
        key = around.key(owner.key)
        found = around.find(owner.api_version, key)
        if isinstance(found, LookupNeeded):
            return found
        if isinstance(found, Failed):
            return _why_not(found, owner.api_version, key, around)
        if isinstance(found, Absent):
            return around.missing(key) if key.is_built_in else has_parent
        if key in seen:
            return _CYCLE
        seen.add(key)
        has_parent, owner = True, found.owner
    return has_parent


def handles(vpa: Vpa, recommender: str) -> bool:
    """Whether a recommender of this name is meant; naming none means the default one."""
    return recommender in (vpa.recommenders or ("default",))
