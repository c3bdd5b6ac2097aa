"""Every right is needed, and no other: by what the API server notes that our accounts asked for.

Strategy: the chart is installed on a cluster of its own, and the processes run in their pods'
place. A story then gives them something to do of every sort; the audit log tells what they asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import yaml
from httpx import HTTPStatusError

from app.kube.manifests.documents import CONFIGURATION_NAME
from app.kube.manifests.rights import OPTIONS, RIGHTS
from app.model.fields import Json
from app.model.pods import BOOST_KEY_PREFIX
from app.ports import (
    CRON_JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    PODS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    VPAS,
    WORKLOADS,
)
from tests import make
from tests.acceptance import definitions
from tests.acceptance.asked import Question, asked, forbidden, unused
from tests.acceptance.electing import cpu_of, vpa_of
from tests.acceptance.gadgets import gadget, install
from tests.acceptance.installed import Installed, account, installed_from, notes
from tests.acceptance.load import owned_pod, reference
from tests.acceptance.logs import Logs
from tests.acceptance.process import halted
from tests.acceptance.refusing import refusing
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.space import SMALL, boost, item_of, mode, new_space, workload
from tests.acceptance.templates import AS_THE_BASE, charted
from tests.acceptance.test_doctor import expired
from tests.acceptance.webhook import SECRET
from tests.cluster.programs import eventually

GATES: Final = "--feature-gates=InPlace=true,CPUStartupBoost=true"
VALUES: Final = {
    "roleLeases": True,
    "admissionController": {"extraArgs": [GATES]},
    "recommender": {
        "extraArgs": ["--recommender-interval=1s", "--checkpoints-gc-interval=5s", GATES]
    },
    "updater": {
        "extraArgs": ["--updater-interval=1s", "--former-leader-shrinks-after=1s", GATES],
        "proveByTrial": True,
        "vpaSummaries": True,
    },
    "page": {"enabled": True, "extraArgs": ["--refresh=1s", GATES]},
}
ELSEWHERE: Final[Json] = {"recommenders": [{"name": "nobody"}]}  # what is recommended, a test says
TRIPLED: Final = boost(type="Factor", factor=3, durationSeconds=10)
EXTERNAL: Final = ("enabled=true", "cpuMetric=cpu", "memoryMetric=memory")
# What the page tries and does without: how long the certificate lives is told to those who may
# read the Secret.
DONE_WITHOUT: Final = ("vpa-page: get secrets",)
# What it asks for only where Leases may not be listed, which these values allow.
BY_NAME: Final = ("get leases vpa-recommender", "get leases vpa-updater")
ON: Final = ("trials", "summaries", "role-leases", "role-usage")  # by these values
_LONG_SECONDS: Final = 240.0


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the chart is told: short pauses, and all that has a right of its own."""
    file = tmp_path_factory.mktemp("values") / "values.yaml"
    file.write_text(yaml.safe_dump(VALUES), "utf-8")
    return file


