"""The three processes, ours and upstream's, by their Deployments, and commands that mend them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.diagnosis.core.facts import Facts, Unasked
from app.model.fields import Json

ADMISSION: Final = "admission-controller"
COMPONENTS: Final = (ADMISSION, "recommender", "updater")
_UPSTREAM: Final = re.compile(rf"(?:^|/)vpa-({'|'.join(COMPONENTS)})(?:[:@-]|$)")
_OURS: Final = "plumbline"
_HOME: Final = "kube-system"  # that the documents name
_CHART: Final = "deploy/chart"
_ARGUMENTS: Final = "/spec/template/spec/containers/0/args/-"


@dataclass(frozen=True, slots=True, eq=False)
class Deployment:
    """A Deployment that runs one of the three processes."""

    item: Json
    component: str
    is_ours: bool  # not upstream's

    @property
    def namespace(self) -> str:
        """Where it is."""
        return str(self.item["metadata"].get("namespace"))

    @property
    def about(self) -> str:
        """What kubectl calls it."""
        return f"deployment/{self.item['metadata'].get('name')}"

    @property
    def process(self) -> str:
        """What people call the process."""
        return self.component.replace("-", " ")

    @property
    def replicas(self) -> int:
        """How many pods are wanted."""
        found: int = self.item["spec"].get("replicas", 1)
        return found

    @property
    def command_line(self) -> Sequence[str]:
        """The command lines of its containers."""
        return [
            str(word)
            for one in _containers(self.item)
            for key in ("command", "args")
            for word in one.get(key) or ()
        ]

    @property
    def ignores_scalers(self) -> bool:
        """Whether it holds nothing by which workloads are scaled horizontally."""
        return self.flag("horizontal") == "ignore"

    def flag(self, name: str) -> str:
        """Return the value of a flag on its command line, empty if it is not there."""
        return next(self.values(name), "")

    def values(self, name: str) -> Iterator[str]:
        """Yield all values of a flag on its command line."""
        words = self.command_line
        for index, word in enumerate(words):
            flag, equals, value = word.lstrip("-").partition("=")
            if flag.replace("_", "-") == name:
                following = words[index + 1 : index + 2]
                yield value if equals else "".join(following) or "true"

    @property
    def release(self) -> str:
        """The release of the chart that it belongs to, empty without one."""
        labels = self.item["metadata"].get("labels") or {}
        is_charted = labels.get("app.kubernetes.io/managed-by") == "Helm"
        return str(labels.get("app.kubernetes.io/instance")) if is_charted else ""

    @property
    def helm_upgrade(self) -> str:
        """The command that changes the release it belongs to, empty without one."""
        if not self.release:
            return ""
        return f"helm upgrade {self.release} {_CHART} -n {self.namespace} --reset-then-reuse-values"

    def with_argument(self, flag: str) -> str:
        """Return the command that adds a flag, or that shows the release's values to add it to."""
        if self.release:
            return f"helm get values {self.release} -n {self.namespace}"
        patch = json.dumps([{"op": "add", "path": _ARGUMENTS, "value": flag}])
        return f"kubectl -n {self.namespace} patch {self.about} --type=json -p '{patch}'"


def deployments(facts: Facts) -> Sequence[Deployment]:
    """Return the Deployments of all processes, as far as they are known."""
    known = () if isinstance(facts.deployments, Unasked) else facts.deployments
    return [one for item in known for one in _read(item)]


def _read(item: Json) -> Iterator[Deployment]:
    labels = item.get("metadata", {}).get("labels") or {}
    component = labels.get("app.kubernetes.io/component")
    if labels.get("app.kubernetes.io/name") == _OURS and component in COMPONENTS:
        yield Deployment(item, component, is_ours=True)
        return
    for container in _containers(item):
        if found := _UPSTREAM.search(str(container.get("image"))):
            yield Deployment(item, found[1], is_ours=False)


def _containers(item: Json) -> Sequence[Json]:
    spec = item.get("spec", {}).get("template", {}).get("spec", {})
    found: Sequence[Json] = spec.get("containers") or ()
    return found


def running(component: str, facts: Facts) -> Sequence[Deployment]:
    """Return the Deployments of a process: ours first, those in the namespace looked at before."""
    found = [one for one in deployments(facts) if one.component == component]
    return sorted(
        found, key=lambda one: (not one.is_ours, one.is_ours and one.namespace != facts.namespace)
    )


def ours(component: str, facts: Facts) -> Sequence[Deployment]:
    """Return our Deployments of a process, those in the namespace looked at first."""
    return [one for one in running(component, facts) if one.is_ours]


def only_recommends(facts: Facts) -> bool:
    """Say whether recommendations are all that is wanted: nothing is installed that would act."""
    found = deployments(facts)
    return {one.component for one in found} == {"recommender"} and any(one.is_ours for one in found)


# --- commands


def place_of(component: str, facts: Facts) -> tuple[str, str]:
    """Return the namespace of a process, and what kubectl calls it; ours goes before upstream's."""
    for one in running(component, facts):
        return one.namespace, one.about
    return facts.namespace, f"deployment/vpa-{component}"


def logs_of(component: str, facts: Facts) -> str:
    """Return the command that shows what a process says, or that installs one if there is none."""
    if running(component, facts) or isinstance(facts.deployments, Unasked):
        namespace, about = place_of(component, facts)
        return f"kubectl -n {namespace} logs {about} --tail=50"
    verb = component.partition("-")[0]
    return f"plumbline manifests {verb} | kubectl apply --server-side --force-conflicts -f -"


def with_rights(component: str, namespace: str, documents: Iterable[str], facts: Facts) -> str:
    """Return what grants a process the rights of some documents, and leaves the rest alone."""
    for one in ours(component, facts):
        if one.namespace == namespace and (upgrade := one.helm_upgrade):
            return upgrade
    elsewhere = f" | sed 's/namespace: {_HOME}/namespace: {namespace}/'"
    moved = "" if namespace == _HOME else elsewhere
    printed = "; ".join(f"plumbline manifests {name}" for name in documents)
    printed = f"({printed})" if ";" in printed else printed
    return f"{printed}{moved} | kubectl auth reconcile -f -"


def with_flag(flag: str, value: str, facts: Facts) -> str:
    """Return what tells the webhook a flag, which in the chart is a value."""
    for one in ours(ADMISSION, facts):
        if upgrade := one.helm_upgrade:
            return f"{upgrade} --set admissionController.{value}"
        return one.with_argument(flag)
    return f"plumbline admission {flag}"  # started by hand, wherever it is
