"""The form of what is answered about recommendations, for the page that documents it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

Amounts = dict[str, str]  # quantities by resource
Origin = Literal["computed", "kept"]


class _Shape(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        use_attribute_docstrings=True,
    )


class Target(_Shape):
    """The workload whose pods are meant."""

    api_version: str
    kind: str
    name: str


class Condition(_Shape):
    """A condition in the status of the VPA."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime | None


class Evidence(_Shape):
    """On what the amounts rest."""

    samples: int
    """CPU samples, or minutes' worth of them."""
    first_sample: datetime | None
    last_sample: datetime | None
    span_seconds: float
    """From the first sample to the last."""
    living_containers: int
    """Containers of this name that were alive."""
    confidence: dict[str, float]
    """By resource, how many intervals of confidence (a day) the history is worth."""


class Steps(_Shape):
    """One amount, step by step; every amount is in the unit of the resource."""

    percentile: float
    """The share of all usage that shall be met, by weight."""
    bucket: int | None
    """The bucket of the histogram in which this percentile falls; null without samples."""
    bucket_start: float | None
    percentile_amount: int
    """The end of that bucket, cut off."""
    with_margin: int
    """percentileAmount + cut(percentileAmount x marginFraction)."""
    multiplier: float | None
    """By confidence c: target 1, lowerBound (1 + 0.001/c)^-2, upperBound 1 + 1/c; null: no end."""
    with_confidence: int
    """cut(withMargin x multiplier), at most 10^14."""
    floor: int
    """The container's share of what every pod gets at least."""
    with_floor: int
    """The larger of withConfidence and floor."""
    rounded: float
    """Rounded up to a multiple of roundedUpTo, then to whole cores or two decimals if asked for."""
    capped_by: str
    """minAllowed or maxAllowed of the policy, the flag, or nothing."""
    capped: float
    quantity: str
    """As it is published."""


class Derivation(_Shape):
    """How the amounts of one resource came about."""

    unit: Literal["millicores", "bytes"]
    is_shown: bool
    """Whether the resource is recommended at all: it is controlled, and usage of it is known."""
    confidence: float
    samples_weight: float
    """The weight of all samples; a sample loses half of its weight in each half-life."""
    reference_time: datetime | None
    """The time at which a new sample has its plain weight."""
    margin_fraction: float
    rounded_up_to: int
    is_whole_cores: bool
    is_humanized: bool
    target: Steps
    lower_bound: Steps
    upper_bound: Steps


class Container(_Shape):
    """What is recommended for a container."""

    container: str
    target: Amounts
    lower_bound: Amounts
    upper_bound: Amounts
    uncapped_target: Amounts
    origin: dict[str, Origin | None]
    """By resource: computed as the evidence says, or kept from before; null: not known here."""
    absence: str
    """Why nothing is computed for this container; empty if something is."""
    evidence: Evidence | None
    """Null where it is not known: a standby, or a VPA that another recommender serves."""
    capped_by: dict[str, dict[str, str]]
    """By resource and amount, what holds it: minAllowed or maxAllowed of the policy, or a flag."""
    derivation: dict[str, Derivation] | None = None
    """By resource, every step; only with `explain=true`."""


class Recommendation(_Shape):
    """What is recommended for a VPA: the amounts of its status, and on what they rest."""

    namespace: str
    name: str
    update_mode: str
    recommender: str
    """The recommender that the VPA asks for."""
    target: Target | None
    generation: int
    observed_generation: int | None
    conditions: list[Condition]
    computed_at: datetime | None
    """When the published amounts were computed; null where that is not known."""
    containers: list[Container]


class Page(_Shape):
    """Recommendations, by namespace and name."""

    items: list[Recommendation]
    next: str
    """The `after` of the next page; empty on the last one."""


class Resources(_Shape):
    """What a container asks for."""

    requests: Amounts
    limits: Amounts


class PodContainer(_Shape):
    """What a container of a pod would get."""

    container: str
    now: Resources
    """What the running pod asks for."""
    gets: Resources
    """What it would ask for if it were created at this moment."""
    notes: list[str]
    """What held the recommendation back."""
    is_boosted: bool
    """Whether the CPU is that of the start, which ends when the pod is ready."""
    recommendation: Container | None
    """What the VPA recommends for it."""
    story: dict[str, object] | None = None
    """Each resource from what it had to what it gets, with `explain=true`."""


class PodAnswer(_Shape):
    """What a pod would get if it were created at this moment."""

    namespace: str
    name: str
    reason: str
    """Why it is sized or left alone; the words are those of the webhook."""
    message: str
    owner: str
    """The topmost controller; empty if there is none."""
    vpa: str
    """The VPA that would control it; empty if none does."""
    role: str
    """What the running pod is by a Lease, and why; empty if no Lease gives it a role."""
    computed_at: datetime | None
    containers: list[PodContainer]