@pytest.fixture(scope="module")
def installed(
    values: Path, logs: Logs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """The chart."""
    documents = charted(*AS_THE_BASE, files=[values])
    with installed_from(documents, tmp_path_factory.mktemp("rights"), logs) as found:
        yield found


class Story:
    """Gives the processes something to do, and looks at what they asked for."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed
        self.admin = installed.admin

    def until(self, look: Callable[[], object], what: str) -> None:
        """Return as soon as a look gives something."""
        eventually(look, what, seconds=_LONG_SECONDS, every=0.5)

    def questions(self, component: str) -> list[Question]:
        """Return what a process asked for."""
        who = account(f"vpa-{component}")
        found = asked(self.installed.plane.audit_log)
        return [question for question in found if question.account == who]

    def until_asked(self, component: str, *words: str) -> None:
        """Return when a process has asked for something: a verb and a resource."""
        what = f"the {component} wants to {' '.join(words)}"
        self.until(lambda: self._has_asked(component, *words), what)

    def _has_asked(self, component: str, *words: str) -> bool:
        return words in {(each.verb, each.resource) for each in self.questions(component)}

    # --- what there is to do

    def scaled_objects(self) -> None:
        """Let there be what KEDA serves, which is watched as soon as it is served."""
        definitions.install(self.admin, [make.scaled_objects_definition_json()])

    def pods_with_wrong_sizes(self) -> None:
        """Let pods be evicted here, and resized there."""
        for word in ("Recreate", "InPlaceOrRecreate"):
            space = new_space(self.admin, f"mode-{word.lower()}")
            space.deployment(SMALL)
            space.vpa(**mode(word), **ELSEWHERE)
            space.recommend({"hamster": "300m/300Mi"})

    def boosted_pods(self) -> None:
        """Let pods ask for more while they start."""
        space = new_space(self.admin, "boosts")
        space.vpa(**mode("Recreate"), **TRIPLED, **ELSEWHERE)
        space.recommend({"hamster": "100m/100Mi"})
        space.deployment(SMALL)

        def are_boosted() -> bool:
            pods = space.replaced_pods(3)
            marks = [key for pod in pods for key in notes(pod)]
            return any(key.startswith(BOOST_KEY_PREFIX) for key in marks)

        self.until(are_boosted, "pods are boosted")

    def leaders_by_a_lease(self) -> None:
        """Let a Lease change hands, so that one pod grows and another one may shrink."""
        space = new_space(self.admin, "leases")
        for role, sizes in (("leader", "300m/300Mi"), ("follower", "200m/200Mi")):
            found = vpa_of("hamster", role, "InPlaceOrRecreate")
            space.create({**found, "spec": {**found["spec"], **ELSEWHERE}})
            space.recommend({"hamster": sizes}, found["metadata"]["name"])
        space.deployment(SMALL, replicas=2)
        for pod in space.pods(2):
            name = pod["metadata"]["name"]
            spec = {"holderIdentity": name, "leaseDurationSeconds": 3600}
            self.admin.apply(item_of(LEASES, "hamster", space.name, spec=spec))

            def leads(name: str = name) -> bool:
                return cpu_of(self.admin.get(PODS, space.name, name)) == 300

            self.until(leads, f"{name} has a leader's size")

    def usage(self) -> None:
        """Let usage be remembered, be asked for, and be forgotten."""
        space = new_space(self.admin, "usage")
        space.deployment(SMALL, replicas=1)
        space.vpa(**mode("Off"))
        self.until_asked("recommender", "patch", "verticalpodautoscalers/status")
        for verb in ("create", "patch"):
            self.until_asked("recommender", verb, "verticalpodautoscalercheckpoints")
        self.admin.delete(VPAS, space.name, "vpa")

    def people_who_ask(self) -> None:
        """Let somebody ask what pods would get, those of each kind of controller."""
        space = new_space(self.admin, "kinds")
        for kind in WORKLOADS:
            name = kind.plural
            owner = space.create(workload(kind.kind, [SMALL], name=name, app=name))
            space.vpa(name, kind=kind.kind, target=name, **mode("Off"))
            if kind == CRON_JOBS:
                job = workload("Job", [SMALL], name=f"{name}-1", app=name)
                job["metadata"]["ownerReferences"] = [reference(owner)]
                space.create(job)
        for kind in WORKLOADS:
            pod = space.pods(1, f"app={kind.plural}")[0]["metadata"]["name"]

            def is_answered(pod: str = pod) -> bool:
                path = f"/v1/namespaces/{space.name}/pods/{pod}"
                token = self.installed.plane.admin_token
                return '"vpa"' in self.installed.page("recommender", path, token)

            self.until(is_answered, f"{pod} is told of")
        token = self.installed.plane.admin_token
        assert "kinds" in self.installed.page("updater", "/v1/decisions", token)
        assert self.installed.explain(make.review_json(make.pod_json()), token) == 200

    def people_who_look(self) -> None:
        """Let somebody look at each page of the kinds, and at those of a pod and of the feed."""
        token = self.installed.plane.admin_token
        places = ["/", "/feed", "/installation", "/namespaces/boosts/vpas/vpa"]
        places += [f"/namespaces/kinds/vpas/{kind.plural}" for kind in WORKLOADS]
        pod = self.admin.list(PODS, "kinds")[0]["metadata"]["name"]
        places.append(f"/namespaces/kinds/pods/{pod}")
        for path in places:
            self.until(partial(self._is_shown, path, token), f"{path} is shown")

    def _is_shown(self, path: str, token: str) -> bool:
        try:
            return bool(self.installed.page("page", path, token))
        except HTTPStatusError:
            return False

    def custom_controllers(self) -> None:
        """Let pods belong to a kind that is not the cluster's own."""
        install(self.admin)
        space = new_space(self.admin, "gadgets")
        space.vpa(kind="Gadget", **ELSEWHERE)
        space.recommend({"hamster": "300m/300Mi"})
        space.create(owned_pod(space.create(gadget())))

    def unknown_controllers(self) -> None:
        """Let pods come whose controllers nobody was told of yet."""
        space = new_space(self.admin, "owners")
        pods: list[Json] = []
        for kind in WORKLOADS:
            name = f"late-{kind.plural}"
            space.vpa(name, kind=kind.kind, target=name, **ELSEWHERE)
            owner = {"apiVersion": kind.api_version, "kind": kind.kind}
            pods.append(owned_pod({**owner, "metadata": {"name": name, "uid": "0"}}))
        # Else pods of controllers that are not there would be deleted at once.
        with halted(self.installed.plane.controllers):
            for pod in pods:
                space.create(pod)

            def are_looked_for() -> bool:
                for pod in pods:  # as often as it takes until the webhook knows of the VPAs
                    space.create(pod, dry_run=True)
                return all(map(self._looks_for_all, ("admission-controller", "updater")))

            self.until(are_looked_for, "all look for each controller")

    def _looks_for_all(self, component: str) -> bool:
        wanted = {(kind.plural, f"late-{kind.plural}") for kind in WORKLOADS}
        return wanted <= {
            (each.resource, each.name) for each in self.questions(component) if each.verb == "get"
        }

    def refused_resizes(self) -> None:
        """Let resizes be refused, so that the updater looks why."""
        space = new_space(self.admin, "refused")
        space.deployment(SMALL)
        pod = space.pods(3)[0]["metadata"]["name"]
        with refusing(self.admin, space.name, pod, "resize"):
            space.vpa(**mode("InPlace"), **ELSEWHERE)
            space.recommend({"hamster": "300m/300Mi"})
            self.until_asked("updater", "get", "pods")

    def trouble_with_registration(self) -> None:
        """Change the registration, take it away, and let the certificate be an old one."""

        def is_told() -> bool:
            hook = self.admin.get(MUTATING_WEBHOOKS, "", CONFIGURATION_NAME)
            if hook["webhooks"][0]["timeoutSeconds"] == 5:  # as it should be
                hook["webhooks"][0]["timeoutSeconds"] = 9
                self.admin.replace(hook)
            return self._has_asked("admission-controller", "create", "events")

        self.until(is_told, "a changed registration is told of")
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            self.admin.delete(resource, "", CONFIGURATION_NAME)
        self.admin.merge(SECRETS, NAMESPACE, SECRET, {"data": expired()})


@pytest.fixture(scope="module")
def story(installed: Installed) -> Story:
    """All that there is to do."""
    found = Story(installed)
    found.scaled_objects()
    found.pods_with_wrong_sizes()
    found.boosted_pods()
    found.leaders_by_a_lease()
    found.usage()
    found.people_who_ask()
    found.people_who_look()
    found.custom_controllers()
    found.refused_resizes()
    found.unknown_controllers()
    found.trouble_with_registration()
    return found


@pytest.mark.parametrize("component", RIGHTS)
def test_each_right_is_needed(story: Story, component: str) -> None:
    """Whatever a process may do it has wanted to do, by verb, resource and name."""
    asked_for = (OPTIONS[name] for name in ON)
    more = [option.right for option in asked_for if component in option.components]
    rights = [*RIGHTS[component], *more]

    def look() -> bool:
        found = unused(rights, story.questions(component))
        left = [one for one in found if component != "page" or not one.startswith(BY_NAME)]
        assert not left, "\n".join(left)
        return True

    story.until(look, "every right has been used")


def test_external_metrics(story: Story, values: Path) -> None:
    """With usage from elsewhere the recommender asks for that, and may."""
    told = [f"recommender.externalMetrics.{word}" for word in EXTERNAL]
    story.installed.apply(charted(*AS_THE_BASE, *told, files=[values]))
    story.installed.start(more=1)  # the old recommender goes when the new one is ready
    story.installed.start()
    rights = [OPTIONS["external-metrics"].right]

    story.until(lambda: not [*unused(rights, story.questions("recommender"))], "it is asked for")


def test_nothing_is_forbidden(story: Story) -> None:
    """No process has wanted to do what it may not."""
    found = asked(story.installed.plane.audit_log)
    refused = [each for each in forbidden(found) if not any(one in each for one in DONE_WITHOUT)]

    assert found
    assert refused == []
