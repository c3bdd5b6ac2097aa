"""Rules for the spec of a VPA, in one order.

Strategy: no rule stops another, so the author of an object sees all errors at once. What an
upstream webhook refuses is refused. What only this webhook refuses passes with a warning if the
stored object has it too: objects adopted from elsewhere stay editable. Eviction requirements
that can never all hold would make a VPA that silently does nothing, so a resource may be named
only once in the whole list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from app.admission.core.check_policies import (
    RESOURCES,
    Allowance,
    allowance,
    boost_findings,
    gate_is_off,
    per_vpa_findings,
    policies_findings,
)
from app.admission.core.field_errors import (
    STORED_TOO,
    FieldError,
    FieldWarning,
    Findings,
    Ratcheted,
    Verdicts,
    duplicate,
    invalid,
    not_supported,
    quoted,
    ratchet,
    required,
    too_many,
)
from app.admission.core.vpa_review import ROLE_LEASE_PATH, SELECTOR_PATH, VpaVersion
from app.model.errors import BadObject
from app.model.gates import RESIZES_PODS, FeatureGates, ServerVersion
from app.model.kinds import BUILT_IN_KINDS, group_of
from app.model.role_leases import ROLE_LEASE_ANNOTATION, parse_role_lease
from app.model.selectors import Operator
from app.model.snapshot import NamespaceView
from app.model.text import BOOLEANS, nearest
from app.model.update_modes import MODES, PAUSED_ANNOTATION, mode_rules, pausing_value
from app.model.vpa import (
    ChangeRequirement,
    EvictionRequirement,
    TargetReference,
    UpdatePolicy,
    Vpa,
)
from app.sizing.boost import unprobed_boosts

_BUILT_IN_GROUPS: Final = frozenset({"", "apps", "batch", "extensions"})


def spec_findings(new: VpaVersion, old: VpaVersion | None, gates: FeatureGates) -> Verdicts:
    """Judge the spec of a VPA, beside the stored one."""
    allowed = allowance(gates, None if old is None else old.vpa)
    before = iter(()) if old is None else _findings(old, old, allowed)
    return ratchet(_findings(new, old, allowed), before)


def _findings(version: VpaVersion, old: VpaVersion | None, allowed: Allowance) -> Findings:
    vpa = version.vpa
    stored = None if old is None else old.vpa.update_policy
    if vpa.target is not None:
        yield from _target(vpa.target)
    elif old is None:
        yield required("spec.targetRef", "name the workload to scale, as objects of v1 must")
    yield from update_policy_findings(vpa.update_policy, stored, allowed)
    yield from policies_findings(vpa.policies or (), allowed)
    yield from boost_findings(vpa.startup_boost, "spec", allowed)
    if len(vpa.recommenders) > 1:
        yield too_many("spec.recommenders", len(vpa.recommenders), 1)
    yield from map(Ratcheted, version.selector_errors)
    if vpa.selector is not None and vpa.selector.is_contradictory:
        text = "its conditions contradict each other, so no pod can match"
        yield Ratcheted(invalid(SELECTOR_PATH, str(vpa.selector), text))
    if vpa.selector is not None and not vpa.selector.is_everything:
        yield from _roles(vpa)
    if not version.selector_errors:
        yield from map(Ratcheted, _role_lease(vpa))


def _target(target: TargetReference) -> Findings:
    path = "spec.targetRef"
    for field, word in (("kind", target.kind), ("name", target.name)):
        if not word:
            yield Ratcheted(required(f"{path}.{field}"))
    has_built_in_group = group_of(target.api_version) in _BUILT_IN_GROUPS
    if target.kind and has_built_in_group and not target.key.is_built_in:
        hint = nearest(target.kind, BUILT_IN_KINDS)
        yield FieldWarning(
            f"{path}.kind",
            f"{quoted(target.kind)} with apiVersion {quoted(target.api_version)} is nothing that "
            f"can be scaled{hint}",
        )


def _roles(vpa: Vpa) -> Findings:
    """Warn that evicting a pod takes labels away that it got after its creation."""
    if vpa.allows.may_evict and not vpa.allows.may_resize:
        yield FieldWarning(
            f"{_PATH}.updateMode",
            f"{vpa.mode} evicts pods, and a replacement has the labels of its template. So a pod "
            "that has matched spec.selector only since its labels were changed is resized in "
            "place first, and not evicted if no other one matches. InPlaceOrRecreate resizes "
            "all pods first",
        )


def _role_lease(vpa: Vpa) -> Iterator[FieldError]:
    """Judge the annotation that names a Lease: the selector must ask for the label it gives."""
    text = vpa.annotations.get(ROLE_LEASE_ANNOTATION)
    if text is None:
        return
    try:
        asked = parse_role_lease(text)
    except BadObject as error:
        yield invalid(ROLE_LEASE_PATH, text, error.message)
        return
    of_key = vpa.selector.asked_of(asked.key) if vpa.selector is not None else ()
    is_asked_for = any(one.operator in (Operator.IN, Operator.EXISTS) for one in of_key)
    if vpa.selector is None or not is_asked_for:
        told = f"spec.selector must ask for the label {quoted(asked.key)}, as matchLabels do"
        yield invalid(ROLE_LEASE_PATH, text, told)
        return
    values = (asked.leader, asked.follower)
    if not any(vpa.selector.takes(asked.key, value) for value in values):
        told = f"spec.selector takes neither {quoted(values[0])} nor {quoted(values[1])}; "
        told += "other values are named behind the Lease: ;leader=VALUE;follower=VALUE"
        yield invalid(ROLE_LEASE_PATH, text, told)


_PATH: Final = "spec.updatePolicy"
_REQUIREMENTS: Final = f"{_PATH}.evictionRequirements"
_EXPLICIT_MODES: Final = sorted(name for name, mode in MODES.items() if mode.means is None)


def update_policy_findings(
    policy: UpdatePolicy | None, stored: UpdatePolicy | None, allowed: Allowance
) -> Findings:
    """Judge an update policy, beside the stored one."""
    if policy is None:
        return
    yield from _mode(policy.mode, allowed)
    if policy.min_replicas is not None and policy.min_replicas < 1:
        yield invalid(f"{_PATH}.minReplicas", policy.min_replicas, "must be at least 1")
    seconds = policy.evict_after_oom_seconds
    yield from per_vpa_findings(f"{_PATH}.evictAfterOOMSeconds", seconds, 1, allowed)
    requirements = policy.eviction_requirements
    is_stored = stored is not None and stored.eviction_requirements == requirements
    for error in _requirements(requirements):
        yield FieldWarning.tolerated(error, STORED_TOO) if is_stored else error
    if policy.mode is not None and mode_rules(policy.mode).only_upwards:
        yield from _never_lower(requirements)


def _mode(mode: str | None, allowed: Allowance) -> Findings:
    path = f"{_PATH}.updateMode"
    if mode is None:
        yield required(path, "an updatePolicy must say its updateMode")
        return
    rules = mode_rules(mode)
    if rules.means is not None:
        words = " ".join(_EXPLICIT_MODES)
        yield FieldWarning(
            _PATH,
            f'updateMode "{mode}" is deprecated and will be removed; it means {rules.means}. '
            f"Name one of [{words}] instead, see kubernetes/autoscaler#8424",
        )
    elif rules.gate is not None and mode not in allowed.gated_modes:
        yield gate_is_off(path, f"updateMode {quoted(mode)}", rules.gate)
    elif mode not in MODES:
        yield not_supported(path, mode, _EXPLICIT_MODES)


def _requirements(requirements: Sequence[EvictionRequirement]) -> Iterator[FieldError]:
    first: dict[str, str] = {}  # where each resource stands
    for index, requirement in enumerate(requirements):
        at = f"{_REQUIREMENTS}[{index}]"
        if not requirement.resources:
            yield required(f"{at}.resources", "name cpu, memory or both")
        for position, resource in enumerate(requirement.resources):
            path, name = f"{at}.resources[{position}]", resource.lower()
            if name not in RESOURCES:
                yield not_supported(path, resource, RESOURCES)
            elif name in first:
                text = f"it stands at {first[name]}, and a resource may be named only once"
                yield duplicate(path, resource, text)
            first.setdefault(name, f"evictionRequirements[{index}].resources[{position}]")
        if not requirement.change:
            yield required(f"{at}.changeRequirement", " or ".join(sorted(ChangeRequirement)))
        elif requirement.change not in list(ChangeRequirement):
            yield not_supported(f"{at}.changeRequirement", requirement.change, ChangeRequirement)


def _never_lower(requirements: Sequence[EvictionRequirement]) -> Findings:
    for index, requirement in enumerate(requirements):
        if requirement.change == ChangeRequirement.LOWER:
            yield FieldWarning(
                f"{_REQUIREMENTS}[{index}].changeRequirement",
                "updateMode UpscaleOnly never evicts for less, so TargetLowerThanRequests "
                "keeps pods from being evicted at all",
            )


def pause_warnings(vpa: Vpa) -> Iterator[FieldWarning]:
    """Warn of an annotation that pauses although it is no boolean."""
    value = pausing_value(vpa.annotations)
    if value is not None and value not in BOOLEANS:
        text = f"{quoted(value)} is no boolean; it counts as true, "
        text += "so running pods are neither evicted nor resized"
        yield FieldWarning(f"metadata.annotations[{PAUSED_ANNOTATION}]", text)


def boost_warnings(
    vpa: Vpa, view: NamespaceView, server: ServerVersion | None
) -> Iterator[FieldWarning]:
    """Warn of what a boost of a VPA needs to end in time, and has not got.

    Args:
        vpa: the VPA.
        view: what is known of its namespace.
        server: the version of the API server, None if it is not known.
    """
    path = next(_boost_paths(vpa), None)
    if path is None:
        return
    if server is not None and server < RESIZES_PODS:
        told, needed = (".".join(map(str, version)) for version in (server, RESIZES_PODS))
        text = f"this is Kubernetes {told}, and only from {needed} on running pods can be resized, "
        yield FieldWarning(path, f"{text}so boosted pods keep their CPU for their whole life")
    if names := unprobed_boosts(vpa, view):
        text = "without a readiness or startup probe in each boosted container pods may be Ready, "
        told = (
            f"and their boosts over, long before they have started; missing in {', '.join(names)}"
        )
        yield FieldWarning(path, text + told)


def _boost_paths(vpa: Vpa) -> Iterator[str]:
    """Yield where boosts stand."""
    if vpa.startup_boost is not None and vpa.startup_boost.cpu is not None:
        yield "spec.startupBoost"
    for index, policy in enumerate(vpa.policies or ()):
        if policy.startup_boost is not None and policy.startup_boost.cpu is not None:
            yield f"spec.resourcePolicy.containerPolicies[{index}].startupBoost"
