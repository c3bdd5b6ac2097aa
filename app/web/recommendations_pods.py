"""What a running pod would get if it were created at this moment.

Strategy: the question is put to the core of the webhook, with the pod as its controller would
create it and the LimitRanges of its namespace, which are read for this one question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core.admission.explain import explain
from app.core.admission.mutate import PodRules, PodVerdict, admit_pod
from app.core.matching import MatchReason, Unknown
from app.core.reporting.recreated import created_again
from app.core.updating.unboost import original_resources
from app.model.errors import BadObject, ClusterError, NotFound
from app.model.fields import object_at, objects_at
from app.model.kinds import ObjectKey
from app.model.limits import LimitRange, read_limit_range, together
from app.model.patches import apply
from app.model.pods import Container, read_pod
from app.model.review import GroupVersionWord, Request
from app.model.snapshot import NamespaceView, Snapshot
from app.model.vpa import Vpa
from app.model.workloads import Found, read_workload
from app.ports import LIMIT_RANGES, PODS, WORKLOADS, Clock, Cluster, Json, Owners
from app.web.problems import Refusal

_PAGE: Final = 500
_LOOKUP_SECONDS: Final = 5.0
_MOST_LOOKUPS: Final = 10
_LATER: Final = {"retry-after": "5"}
_KIND: Final = GroupVersionWord("", "v1", "Pod")
_RESOURCE: Final = GroupVersionWord("", "v1", "pods")


@dataclass(frozen=True, slots=True)
class SizedPod:
    """A pod, and what became of it as it would be created."""

    running: Json
    anew: Json
    verdict: PodVerdict

    @property
    def vpa(self) -> Vpa | None:
        """The VPA that controls it."""
        return self.verdict.match.vpa if self.verdict.match is not None else None

    def told(self, entries: Mapping[str, Json], *, explains: bool) -> Json:
        """Return what is answered; `entries` are what the VPA recommends, by container."""
        verdict, match = self.verdict, self.verdict.match
        changed = apply(self.anew, verdict.patch)
        gets, now = _resources(changed), _resources(self.running)
        stories = explain(verdict).get("containers", ()) if explains else ()
        by_name = {story["name"]: story for story in stories}
        notes = {found.container: found.sizes.notes for found in verdict.containers}
        boosted = {found.container for found in verdict.containers if found.boost is not None}
        return {
            "namespace": self.running["metadata"]["namespace"],
            "name": self.running["metadata"]["name"],
            "reason": str(verdict.reason),
            "message": verdict.message,
            "owner": str(match.owner.key) if match is not None and match.owner else "",
            "vpa": self.vpa.name if self.vpa is not None else "",
            "containers": [
                {
                    "container": name,
                    "now": now.get(name, {"requests": {}, "limits": {}}),
                    "gets": resources,
                    "notes": list(notes.get(name, ())),
                    "isBoosted": name in boosted,
                    "recommendation": entries.get(name),
                }
                | ({"story": by_name.get(name)} if explains else {})
                for name, resources in gets.items()
            ],
        }


class Sizer:
    """Sizes running pods anew; any thread may ask."""

    def __init__(self, cluster: Cluster, owners: Owners, clock: Clock, rules: PodRules) -> None:
        self._cluster = cluster
        self._owners = owners
        self._clock = clock
        self._rules = rules

    def size(self, namespace: str, name: str, snapshot: Snapshot) -> SizedPod:
        """Return what a pod would get.

        Raises:
            Refusal: there is no such pod, or it cannot be read.
        """
        subject = f"Pod {namespace}/{name}"
        try:
            pod = self._cluster.get(PODS, namespace, name)
            limits = together(self._limit_ranges(namespace))
            view = replace(snapshot.of(namespace), limits=limits)
            verdict = self._judge(pod, view)
            anew = created_again(pod, self._template(verdict) or _unboosted(pod))
            return SizedPod(pod, anew, self._judge(anew, view))
        except NotFound:
            message = f"there is no pod {namespace}/{name}"
            raise Refusal(404, message, subject=subject, field="path.name") from None
        except ClusterError as error:
            message = f"the cluster gives no answer: {error}"
            raise Refusal(503, message, subject=subject, headers=_LATER) from None
        except BadObject as error:
            raise Refusal(500, f"{subject}: {error}", subject=subject, field=error.path) from None

    def _judge(self, pod: Mapping[str, Any], view: NamespaceView) -> PodVerdict:
        metadata = object_at(pod, "metadata", "")
        request = Request(
            uid="",
            kind=_KIND,
            resource=_RESOURCE,
            subresource="",
            operation="CREATE",
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
            dry_run=True,
            new=pod,
            old=None,
        )
        until = self._clock.monotonic() + _LOOKUP_SECONDS
        known: dict[ObjectKey, Found] = {}
        for _ in range(_MOST_LOOKUPS):
            verdict = admit_pod(request, view, known, self._rules)
            if not isinstance(verdict, Unknown):
                return verdict
            seconds = max(until - self._clock.monotonic(), 0.0)
            known[verdict.lookup.key] = self._owners.find(verdict.lookup, seconds)
        return PodVerdict(MatchReason.OWNER_UNKNOWN, f"more than {_MOST_LOOKUPS} owners to look up")

    def _limit_ranges(self, namespace: str) -> Iterator[LimitRange]:
        token = ""
        while True:
            page = self._cluster.list(LIMIT_RANGES, namespace, limit=_PAGE, continue_token=token)
            for item in page.items:
                with suppress(BadObject):  # the webhook leaves it out, too
                    yield read_limit_range(item)
            token = page.continue_token
            if not token:
                return

    def _template(self, verdict: PodVerdict) -> tuple[Container, ...]:
        """Return the containers that the pod's controller creates, none if that is not known."""
        owner = verdict.match.owner if verdict.match is not None else None
        if owner is None or not owner.key.is_built_in:
            return ()
        resource = next(one for one in WORKLOADS if one.kind == owner.key.kind)
        try:
            item = self._cluster.get(resource, owner.namespace, owner.key.name)
        except NotFound:  # it went a moment ago
            return ()
        return read_workload(item, kind=resource.kind, api_version=resource.api_version).template


def _unboosted(pod: Json) -> list[Container]:
    """Return the containers of a pod without what they have for their start alone."""
    found = read_pod(pod)
    return [
        replace(one, resources=original_resources(found, one.name) or one.resources)
        for one in found.containers
    ]


def _resources(pod: Mapping[str, Any]) -> dict[str, Json]:
    """Return requests and limits by container, as they are written."""
    return {
        str(item.get("name")): {
            word: dict(object_at(object_at(item, "resources", ""), word, ""))
            for word in ("requests", "limits")
        }
        for item in objects_at(object_at(pod, "spec", ""), "containers", "spec")
    }
