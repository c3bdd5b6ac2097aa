"""A namespace of a test, and short words for what is put into it.

Strategy: sizes are written `cpu/memory`, as in `100m/200Mi`; a side may be empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.model.fields import Json
from app.model.quantity import Quantity
from app.ports import LIMIT_RANGES, PODS, VPAS, Resource
from tests.cluster.api import SERVICE_ACCOUNTS, Api
from tests.cluster.programs import eventually

APP: Final = "hamster"
IMAGE: Final = "registry.k8s.io/pause:3.10"
_NAMES: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Box:
    """A container and its sizes."""

    name: str = APP
    requests: str = ""
    limits: str = ""

    def manifest(self) -> Json:
        """Return it as it stands in a pod."""
        resources = {
            word: amounts(text)
            for word, text in (("requests", self.requests), ("limits", self.limits))
            if text
        }
        return {"name": self.name, "image": IMAGE, "resources": resources}


SMALL: Final = Box(requests="100m/100Mi")


def amounts(text: str) -> dict[str, str]:
    """Return the resources that a text names."""
    return {name: part for name, part in zip(_NAMES, text.split("/"), strict=False) if part}


def box_of(container: Json) -> Box:
    """Return a container of a pod with its sizes in canonical form."""
    resources = container.get("resources") or {}
    return Box(container["name"], _text(resources.get("requests")), _text(resources.get("limits")))


def canonical(box: Box) -> Box:
    """Return a box with its sizes in canonical form."""
    return Box(box.name, _text(amounts(box.requests)), _text(amounts(box.limits)))


def boxes_of(pod: Json) -> tuple[Box, ...]:
    """Return the containers of a pod."""
    return tuple(map(box_of, pod["spec"]["containers"]))


def annotation(pod: Json, name: str) -> str:
    """Return an annotation of a pod, empty if it has none of this name."""
    text: str = (pod["metadata"].get("annotations") or {}).get(name, "")
    return text


def _text(found: Mapping[str, Any] | None) -> str:
    """Return amounts as `millicores m/bytes`."""
    if not found:
        return ""
    cpu, memory = (found.get(name) for name in _NAMES)
    left = f"{Quantity.read(cpu).milli}m" if cpu is not None else ""
    right = str(Quantity.read(memory).units) if memory is not None else ""
    return f"{left}/{right}"


def item_of(resource: Resource, name: str, namespace: str = "", **fields: object) -> Json:
    """Return an object of a resource; `fields` is all but what it is and its name."""
    place = {"namespace": namespace} if namespace else {}
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "metadata": {"name": name, **place}, **fields}


def template(boxes: Sequence[Box], labels: Mapping[str, str] | None = None) -> Json:
    """Return a pod's metadata and spec."""
    return {
        "metadata": {"labels": {"app": APP, **(labels or {})}},
        "spec": {
            "containers": [box.manifest() for box in boxes],
            "terminationGracePeriodSeconds": 0,
        },
    }


def bare_pod(box: Box, labels: Mapping[str, str] | None = None, **metadata: object) -> Json:
    """Return a pod that no controller makes."""
    found = template((box,), labels)
    found["metadata"] |= metadata
    return {"apiVersion": "v1", "kind": "Pod", **found}


