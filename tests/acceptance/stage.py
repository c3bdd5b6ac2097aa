"""Where a row is played: a namespace with a workload, its VPA, and the processes at work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pytest

from app.model.fields import Json
from app.ports import (
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    VPAS,
)
from tests.acceptance.cluster import Cluster
from tests.acceptance.load import owned_pod
from tests.acceptance.refusing import refusing
from tests.acceptance.space import (
    APP,
    SMALL,
    Box,
    Space,
    annotation,
    box_of,
    boxes_of,
    canonical,
    item_of,
    new_space,
    workload,
)
from tests.acceptance.webhook import Webhook
from tests.acceptance.worker import QUIET_ROUNDS, Start, Worker
from tests.cluster.api import NOT_FOUND, Refusal
from tests.cluster.nodes import placed
from tests.cluster.programs import eventually

EVICTED: Final = "EvictedByVPA"
LOAD: Final = "sandbox.plumbline/load"
RESIZING: Final = "sandbox.plumbline/resize"
LARGE: Final = Box(requests="500m/500Mi")
_LONG_SECONDS: Final = 180.0  # for what needs some rounds of a busy machine
_LOOK_SECONDS: Final = 1.0
_DONE: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Team:
    """The processes that rows share, and how to start more."""

    cluster: Cluster
    start: Start
    webhook: Webhook | None = None
    updater: Worker | None = None
    recommender: Worker | None = None
    has_our_nodes: bool = True  # with their names and sizes, and what annotations mean to them


class Stage:
    """A row's own namespace."""

    def __init__(self, team: Team, name: str, namespace: str) -> None:
        self.name = name
        self.cluster = team.cluster
        self.admin = team.cluster.admin
        self.space = Space(self.admin, namespace)
        self._team = team
        self._updater = team.updater
        self._ending = ExitStack()
        self._refusing = ExitStack()

    def __enter__(self) -> Stage:
        self._ending.callback(self.admin.delete, NAMESPACES, "", self.space.name)
        new_space(self.admin, self.space.name)
        return self

    def __exit__(self, *_error: object) -> None:
        self._refusing.close()
        self._ending.close()

    # --- what is put on it

    def worker(self, verb: str, *flags: str, everywhere: bool = False) -> Worker:
        """Start a process for this row alone."""
        scope = () if everywhere else (f"--vpa-object-namespace={self.space.name}",)
        found = self._team.start(verb, *scope, *flags, name=f"{verb}-{self.name.lower()}")
        self._ending.callback(found.program.kill)
        if verb == "updater":
            self._updater = found
        return found

    @property
    def recommender(self) -> Worker:
        """The recommender that works here."""
        assert self._team.recommender is not None
        return self._team.recommender

    @property
    def updater(self) -> Worker:
        """The updater that works here."""
        assert self._updater is not None
        return self._updater

    def start(
        self,
        *boxes: Box,
        kind: str = "Deployment",
        replicas: int = 3,
        annotations: Mapping[str, str] | None = None,
        on: str = "",
        change: Callable[[Json], object] = lambda _template: None,
        ready: bool = True,
        name: str = APP,
    ) -> None:
        """Create a workload, and wait until its pods are ready."""
        if on or {LOAD, RESIZING} & (annotations or {}).keys():
            self._needs_our_nodes()
        made = workload(kind, boxes or (SMALL,), replicas=replicas, name=name, app=name)
        spec = made["spec"]
        template = (spec["jobTemplate"]["spec"] if kind == "CronJob" else spec)["template"]
        template["metadata"]["annotations"] = dict(annotations or {})
        if kind == "CronJob":
            spec |= {"schedule": "* * * * *", "concurrencyPolicy": "Forbid"}
        if on:
            placed(template, on)
        change(template)
        self.space.create(made)
        if ready:
            self.wait_ready(replicas, name)
        else:
            self.eventually(lambda: len(self.pods()) == replicas, f"{replicas} pods are there")

    def wait_ready(self, count: int, app: str = APP) -> None:
        """Return when so many pods are ready."""

        def look() -> bool:
            found = list(map(is_ready, self.pods(app)))
            return all(found) and len(found) == count

        self.eventually(look, f"{count} pods are ready")

    def vpa(
        self,
        mode: str = "",
        *,
        name: str = "vpa",
        kind: str = "Deployment",
        target: str = APP,
        policy: Json | None = None,
        recommended: str = "",
        **spec: object,
    ) -> None:
        """Create a VPA; the policy is what is said of updates beside their mode."""
        if mode or policy:
            spec["updatePolicy"] = {"updateMode": mode or "Recreate", **(policy or {})}
        self.space.vpa(name, kind=kind, target=target, **spec)
        if recommended:
            self.recommend(recommended, name=name)

    def recommend(
        self, text: str, box: str = APP, more: Mapping[str, str] | None = None, name: str = "vpa"
    ) -> None:
        """Write a recommendation: a target, or target, lower and upper bound."""
        self.space.recommend({box: text, **(more or {})}, name)

    def change_vpa(self, spec: Json, name: str = "vpa") -> None:
        """Change a VPA that lives."""
        self.admin.merge(VPAS, self.space.name, name, {"spec": spec})

    def relabel(self, pod: str, role: str) -> None:
        """Give a pod another role."""
        self.admin.merge(PODS, self.space.name, pod, {"metadata": {"labels": {"role": role}}})

    def burden(self, load: str, app: str = APP) -> None:
        """Let all pods have a load, but for those that go meanwhile."""
        self._needs_our_nodes()
        change = {"metadata": {"annotations": {LOAD: load}}}
        for pod in self.pods(app):
            try:
                if annotation(pod, LOAD) != load:
                    self.admin.merge(PODS, self.space.name, pod["metadata"]["name"], change)
            except Refusal as refusal:
                if refusal.status != NOT_FOUND:
                    raise

    def _needs_our_nodes(self) -> None:
        if not self._team.has_our_nodes:
            pytest.skip("the nodes of this cluster are not ours, so usage cannot be arranged")

    def other(self) -> Stage:
        """Return another namespace for the same row."""
        found = Stage(self._team, self.name, f"{self.space.name}-b")
        return self._ending.enter_context(found)

    def scale(self, replicas: int) -> None:
        """Want so many pods of the Deployment, once the webhook does something about them."""
        self.sizes("")
        self.admin.merge(DEPLOYMENTS, self.space.name, APP, {"spec": {"replicas": replicas}})
        self.eventually(lambda: len(self.pods()) == replicas, f"{replicas} pods are there")

    def sizes(self, told: str) -> None:
        """Return when the webhook says of a pod that it sizes it, in these words among others."""
        (owner,) = eventually(
            lambda: self.admin.list(REPLICA_SETS, self.space.name), "a ReplicaSet is there"
        )
        pod = {**owned_pod(owner), **owner["spec"]["template"]}
        pod["metadata"] = {**owned_pod(owner)["metadata"], **pod["metadata"]}

        def is_sized() -> bool:
            found = annotation(self.space.create(pod, dry_run=True), "vpaUpdates")
            return bool(found) and told in found

        self.eventually(is_sized, f"the webhook knows what is recommended: {told}")

    def while_unregistered(self, work: Callable[[], object]) -> None:
        """Do something at a moment at which the API server does not ask the webhook."""
        assert self._team.webhook is not None
        self._team.webhook.while_unregistered(work)

    def budget(self, unavailable: int) -> None:
        """Let so many pods be unavailable at a time, from now on."""
        spec = {"maxUnavailable": unavailable, "selector": {"matchLabels": {"app": APP}}}
        self.admin.apply(item_of(POD_DISRUPTION_BUDGETS, APP, self.space.name, spec=spec))

    def refuse(self, subresource: str) -> None:
        """Let the API server refuse every resize, or every eviction, of a pod here."""
        pod = self.pods()[0]["metadata"]["name"]
        self._refusing.enter_context(refusing(self.admin, self.space.name, pod, subresource))

    def refuse_nothing(self) -> None:
        """Let everything be done again."""
        self._refusing.close()

    def settle(self) -> None:
        """Return when what was evicted is replaced, and ready."""
        self.eventually(lambda: all(map(is_ready, self.pods())), "all pods are ready")

    # --- what is seen

    def pods(self, app: str = APP) -> Sequence[Json]:
        """Return the pods that are there to stay."""
        found = self.admin.list(PODS, self.space.name, f"app={app}")
        return [
            pod
            for pod in found
            if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in _DONE
        ]

    def uids(self) -> set[str]:
        """Return who the pods are."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def requests(self, box: str = APP) -> list[str]:
        """Return the cpu that each pod's container asks for and has, in millicores."""
        return sorted(_cpu(pod, box) for pod in self.pods())

    def events(self, reason: str) -> Sequence[Json]:
        """Return the events with a reason."""
        query = {"fieldSelector": f"reason={reason}"}
        found = self.admin.call("GET", EVENTS.path(self.space.name), query=query).body["items"]
        return list(found)

    def reasons(self) -> set[str]:
        """Return why the updater does what it does about each pod."""
        return {each["reason"] for each in self.updater.decisions(self.space.name)}

    def was_killed(self) -> bool:
        """Say whether a container was killed for memory."""
        return any(
            state.get("terminated", {}).get("reason") == "OOMKilled"
            for pod in self.pods()
            for each in pod["status"].get("containerStatuses") or ()
            for state in (each["state"], each["lastState"])
        )

    def told(self, reason: str) -> Mapping[str, datetime]:
        """Return when events with a reason were told last, by the pod they are about."""
        return {
            event["involvedObject"]["uid"]: datetime.fromisoformat(event["lastTimestamp"])
            for event in self.events(reason)
        }

    def deferred(self) -> Mapping[str, datetime]:
        """Return since when pods wait for room on their node, by uid."""
        return {
            pod["metadata"]["uid"]: datetime.fromisoformat(each["lastTransitionTime"])
            for pod in self.pods()
            for each in pod["status"].get("conditions") or ()
            if each.get("reason") == "Deferred"
        }

    def is_resizing(self) -> bool:
        """Say whether a pod is in a resize that its node has begun."""
        return any("PodResizeInProgress" in conditions(pod) for pod in self.pods())

    def picture(self) -> str:
        """Return what there is, for whoever has to find out what went wrong."""
        lines = [f"--- {self.space.name}"]
        for pod in self.admin.list(PODS, self.space.name):
            status = pod["status"]
            resizes = [
                f"{name}:{each.get('reason', '')}"
                for name, each in conditions(pod).items()
                if name.startswith("PodResize")
            ]
            where = pod["spec"].get("nodeName", "nowhere")
            name = pod["metadata"]["name"]
            lines.append(f"{name} {status['phase']} on {where} {boxes_of(pod)} {resizes}")
        for found in self.admin.list(VPAS, self.space.name):
            lines += [f"{found['metadata']['name']} {found['spec']}", str(found.get("status"))]
        if self._updater is not None:
            lines += map(str, self._updater.decisions(self.space.name))
        return "\n".join(lines)

    # --- what is claimed

    def eventually(
        self, look: Callable[[], object], what: str, seconds: float = _LONG_SECONDS
    ) -> None:
        """Return as soon as a look gives something."""
        eventually(look, what, seconds=seconds, every=_LOOK_SECONDS)

    def evicts(self, count: int = 1) -> None:
        """So many pods of those that are there now are evicted, by us."""
        before = self.uids()
        self.eventually(lambda: len(before - self.uids()) >= count, f"{count} pods are evicted")
        self.eventually(lambda: self.events(EVICTED), "it is told")

    def evicts_only_if(self, is_expected: bool) -> None:
        """A pod is evicted, or none is."""
        if is_expected:
            self.evicts()
        else:
            self.quiet()

    def quiet(self, rounds: int = QUIET_ROUNDS) -> None:
        """No pod that is there now is evicted."""
        before = self.uids()
        self.updater.wait_rounds(rounds)
        assert before <= self.uids(), "a pod went"
        assert not self.events(EVICTED)

    def resizes(self, *expected: Box) -> None:
        """The pods that are there get sizes in place, and stay."""
        before, wanted = self.uids(), tuple(map(canonical, expected))

        def look() -> bool:
            found = self.pods()
            return bool(found) and all(boxes_of(pod) == wanted and is_resized(pod) for pod in found)

        self.eventually(look, f"all pods have {wanted}")
        assert self.uids() == before
        assert not self.events(EVICTED)

    def delete_one(self) -> None:
        """Let somebody else delete a pod; return when another is ready."""
        count, name = len(self.pods()), self.pods()[0]["metadata"]["name"]
        self.admin.delete(PODS, self.space.name, name)
        self.wait_ready(count)


def conditions(pod: Json) -> Mapping[str, Json]:
    """Return the conditions of a pod by type."""
    return {each["type"]: each for each in pod["status"].get("conditions") or ()}


def is_ready(pod: Json) -> bool:
    """Say whether a pod is ready."""
    return bool(conditions(pod).get("Ready", {}).get("status") == "True")


def ready_since(pod: Json) -> datetime:
    """Return since when a pod is ready."""
    return datetime.fromisoformat(conditions(pod)["Ready"]["lastTransitionTime"])


def is_resized(pod: Json) -> bool:
    """Say whether what a pod asks for is what its node has applied."""
    applied = {each["name"]: box_of(each) for each in pod["status"].get("containerStatuses") or ()}
    return all(applied.get(box.name) == box for box in boxes_of(pod))


def _cpu(pod: Json, box: str) -> str:
    for each in pod["spec"]["containers"]:
        if each["name"] == box:
            return str((each.get("resources") or {}).get("requests", {}).get("cpu", ""))
    return ""
