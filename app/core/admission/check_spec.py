"""Rules for the spec of a VPA, all of them in one order.

Strategy: rules only look, and none stops another, so whoever writes an object hears of everything
at once. What an upstream webhook refuses is refused. What only this one refuses is let pass with
a warning as long as the stored object has it too: objects adopted from elsewhere stay editable.
"""

from __future__ import annotations

from typing import Final

from app.core.admission.allowance import Allowance, allowance
from app.core.admission.check_boost import boost_findings
from app.core.admission.check_policies import policies_findings
from app.core.admission.check_update_policy import update_policy_findings
from app.core.admission.problems import (
    Caution,
    Findings,
    Ratcheted,
    Verdicts,
    invalid,
    quoted,
    required,
    settle,
    too_many,
)
from app.core.admission.written import SELECTOR_PATH, Version
from app.model.gates import Gates
from app.model.kinds import BUILT_IN_KINDS, group_of
from app.model.text import nearest
from app.model.vpa import TargetReference

_BUILT_IN_GROUPS: Final = frozenset({"", "apps", "batch", "extensions"})


def spec_findings(new: Version, old: Version | None, gates: Gates) -> Verdicts:
    """Judge the spec of a VPA, beside the stored one."""
    allowed = allowance(gates, None if old is None else old.vpa)
    before = iter(()) if old is None else _findings(old, old, allowed)
    return settle(_findings(new, old, allowed), before)


def _findings(version: Version, old: Version | None, allowed: Allowance) -> Findings:
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
    yield from map(Ratcheted, version.selector_flaws)
    if vpa.selector is not None and vpa.selector.is_contradictory:
        text = "its conditions contradict each other, so no pod can match"
        yield Ratcheted(invalid(SELECTOR_PATH, str(vpa.selector), text))


def _target(target: TargetReference) -> Findings:
    path = "spec.targetRef"
    for field, word in (("kind", target.kind), ("name", target.name)):
        if not word:
            yield Ratcheted(required(f"{path}.{field}"))
    has_built_in_group = group_of(target.api_version) in _BUILT_IN_GROUPS
    if target.kind and has_built_in_group and not target.key.is_built_in:
        hint = nearest(target.kind, BUILT_IN_KINDS)
        yield Caution(
            f"{path}.kind",
            f"{quoted(target.kind)} with apiVersion {quoted(target.api_version)} is nothing that "
            f"can be scaled{hint}",
        )
