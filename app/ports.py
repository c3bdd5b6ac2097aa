"""Every door to the outside, on one page.

Strategy: one colour. All ports are synchronous; what must run side by side runs in threads.
Objects cross as plain JSON values; `app.model` reads what it needs from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from app.model.vpa import Vpa
from app.model.workloads import Lookup, LookupResult

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection of the API, as its URL names it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` that objects of this resource carry."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, one object, or its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
SECRETS = Resource("", "v1", "secrets", "Secret")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
SCALED_OBJECTS = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
VPAS = Resource("autoscaling.k8s.io", "v1", "verticalpodautoscalers", "VerticalPodAutoscaler")
CHECKPOINTS = Resource(
    "autoscaling.k8s.io",
    "v1",
    "verticalpodautoscalercheckpoints",
    "VerticalPodAutoscalerCheckpoint",
)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")

WORKLOADS = (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    REPLICATION_CONTROLLERS,
    JOBS,
    CRON_JOBS,
)


SCALERS = (HPAS, SCALED_OBJECTS)


class Ref(NamedTuple):
    """One object, or its subresource; a collection, if it has no name."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class PatchKind(StrEnum):
    """The content types that a PATCH may carry."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class EventType(StrEnum):
    """What a watch event tells."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch; a bookmark carries nothing but a newer version."""

    change: EventType
    object: Json


class Delta(NamedTuple):
    """An object that came or changed, or that went (None); it is shared, and not to be changed."""

    namespace: str
    name: str
    object: Json | None


# Takes in changes; what it was told since a list began counts once the second argument is true.
Sink = Callable[[Sequence[Delta], bool], None]


class Following(Protocol):
    """Something that tells a sink of objects until it is stopped."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End."""
        ...

    def refused_seconds(self, now: datetime, /) -> float:
        """For how long every answer was that we have no right, zero if the last one was not."""
        ...


@dataclass(frozen=True, slots=True)
class ListPage:
    """One answer to a list; `continue_token` is empty on the last page."""

    items: Sequence[Json]
    resource_version: str
    continue_token: str = ""


class Cluster(Protocol):
    """A Kubernetes API; every call raises `app.model.errors.ClusterError` and nothing else."""

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ListPage:
        """Return one page of the newest state."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> Iterator[WatchEvent]:
        """Ask at once; then yield changes after a version, with bookmarks, until time is over."""
        ...

    def get(self, ref: Ref) -> Json:
        """Return one object as it is now."""
        ...

    def create(self, ref: Ref, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object, or post to the subresource of one."""
        ...

    def replace(self, ref: Ref, body: Json) -> Json:
        """Put a whole object; its resourceVersion must be current when given."""
        ...

    def patch(
        self, ref: Ref, body: object, *, kind: PatchKind = PatchKind.JSON, dry_run: bool = False
    ) -> Json:
        """Change an object; returns it as changed."""
        ...

    def delete(self, ref: Ref, *, uid: str = "") -> None:
        """Delete an object, only if it still has this uid when one is given."""
        ...

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Ask for a pod's eviction; `TooMany` when a disruption budget holds."""
        ...

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Send a plain request, for paths that are no resource (discovery, version)."""
        ...


class Prometheus(Protocol):
    """A Prometheus; every call raises `app.model.errors.ClusterError` and nothing else."""

    def query(self, query: str, at: datetime) -> Json:
        """Return the answer to a query at a time."""
        ...

    def query_range(self, query: str, start: datetime, end: datetime, step: timedelta) -> Json:
        """Return the answer to a query over a time, both ends included."""
        ...


class Clock(Protocol):
    """The time, real or stepped."""

    def now(self) -> datetime:
        """Return the time of day, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        ...

    def wait(self, seconds: float) -> None:
        """Return after so many seconds of this clock."""
        ...


class Owners(Protocol):
    """Controllers that no snapshot holds: custom kinds, and built-in ones not seen yet."""

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return what is known or can be found before the deadline; never raises."""
        ...


class Siblings(Protocol):
    """VPAs as the API server has them now, for checks that a cache could get wrong."""

    def of(self, namespace: str) -> tuple[Vpa, ...] | None:
        """Return the VPAs of a namespace; None if they cannot be read."""
        ...

    def named(self, namespace: str, name: str) -> Vpa | None:
        """Return one VPA, None if there is none; raises ClusterError if that is not known."""
        ...


class LookupLimit(StrEnum):
    """A limit of what is looked up because objects or callers name it, as metrics name it."""

    OWNER_LOOKUPS = "owner_lookups"  # waiting or under way
    OWNERS_KEPT = "owners_kept"
    API_GROUPS = "api_groups"
    ACCESS_ANSWERS = "access_answers"


class LimitReached(Protocol):
    """Told whenever a limit is reached; from any thread."""

    def __call__(self, limit: StrEnum, times: int = 1, /, **about: object) -> None:
        """Count it; `about` says in the log what it was about."""
        ...
