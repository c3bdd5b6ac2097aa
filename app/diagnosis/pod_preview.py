"""What a running pod would get if it were created at this moment.

Strategy: the question is put to the core of the webhook, with the pod as its controller would
create it and the LimitRanges of its namespace, which are read for this one question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from app.admission.core.mutate import PodAdmission, PodRules, PodVerdict, admit_with_lookups
from app.admission.core.pod_explanation import explain
from app.diagnosis.core.members import created_again, creation_request
from app.kube.listing import pages
from app.model.errors import BadObject, NotFound
from app.model.fields import Object, object_at, objects_at
from app.model.gates import FeatureGates
from app.model.limits import LimitRange, combined_limits, read_limit_range
from app.model.patches import apply
from app.model.pods import (
    CONTAINERS,
    INIT_CONTAINERS,
    SIDECAR,
    Container,
    original_resources,
    read_pod,
)
from app.model.snapshot import NamespaceView, Snapshot
from app.model.workloads import Lookup, LookupResult, read_workload
from app.ports import LIMIT_RANGES, PODS, WORKLOADS, Clock, Cluster, Json, Owners, Ref
from app.recommender.api import ContainerPreview, PodPreview
from app.recommender.flags import RecommenderSettings

_LOOKUP_SECONDS: Final = 5.0


class PodPreviewer:
    """Sizes running pods as if they were created now; any thread may ask."""

    def __init__(
        self,
        cluster: Cluster,
        owners: Owners,
        clock: Clock,
        gates: FeatureGates,
        *,
        native_sidecars: bool = True,
    ) -> None:
        self._cluster = cluster
        self._owners = owners
        self._clock = clock
        self._rules = PodRules(gates, native_sidecars=native_sidecars)

    def __call__(self, namespace: str, name: str, snapshot: Snapshot) -> PodPreview:
        """Return what a pod would get.

        Raises:
            NotFound: there is no such pod.
            ClusterError: it cannot be read.
            BadObject: it cannot be understood.
        """
        running = self._cluster.get(Ref(PODS, namespace, name))
        limits = combined_limits(self._limit_ranges(namespace))
        view = replace(snapshot.of(namespace), limits=limits)
        template = self._template(self._judged(running, view)) or _unboosted(running)
        created = created_again(running, template)
        return _preview(running, created, self._judged(created, view))

    def _judged(self, pod: Json, view: NamespaceView) -> PodVerdict:
        request, admission = creation_request(pod), PodAdmission(self._rules)
        until = self._clock.monotonic() + _LOOKUP_SECONDS

        def find(lookup: Lookup) -> LookupResult:
            return self._owners.find(lookup, max(until - self._clock.monotonic(), 0.0))

        return admit_with_lookups(partial(admission.admit, request, view), find)

    def _limit_ranges(self, namespace: str) -> Iterator[LimitRange]:
        for page in pages(self._cluster, LIMIT_RANGES, namespace):
            for item in page.items:
                with suppress(BadObject):  # the webhook leaves it out, too
                    yield read_limit_range(item)

    def _template(self, verdict: PodVerdict) -> tuple[Container, ...]:
        """Return the containers that the pod's controller creates, none if that is not known."""
        owner = verdict.match.owner if verdict.match is not None else None
        if owner is None or not owner.key.is_built_in:
            return ()
        resource = next(one for one in WORKLOADS if one.kind == owner.key.kind)
        try:
            item = self._cluster.get(Ref(resource, owner.namespace, owner.key.name))
        except NotFound:  # it went a moment ago
            return ()
        return read_workload(item, kind=resource.kind, api_version=resource.api_version).template


def pod_previewer(
    settings: RecommenderSettings,
) -> Callable[[Cluster, Owners, Clock, FeatureGates], PodPreviewer]:
    """Return what makes previewers for a recommender."""
    return partial(PodPreviewer, native_sidecars=settings.loop.native_sidecars)


def _unboosted(pod: Json) -> list[Container]:
    """Return the containers of a pod without what they have for their start alone."""
    found = read_pod(pod)
    return [
        replace(one, resources=original_resources(found, one.name) or one.resources)
        for one in found.containers
    ]


def _preview(running: Json, created: Json, verdict: PodVerdict) -> PodPreview:
    match = verdict.match
    now = _resources(running)
    stories = {story["name"]: story for story in explain(verdict).get("containers", ())}
    notes = {found.container: found.sizes.notes for found in verdict.containers}
    boosted = {found.container for found in verdict.containers if found.boost is not None}
    return PodPreview(
        reason=str(verdict.reason),
        message=verdict.message,
        owner=str(match.owner.key) if match is not None and match.owner else "",
        vpa=match.vpa if match is not None else None,
        containers=[
            ContainerPreview(
                name,
                now=now.get(name, {"requests": {}, "limits": {}}),
                gets=resources,
                notes=notes.get(name, ()),
                is_boosted=name in boosted,
                story=stories.get(name),
            )
            for name, resources in _resources(apply(created, verdict.patch)).items()
        ],
    )


def _resources(pod: Mapping[str, Any]) -> dict[str, Json]:
    """Return requests and limits by container, as they are written."""
    return {
        str(item.get("name")): {
            word: dict(object_at(object_at(item, "resources", ""), word, ""))
            for word in ("requests", "limits")
        }
        for item in _lasting(object_at(pod, "spec", ""))
    }


def _lasting(spec: Object) -> Iterator[Object]:
    """Yield the containers of a pod's spec that run as long as it does."""
    yield from objects_at(spec, CONTAINERS, "spec")
    others = objects_at(spec, INIT_CONTAINERS, "spec")
    yield from (item for item in others if item.get("restartPolicy") == SIDECAR)