class Space:
    """A namespace."""

    def __init__(self, admin: Api, name: str) -> None:
        self.admin = admin
        self.name = name

    def create(self, item: Json, *, dry_run: bool = False) -> Json:
        """Create an object here."""
        metadata = {**item.get("metadata", {}), "namespace": self.name}
        return self.admin.create({**item, "metadata": metadata}, dry_run=dry_run)

    def vpa(
        self, name: str = "vpa", *, kind: str = "Deployment", target: str = APP, **spec: object
    ) -> Json:
        """Create a VPA; `spec` is all but the target."""
        return self.create(vpa(name, kind=kind, target=target, **spec))

    def recommend(self, boxes: Mapping[str, str], name: str = "vpa") -> None:
        """Write a recommendation as a recommender would.

        A text is `target lower upper`, or one word for all three.
        """
        found = [{"containerName": box, **bounds(text)} for box, text in boxes.items()]
        status = {"recommendation": {"containerRecommendations": found}}
        self.admin.merge(VPAS, self.name, name, {"status": status}, "status")

    def recommended(self, name: str = "vpa") -> dict[str, Json]:
        """Return what a VPA recommends for each container; nothing before it does."""
        status = self.admin.get(VPAS, self.name, name).get("status") or {}
        found = (status.get("recommendation") or {}).get("containerRecommendations") or ()
        return {each["containerName"]: each for each in found}

    def limit_range(self, **limits: object) -> None:
        """Create a LimitRange of one item."""
        self.create(item_of(LIMIT_RANGES, "limits", spec={"limits": [limits]}))

    def deployment(self, *boxes: Box, replicas: int = 3, name: str = APP) -> Json:
        """Create a Deployment."""
        return self.create(workload("Deployment", boxes, replicas=replicas, name=name))

    def sized_owner(self, sizes: str = "250m/200Mi") -> Json:
        """Return a StatefulSet without pods, whose VPA has a recommendation."""
        self.vpa(kind="StatefulSet")
        self.recommend({APP: sizes})
        return self.create(workload("StatefulSet", [SMALL], replicas=0))

    def pods(self, count: int = 0, labels: str = f"app={APP}") -> Sequence[Json]:
        """Return the pods, of which so many must be there."""
        count = max(count, 1)

        def look() -> Sequence[Json]:
            found = self.admin.list(PODS, self.name, labels)
            return found if len(found) >= count else ()

        return eventually(look, f"{count} pods of {labels} are there")

    def replaced_pods(self, count: int, labels: str = f"app={APP}") -> Sequence[Json]:
        """Delete the pods; return as many new ones as were wanted."""
        old = {pod["metadata"]["uid"] for pod in self.admin.list(PODS, self.name, labels)}
        self.admin.delete_all(PODS, self.name, labels)

        def look() -> Sequence[Json]:
            found = self.admin.list(PODS, self.name, labels)
            fresh = [pod for pod in found if pod["metadata"]["uid"] not in old]
            return fresh if len(fresh) == len(found) >= count else ()

        return eventually(look, f"{count} new pods of {labels} are there")


def new_space(admin: Api, name: str = "") -> Space:
    """Create a namespace, named so or by the API server; return it when pods can be created."""
    metadata = {"name": name} if name else {"generateName": "test-"}
    made = admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    found = Space(admin, made["metadata"]["name"])
    eventually(
        lambda: admin.find(SERVICE_ACCOUNTS, found.name, "default"),
        f"{found.name} has a service account",
    )
    return found


def bounds(text: str) -> Mapping[str, Mapping[str, str]]:
    """Return target, lower and upper bound; one word stands for all three, `-` for none."""
    words = text.split()
    names = ("target", "lowerBound", "upperBound")
    both = zip(names, words * 3 if len(words) == 1 else words, strict=True)
    return {name: amounts(word) for name, word in both if word != "-"}


def vpa(name: str = "vpa", *, kind: str = "Deployment", target: str = APP, **spec: object) -> Json:
    """Return a VPA; `spec` is all but the target."""
    reference = {"apiVersion": _API_VERSIONS[kind], "kind": kind, "name": target}
    return item_of(VPAS, name, spec={"targetRef": reference, **spec})


def workload(
    kind: str, boxes: Sequence[Box], *, replicas: int = 1, name: str = APP, app: str = APP
) -> Json:
    """Return a controller of pods."""
    pod = template(boxes, {"app": app})
    spec: Json = {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": pod}
    match kind:
        case "DaemonSet":
            del spec["replicas"]
        case "ReplicationController":
            spec["selector"] = {"app": app}
        case "StatefulSet":
            spec["serviceName"] = name
        case "Job" | "CronJob":
            pod["spec"]["restartPolicy"] = "Never"
            spec = {"parallelism": replicas, "completions": replicas, "template": pod}
            if kind == "CronJob":
                spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}
    return {
        "apiVersion": _API_VERSIONS[kind],
        "kind": kind,
        # A Deployment lets a ReplicaSet go that does not carry the labels it selects.
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": spec,
    }


_API_VERSIONS = {
    "ReplicationController": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Gadget": "tests.plumbline.dev/v1",
}


# --- parts of a VPA's spec, and a LimitRange


def mode(word: str) -> Json:
    """Return the spec of a VPA in a mode."""
    return {"updatePolicy": {"updateMode": word}}


def policy(**fields: object) -> Json:
    """Return the spec of a VPA with a policy for all containers."""
    return {"resourcePolicy": {"containerPolicies": [{"containerName": "*", **fields}]}}


def boost(**cpu: object) -> Json:
    """Return the spec of a VPA with a startup boost."""
    return {"startupBoost": {"cpu": cpu}}


def selecting(**labels: str) -> Json:
    """Return the spec of a VPA for pods with some labels."""
    return {"selector": {"matchLabels": labels}}


def extremes(kind: str, **bounds: str) -> Json:
    """Return a LimitRange item, its bounds written `cpu/memory`."""
    split = {word: text.partition("/") for word, text in bounds.items()}
    return {
        "type": kind,
        **{
            word: {name: part for name, part in (("cpu", cpu), ("memory", memory)) if part}
            for word, (cpu, _, memory) in split.items()
        },
    }
