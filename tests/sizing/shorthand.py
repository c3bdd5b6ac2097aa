"""Short words for tables: `100m/100Mi` is cpu and memory, one side may be missing.

Strategy: what goes in and what comes out is written the same way, so that a case reads as one
line. Whatever is admitted here is admitted as in a cluster: a review in, its patch applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.admission.core.mutate import PodAdmission, PodRules, PodVerdict
from app.model.fields import Json
from app.model.patches import apply
from app.model.quantity import Quantity
from app.model.review import read_review
from app.model.workloads import NOTHING_LOOKED_UP
from tests import make
from tests.make import ALL_GATES, NO_GATES

UPDATED = "Pod resources updated by v: "


def two(text: str) -> dict[str, str]:
    """Return a map of resources from `cpu/memory`; an empty side is left out, `-` is nothing."""
    cpu, _, memory = text.strip("-").partition("/")
    return make.amounts(cpu or None, memory or None)


def box(name: str, requests: str = "", limits: str = "") -> Json:
    """Return a container."""
    return make.container_json(name, resources={"requests": two(requests), "limits": two(limits)})


def sidecar(name: str, requests: str = "", limits: str = "") -> Json:
    """Return a native sidecar."""
    return box(name, requests, limits) | {"restartPolicy": "Always"}


def advice(name: str, target: str) -> Json:
    """Return a recommendation for a container."""
    return {"containerName": name, "target": two(target)}


def vpa_json(
    *recommendations: Json,
    mode: str | None = None,
    policies: Sequence[Json] | None = None,
    boost: Json | None = None,
) -> Json:
    """Return the VPA `v`; without any recommendation its status has none."""
    return make.vpa_json(
        "v", recommendations=recommendations or None, mode=mode, policies=policies, boost=boost
    )


def shown(container: Json) -> str:
    """Return requests and limits of a container, `-` for none at all."""
    resources = container.get("resources") or {}
    return " ".join(_pair(resources.get(word) or {}) for word in ("requests", "limits"))


def _pair(found: dict[str, str]) -> str:
    cpu, memory = found.get("cpu", ""), found.get("memory", "")
    return f"{cpu}/{memory}" if memory else cpu or "-"


@dataclass(frozen=True)
class Admitted:
    """What became of a pod."""

    verdict: PodVerdict
    pod: Json

    @staticmethod
    def of(pod: Json, verdict: PodVerdict) -> Admitted:
        """Return the pod after its patch."""
        return Admitted(verdict, apply(pod, verdict.patch))

    @property
    def patch(self) -> list[Json]:
        """The operations."""
        return [dict(operation) for operation in self.verdict.patch]

    @property
    def changes(self) -> list[str]:
        """Path and value of each operation, shortly."""
        return [f"{change['path']} {change['value']}" for change in self.patch]

    @property
    def containers(self) -> list[str]:
        """Requests and limits of all containers."""
        return [shown(container) for container in self.pod["spec"]["containers"]]

    @property
    def sidecars(self) -> list[str]:
        """Requests and limits of all init containers."""
        return [shown(container) for container in self.pod["spec"]["initContainers"]]

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the pod."""
        found: dict[str, str] = self.pod["metadata"].get("annotations") or {}
        return found

    @property
    def told(self) -> str:
        """What the annotation tells of the changes; empty without one."""
        return self.annotations.get("vpaUpdates", "").removeprefix(UPDATED)

    @property
    def boosts(self) -> dict[str, str]:
        """The boost marks by container."""
        prefix = "vpaCpuStartupBoost/"
        return {
            key.removeprefix(prefix): value
            for key, value in self.annotations.items()
            if key.startswith(prefix)
        }


def admit(
    pod: Json,
    vpa: Json,
    *objects: Json,
    gate: bool = True,
    most: str | None = None,
    owners: Sequence[Json] = (),
    native_sidecars: bool = True,
) -> Admitted:
    """Admit a pod of `StatefulSet/web`, with all gates on unless said."""
    view = make.snapshot(vpa, *(owners or [make.workload_json()]), *objects).of("default")
    flag = Quantity.parse(most) if most is not None else None
    rules = PodRules(ALL_GATES if gate else NO_GATES, flag, native_sidecars)
    review = read_review(make.review_json(pod))
    verdict = PodAdmission(rules).admit(review, view, NOTHING_LOOKED_UP)
    assert isinstance(verdict, PodVerdict)
    return Admitted.of(pod, verdict)
