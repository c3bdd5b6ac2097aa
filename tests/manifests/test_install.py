"""What is applied to a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.manifests.install import DOCUMENTS, PROGRAMS, files, program
from app.manifests.programs import Program
from app.settings.admission import AdmissionSettings
from app.settings.command_line import parse
from app.settings.recommender import RecommenderSettings
from app.settings.updater import UpdaterSettings

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, type[Any]] = {
    "admission": AdmissionSettings,
    "recommender": RecommenderSettings,
    "updater": UpdaterSettings,
}
Json = dict[str, Any]


def documents(name: str) -> list[Json]:
    """Return what a process needs, as it is read from its file."""
    return list(yaml.safe_load_all(program(name)))


def one(name: str, kind: str, title: str = "") -> Json:
    """Return the only object of a kind, or the one of this name."""
    (found,) = [
        item
        for item in documents(name)
        if item["kind"] == kind and title in ("", item["metadata"]["name"])
    ]
    return found


@pytest.mark.parametrize("path", sorted(files()))
def test_committed_files(path: str) -> None:
    """What is committed is what the code generates."""
    assert (ROOT / path).read_text(encoding="utf-8") == files()[path]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_texts_are_documents(name: str) -> None:
    """Every text that can be printed holds Kubernetes objects, no two of the same name."""
    found = [
        (
            item["apiVersion"],
            item["kind"],
            item["metadata"].get("namespace"),
            item["metadata"]["name"],
        )
        for item in yaml.safe_load_all(DOCUMENTS[name]())
    ]
    assert found
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("found", PROGRAMS.values(), ids=PROGRAMS)
def test_flags_are_read_by_the_process(found: Program) -> None:
    """A process understands the flags of its manifest, and serves where its probes ask."""
    container = one(found.verb, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    verb, *flags = container["args"]
    given = [flag.replace("$(NAMESPACE)", "autoscaling") for flag in flags]
    settings = parse(SETTINGS[verb], given, {"NAMESPACE": "autoscaling"})

    served = settings.serving if isinstance(settings, AdmissionSettings) else settings.loop
    assert served.address.port == found.port
    if isinstance(settings, AdmissionSettings):
        assert settings.serving.port == found.https_port
        assert settings.heartbeat.lease_namespace == "autoscaling"
    else:
        assert settings.election.is_on
        assert settings.election.resource_namespace == "autoscaling"
    if isinstance(settings, UpdaterSettings):
        assert settings.admission.lease_namespace == "autoscaling"


@pytest.mark.parametrize("found", PROGRAMS.values(), ids=PROGRAMS)
def test_pods_meet_the_restricted_standard(found: Program) -> None:
    """Nobody's user, no privileges, nothing writable but a small folder in memory."""
    pod = one(found.verb, "Deployment")["spec"]["template"]["spec"]
    container = pod["containers"][0]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [volume["emptyDir"]["medium"] for volume in pod["volumes"]] == ["Memory"]


@pytest.mark.parametrize("found", PROGRAMS.values(), ids=PROGRAMS)
def test_what_belongs_together_finds_each_other(found: Program) -> None:
    """Services, budgets and spread select the pods; bindings name the account that these use."""
    template = one(found.verb, "Deployment")["spec"]["template"]
    labels, account = template["metadata"]["labels"], template["spec"]["serviceAccountName"]
    for item in documents(found.verb):
        match item["kind"]:
            case "Service":
                assert item["spec"]["selector"].items() <= labels.items()
                ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
                assert item["spec"]["ports"][0]["targetPort"] in ports
            case "PodDisruptionBudget":
                assert item["spec"]["selector"]["matchLabels"].items() <= labels.items()
            case "ClusterRoleBinding" | "RoleBinding":
                assert [subject["name"] for subject in item["subjects"]] == [account]
                role = one(found.verb, item["kind"].removesuffix("Binding"))
                assert item["roleRef"]["name"] == role["metadata"]["name"]


@pytest.mark.parametrize("found", PROGRAMS.values(), ids=PROGRAMS)
def test_secrets_and_leases_are_named(found: Program) -> None:
    """Nobody may read or change a Secret or a Lease that is not ours, or anything without need."""
    for right in found.rights:
        if {"secrets", "leases"} & set(right.resources):
            assert right.names or right.verbs == ("create",)
        assert "*" not in right.verbs
        assert right.why


def test_webhooks_trust_nobody_yet() -> None:
    """The configurations carry no CA: the webhook writes its own, and applying again keeps it."""
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (hook,) = one("admission", kind)["webhooks"]
        assert set(hook["clientConfig"]) == {"service"}
        assert one("admission", "Service", hook["clientConfig"]["service"]["name"])
