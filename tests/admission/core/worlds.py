"""Pods, VPAs and LimitRanges of all kinds, as JSON, for property tests.

Strategy: few values in many spellings, so that what is equal, larger by a hair or zero meets
often; every member may be missing or empty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from app.admission.core.mutate import PodAdmission, PodRules, PodVerdict
from app.model.fields import Json
from app.model.quantity import ZERO, Quantity
from app.model.review import read_review
from app.model.snapshot import NamespaceView
from tests import make
from tests.make import ALL_GATES, NO_GATES

CPU: tuple[object, ...] = (
    "0", "1m", "7m", "100m", "0.1", "150m", "200m", "333m", "250m", "0.5", "500m", "1", 1, "1.5",
    "1500m", "2", "2000m", "187500u", "1500000001n", "1e0", "4", "1Ki",
)  # fmt: skip
MEMORY: tuple[object, ...] = (
    "0", "1", "100m", "1500m", "64Mi", "67108864", "100Mi", "100M", "128Mi", "0.125Gi", "262144k",
    "256Mi", "512Mi", "0.5Gi", "1Gi", "1024Mi", "1e9", "1G", 1000000000, "1.5Gi", "1536Mi", "2Gi",
    "611669333", "1Ti",
)  # fmt: skip
OTHERS = ("nvidia.com/gpu", "ephemeral-storage", "a~b")
NAMES = ("a", "b", "c")


def resources(*, others: bool = True) -> st.SearchStrategy[Json]:
    """Return maps of quantities."""
    known = {"cpu": st.sampled_from(CPU), "memory": st.sampled_from(MEMORY)}
    more = {name: st.sampled_from(("0", "1", "2")) for name in OTHERS if others}
    return st.fixed_dictionaries({}, optional={**known, **more})


def maybe(found: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return something or null."""
    return st.one_of(found, st.none())


def some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Return objects of which every member may be missing."""
    return st.fixed_dictionaries({}, optional=members)


def containers(*, min_size: int = 1) -> st.SearchStrategy[list[Json]]:
    """Return containers with names of their own."""
    quantities = st.one_of(resources(others=False), resources(others=False), resources())
    own = some(requests=maybe(quantities), limits=maybe(quantities))
    return st.integers(min_size, len(NAMES)).flatmap(
        lambda count: st.tuples(
            *(
                st.builds(
                    lambda found, name: (
                        {"name": name} | ({} if found is None else {"resources": found})
                    ),
                    maybe(own),
                    st.just(name),
                )
                for name in NAMES[:count]
            )
        ).map(list)
    )


BOOSTS = st.one_of(
    st.builds(
        lambda factor: {"cpu": {"type": "Factor", "factor": factor}}, st.sampled_from((1, 2, 3))
    ),
    st.builds(
        lambda amount: {"cpu": {"type": "Quantity", "quantity": amount}}, st.sampled_from(CPU)
    ),
)
ODD_BOOSTS = st.sampled_from(
    (
        {},
        {"cpu": None},
        {"cpu": {"type": "Factor"}},
        {"cpu": {"type": "Factor", "factor": 0}},
        {"cpu": {"type": "", "factor": 2}},
        {"cpu": {"type": "Quantity"}},
        {"cpu": {"type": "Quantity", "quantity": "-100m"}},
        {"cpu": {"type": "Other"}},
    )
)


def policies(*, odd: bool) -> st.SearchStrategy[list[Json]]:
    """Return container policies, also two of one name; odd ones no API server would take."""
    words = ("RequestsAndLimits", "RequestsOnly") + (("Other", "") if odd else ())
    policy = st.builds(
        lambda name, rest: {"containerName": name} | rest,
        st.sampled_from(("*", *NAMES)),
        some(
            mode=st.sampled_from(("Auto", "Auto", "Auto", "Off")),
            minAllowed=resources(),
            maxAllowed=resources(),
            controlledValues=st.sampled_from(words),
            startupBoost=st.one_of(BOOSTS, ODD_BOOSTS) if odd else BOOSTS,
        ),
    )
    return st.lists(policy, max_size=3)


def vpas(*, odd: bool) -> st.SearchStrategy[Json]:
    """Return VPAs for the pods of `StatefulSet/web`."""
    recommendation = st.builds(
        lambda name, rest: {"containerName": name} | rest,
        st.just(""),
        some(target=resources(), lowerBound=resources(), upperBound=resources()),
    )
    named = st.lists(recommendation, max_size=4).flatmap(
        lambda found: st.permutations((*NAMES, "gone")).map(
            lambda names: [
                entry | {"containerName": name} for entry, name in zip(found, names, strict=False)
            ]
        )
    )
    return st.builds(
        lambda spec, mode, status: make.vpa_json(
            mode=mode, spec=spec, status={"recommendation": status} if status is not None else None
        ),
        some(
            resourcePolicy=policies(odd=odd).map(lambda found: {"containerPolicies": found}),
            startupBoost=st.one_of(BOOSTS, ODD_BOOSTS) if odd else BOOSTS,
        ),
        st.sampled_from((None, "Recreate", "Initial", "InPlaceOrRecreate", "Off")),
        st.one_of(
            named.map(lambda found: {"containerRecommendations": found}),
            named.map(lambda found: {"containerRecommendations": found}),
            st.sampled_from((None, {})),
        ),
    )


def limit_ranges() -> st.SearchStrategy[list[Json]]:
    """Return none, one or two LimitRanges."""
    entry = st.builds(
        lambda kind, rest: {"type": kind} | rest,
        st.sampled_from(("Container", "Container", "Pod", "PersistentVolumeClaim")),
        some(
            min=resources(others=False),
            max=resources(others=False),
            default=resources(others=False),
            defaultRequest=resources(others=False),
        ),
    )
    entries = st.lists(entry, min_size=1, max_size=2)
    return st.lists(entries, max_size=2).map(
        lambda found: [
            make.limit_range_json(*items, name=f"range-{index}")
            for index, items in enumerate(found)
        ]
    )


@dataclass(frozen=True)
class World:
    """A review and everything that decides about it."""

    pod: Json
    vpa: Json
    ranges: list[Json]
    gate: bool = False
    flag: Quantity = ZERO

    @property
    def view(self) -> NamespaceView:
        """What is known of the namespace."""
        return make.snapshot(self.vpa, make.workload_json(), *self.ranges).of("default")

    @property
    def rules(self) -> PodRules:
        """What decides beside it."""
        return PodRules(ALL_GATES if self.gate else NO_GATES, self.flag)

    def with_gate(self, *, is_on: bool) -> World:
        """Return the same with boosts switched on or off."""
        return replace(self, gate=is_on)

    def admit(self) -> PodVerdict:
        """Decide about the pod."""
        review = read_review(make.review_json(self.pod))
        verdict = PodAdmission(self.rules).admit(review, self.view, {})
        assert isinstance(verdict, PodVerdict)
        return verdict


def worlds(*, odd: bool = False) -> st.SearchStrategy[World]:
    """Return reviews; odd ones also with what no API server would let pass."""
    return st.builds(
        World,
        st.builds(
            lambda found, annotations: make.pod_json(*found, annotations=annotations),
            containers(),
            st.sampled_from((None, {}, {"a": "b"})),
        ),
        vpas(odd=odd),
        limit_ranges(),
        st.booleans(),
        st.sampled_from((ZERO, ZERO, Quantity.parse("200m"), Quantity.parse("3"))),
    )
