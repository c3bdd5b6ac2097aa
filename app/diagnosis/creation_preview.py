"""What a pod would get if it were created now: one that runs, or the first one of a workload.

Strategy: the webhook's core is asked about the pod as its owner would create it. Of a workload
without pods that is its template with the workload as owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.admission.core.mutate import PodAdmission, PodVerdict
from app.admission.core.pod_explanation import explain
from app.diagnosis.core.members import FoundByNamespace, created_again, creation_request, targets
from app.diagnosis.core.outlook import MATCHES
from app.diagnosis.gathering import GatheredObjects, ask_with_lookups
from app.model.errors import BadObject
from app.model.fields import Json, Object, object_at, text_at
from app.model.kinds import ObjectKey, owner_key
from app.model.pods import Pod, read_pod
from app.model.snapshot import NamespaceView
from app.model.workloads import Lookup
from app.ports import PODS, WORKLOADS, Clock
from app.sizing.matching import LookupNeeded, MatchReason


class CreationPreview:
    """Asks the webhook's core about pods of one look at a cluster."""

    def __init__(self, seen: GatheredObjects, admission: PodAdmission, clock: Clock) -> None:
        self._seen, self._admission, self._clock = seen, admission, clock
        self._pods = {_place(item): item for item in seen.objects_of(PODS) if _has_metadata(item)}
        self._workloads = {
            (_place(item)[0], _key(item)): item
            for resource in WORKLOADS
            for item in seen.objects_of(resource)
            if _has_metadata(item)
        }

    def of_pod(self, pod: Pod) -> Json | None:
        """Return what a running pod would get if it were created again, None if it went."""
        raw = self._pods.get((pod.namespace, pod.name))
        return None if raw is None else self._asked(pod, raw)

    def of_first(self, pods: Iterable[Pod]) -> Json | None:
        """Return the same of the first of some pods that can be asked about."""
        return next(filter(None, map(self.of_pod, pods)), None)

    def of_template(self, namespace: str, key: ObjectKey) -> Json | None:
        """Return what a new pod of a workload would get, None if its template is not known."""
        item = self._workloads.get((namespace, key)) or self._custom(namespace, key)
        try:
            raw = new_pod(item, namespace) if item is not None else None
            return None if raw is None else self._asked(read_pod(raw), raw)
        except BadObject:
            return None

    def _custom(self, namespace: str, key: ObjectKey) -> Object | None:
        """Return a custom workload that a VPA targets, None if it cannot be had."""
        wanted = (one for one in targets(self._seen.snapshot) if one.namespace == namespace)
        lookup = next((one for one in wanted if one.key == key), None)
        return None if lookup is None else self._seen.written(lookup)

    def _asked(self, pod: Pod, raw: Json) -> Json:
        verdict = ask_with_lookups(
            self._seen.owners, self._clock, lambda known: self._verdict(pod, raw, known)
        )
        if isinstance(verdict, LookupNeeded):
            lookup = verdict.lookup
            return {"reason": str(MatchReason.OWNER_UNKNOWN), "message": f"{lookup.key} is unknown"}
        advice = MATCHES.get(verdict.match.reason, "") if verdict.match is not None else ""
        return explain(verdict) | ({"advice": advice} if advice else {})

    def _verdict(
        self, pod: Pod, raw: Json, known: FoundByNamespace
    ) -> tuple[PodVerdict | LookupNeeded, Sequence[Lookup]]:
        view = self._seen.snapshot.of(pod.namespace)
        owner = pod.controller
        workload = view.workloads.get(owner.key) if owner is not None else None
        template = workload.template if workload is not None else ()
        request = creation_request(created_again(raw, template))
        found = self._admission.admit(request, view, known.get(pod.namespace, {}))
        return found, [found.lookup] if isinstance(found, LookupNeeded) else []


def pods_of(view: NamespaceView, key: ObjectKey) -> Iterator[Pod]:
    """Yield the pods that a workload owns, directly or by workloads that it owns, by name."""
    for _, pod in sorted(view.pods.items()):
        if key in _owners(pod, view.workloads):
            yield pod


def _owners(pod: Pod, workloads: Mapping[ObjectKey, object]) -> Iterator[ObjectKey]:
    owner, seen = pod.controller, set[ObjectKey]()
    while owner is not None and owner.key not in seen:
        seen.add(owner.key)
        yield owner.key
        owner = getattr(workloads.get(owner.key), "owner", None)


def new_pod(workload: Object, namespace: str) -> Json:
    """Return the pod that a workload would create.

    Raises:
        BadObject: its template cannot be read.
    """
    metadata, spec = object_at(workload, "metadata", ""), object_at(workload, "spec", "")
    job = object_at(object_at(spec, "jobTemplate", "spec"), "spec", "spec.jobTemplate")
    template = object_at(job or spec, "template", "spec")
    name = text_at(metadata, "name", "metadata")
    owner = {
        "apiVersion": workload.get("apiVersion"),
        "kind": workload.get("kind"),
        "name": name,
        "uid": str(metadata.get("uid") or name),
        "controller": True,
    }
    written = object_at(template, "metadata", "spec.template")
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "namespace": namespace,
            "name": f"{name}-new",
            "labels": written.get("labels") or {},
            "annotations": written.get("annotations") or {},
            "ownerReferences": [owner],
        },
        "spec": object_at(template, "spec", "spec.template"),
    }


def _has_metadata(item: Object) -> bool:
    return isinstance(item.get("metadata"), dict)


def _place(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace") or "default", str(metadata.get("name"))


def _key(item: Object) -> ObjectKey:
    return owner_key(str(item.get("apiVersion")), str(item.get("kind")), _place(item)[1])
