"""Which VPAs a pod feeds.

Strategy: labels decide for VPAs without a selector of their own, as they always did; a VPA with
a selector also asks that the pod is owned by the target. What is not known is not "no": while
an owner cannot be looked up, a pod stays where it is. VPAs are found by one of the equalities
they ask for, the one that the fewest others share, so that a pod meets few of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.model.kinds import ObjectKey
from app.model.selectors import NOTHING, Operator, Selector

_Anchor = tuple[str, str, str]  # namespace, label, value


@dataclass(slots=True)
class Claim:
    """On which pods a VPA has a claim."""

    namespace: str
    of_target: Selector = NOTHING
    own: Selector | None = None
    target: ObjectKey | None = None

    def admits(self, labels: Mapping[str, str], top: ObjectKey | None, *, before: bool) -> bool:
        """Whether a pod is among them; an unknown owner leaves it as it was before."""
        if not self.of_target.matches(labels):
            return False
        if self.own is None:
            return True
        if not self.own.matches(labels):
            return False
        return before if top is None else top == self.target


class Claims:
    """The claims of all VPAs, by line in the table of VPAs."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}
        self._anchors: dict[int, _Anchor] = {}
        self._by_anchor: defaultdict[_Anchor, set[int]] = defaultdict(set)

    def put(self, vpa: int, claim: Claim) -> None:
        """Set or change a claim."""
        self.remove(vpa)
        anchor = min(
            _anchors(claim),
            key=lambda found: len(self._by_anchor.get(found, ())),
            default=(claim.namespace, "", ""),
        )
        self._claims[vpa] = claim
        self._anchors[vpa] = anchor
        self._by_anchor[anchor].add(vpa)

    def remove(self, vpa: int) -> None:
        """Give a claim up."""
        if self._claims.pop(vpa, None) is not None:
            anchor = self._anchors.pop(vpa)
            self._by_anchor[anchor].discard(vpa)
            if not self._by_anchor[anchor]:
                del self._by_anchor[anchor]

    def has_own_selector(self, vpa: int) -> bool:
        """Whether a VPA asks for more than its target's labels."""
        return self._claims[vpa].own is not None

    def of(
        self,
        namespace: str,
        labels: Mapping[str, str],
        top: ObjectKey | None,
        before: frozenset[int],
    ) -> frozenset[int]:
        """Return the VPAs that claim a pod."""
        return frozenset(
            vpa
            for vpa in self._candidates(namespace, labels)
            if self._claims[vpa].admits(labels, top, before=vpa in before)
        )

    def _candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[int]:
        yield from self._by_anchor.get((namespace, "", ""), ())
        for key, value in labels.items():
            yield from self._by_anchor.get((namespace, key, value), ())


def _anchors(claim: Claim) -> list[_Anchor]:
    """Return the labels without which no pod can be claimed."""
    selectors = [claim.of_target] + ([claim.own] if claim.own is not None else [])
    return [
        (claim.namespace, requirement.key, value)
        for selector in selectors
        for requirement in selector.requirements
        if requirement.operator is Operator.IN and len(requirement.values) == 1
        for value in requirement.values
    ]
