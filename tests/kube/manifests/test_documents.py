"""What is applied to a cluster; webhook configurations ask for the right things alone."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.admission.flags import AdmissionSettings
from app.flags.command_line import parse
from app.kube.manifests.documents import (
    NAMES,
    PAGE,
    PROCESSES,
    Registration,
    objects,
    text,
    webhook_configurations,
    webhook_url,
)
from app.kube.manifests.rights import OPTIONS
from app.kube.reach import is_loopback
from app.model.errors import BadSetting
from app.page.flags import PageSettings
from app.ports import Json
from app.recommender.flags import RecommenderSettings
from app.updater.flags import UpdaterSettings
from tests.cases import cases

DEPLOY = Path(__file__).parents[3] / "deploy"
SETTINGS: Mapping[str, type[Any]] = {
    "admission": AdmissionSettings,
    "recommender": RecommenderSettings,
    "updater": UpdaterSettings,
}
ALL = (*PROCESSES, PAGE)
COPIES = {
    **{f"base/{name}/{name}.yaml": name for name in ("crd", *PROCESSES)},
    "crd.yaml": "crd",
    "chart/files/crd.yaml": "crd",
    "components/prove-by-trial/trials.yaml": "trials",
    "components/vpa-summaries/summaries.yaml": "summaries",
    "components/external-metrics/rights.yaml": "external-metrics",
    "components/role-leases/role-leases.yaml": "role-leases",
    "components/role-leases/role-usage.yaml": "role-usage",
    "components/page/page.yaml": "page",
}


def one(name: str, kind: str, title: str = "") -> Json:
    """Return the only object of a kind, or the one of this name."""
    (found,) = [
        item
        for item in objects(name)
        if item["kind"] == kind and title in ("", item["metadata"]["name"])
    ]
    return found


def pod(name: str) -> Json:
    """Return the template of a process's pods."""
    found: Json = one(name, "Deployment")["spec"]["template"]
    return found


def ports(name: str) -> dict[str, int]:
    """Return the ports of a process by their names."""
    (container,) = pod(name)["spec"]["containers"]
    return {port["name"]: port["containerPort"] for port in container["ports"]}


@pytest.mark.parametrize(("copy", "name"), COPIES.items())
def test_copies(copy: str, name: str) -> None:
    """What kustomize and the chart install is what the command prints."""
    found = (DEPLOY / copy).read_bytes()

    assert sha256(found).digest() == sha256(text(name).encode()).digest(), "run 'make generate'"


def test_everything() -> None:
    """`all` is the definitions and the three processes."""
    assert text("all") == "".join(map(text, ("crd", *PROCESSES)))


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_documents(name: str) -> None:
    """Every text holds Kubernetes objects, no two of the same name, and tells its original."""
    heads = [(item["apiVersion"], item["kind"], item["metadata"]) for item in objects(name)]
    found = [(api, kind, at.get("namespace"), at["name"]) for api, kind, at in heads]
    assert found
    assert len(set(found)) == len(found)
    original = f"the original is app/kube/manifests/{name}.yaml."
    head = f"# What `plumbline manifests {name}` prints; {original}\n"
    assert name == "all" or text(name).startswith(head)


@pytest.mark.parametrize("name", ALL)
def test_images_have_the_version(name: str) -> None:
    """The manifests run the image of the version that they belong to."""
    (container,) = pod(name)["spec"]["containers"]
    assert container["image"] == f"plumbline:{version('plumbline')}"


def test_the_page_serves_where_its_probes_ask() -> None:
    """It understands its flags, and lets in only those who have a token."""
    (container,) = pod(PAGE)["spec"]["containers"]
    verb, *flags = container["args"]
    settings = parse(PageSettings, flags, {"NAMESPACE": "autoscaling"})

    assert (verb, ports(PAGE)) == (PAGE, {"prometheus": settings.serving.address.port})
    assert not is_loopback(settings.serving.address.host)
    assert not settings.access.tokens_over_http
    probes = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    assert {(probe["port"], probe["scheme"]) for probe in probes} == {("prometheus", "HTTPS")}
    service = one(PAGE, "Service")
    assert service["metadata"]["name"] == "vpa-page"
    assert service["spec"]["selector"].items() <= pod(PAGE)["metadata"]["labels"].items()


@pytest.mark.parametrize("name", PROCESSES)
def test_flags_are_read_by_the_process(name: str) -> None:
    """A process understands the flags of its manifest, and serves where its probes ask."""
    (container,) = pod(name)["spec"]["containers"]
    verb, *flags = container["args"]
    given = [flag.replace("$(NAMESPACE)", "autoscaling") for flag in flags]
    settings = parse(SETTINGS[verb], given, {"NAMESPACE": "autoscaling"})

    served = settings.serving if isinstance(settings, AdmissionSettings) else settings.loop
    wanted = {"prometheus": served.address.port}
    if isinstance(settings, AdmissionSettings):
        wanted["https"] = settings.serving.port
        assert settings.heartbeat.lease_namespace == "autoscaling"
    else:
        assert settings.election.is_on
        assert settings.election.resource_namespace == "autoscaling"
    if isinstance(settings, UpdaterSettings):
        assert settings.admission.namespace == "autoscaling"
    assert verb == name
    assert ports(name) == wanted
    probes = [container[probe] for probe in ("livenessProbe", "readinessProbe")]
    assert {probe["httpGet"]["port"] for probe in probes} == {"prometheus"}
    assert {probe["timeoutSeconds"] for probe in probes} == {5}  # a busy process is not a dead one


@pytest.mark.parametrize("name", ALL)
def test_pods_meet_the_restricted_standard(name: str) -> None:
    """No privileges, an account without a name, and nothing writable but a folder in memory.

    The root file system is read-only, and processes share their numbers in that folder.
    """
    found = pod(name)["spec"]
    (container,) = found["containers"]

    assert found["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "runAsGroup": 65534,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [volume["emptyDir"]["medium"] for volume in found["volumes"]] == ["Memory"]


@pytest.mark.parametrize("name", PROCESSES)
def test_pods_may_end_in_peace(name: str) -> None:
    """A round, the last checkpoints and open requests are finished first.

    The budget counts pods that are down: one by minAvailable would keep the node of a single
    replica from being drained for ever.
    """
    assert pod(name)["spec"]["terminationGracePeriodSeconds"] == 45
    assert one(name, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("name", ALL)
def test_what_belongs_together_finds_each_other(name: str) -> None:
    """Services, budgets and spread select the pods; bindings name the account that these use."""
    labels, account = pod(name)["metadata"]["labels"], pod(name)["spec"]["serviceAccountName"]
    (spread,) = pod(name)["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    assert one(name, "ServiceAccount")["metadata"]["name"] == account
    for item in objects(name):
        match item["kind"]:
            case "Deployment" | "PodDisruptionBudget":
                assert item["spec"]["selector"]["matchLabels"].items() <= labels.items()
            case "Service":
                assert item["spec"]["selector"].items() <= labels.items()
                assert item["spec"]["ports"][0]["targetPort"] in ports(name)
            case "ClusterRoleBinding" | "RoleBinding":
                assert [subject["name"] for subject in item["subjects"]] == [account]
                role = one(name, item["kind"].removesuffix("Binding"))
                assert item["roleRef"]["name"] == role["metadata"]["name"]


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("trials", "updater"),
        ("summaries", "updater"),
        ("role-usage", "updater"),
        ("external-metrics", "recommender"),
    ],
)
def test_options_are_for_their_process(option: str, name: str) -> None:
    """A right that a flag needs is bound to the account of the process with this flag."""
    binding = one(option, "ClusterRoleBinding")

    assert binding["roleRef"]["name"] == one(option, "ClusterRole")["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == [
        one(name, "ServiceAccount")["metadata"]["name"]
    ]


def test_leases_are_for_all_processes() -> None:
    """The right that all need is bound to the accounts of all, also of the page."""
    binding = one("role-leases", "ClusterRoleBinding")

    assert binding["roleRef"]["name"] == one("role-leases", "ClusterRole")["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == [
        one(name, "ServiceAccount")["metadata"]["name"] for name in ALL
    ]


def test_labels() -> None:
    """All but the definitions carries the labels by which it is found, and its process's name."""
    for name in (*ALL, *OPTIONS):
        labels = [item["metadata"]["labels"] for item in objects(name)]
        assert all(each == labels[0] for each in labels)
        assert labels[0]["app.kubernetes.io/name"] == "plumbline"
        assert labels[0]["app.kubernetes.io/part-of"] == "vertical-pod-autoscaler"


def test_secret_is_empty() -> None:
    """It says nothing of data or type, so applying it again keeps what is in it, of any type."""
    assert one("admission", "Secret").keys() == {"apiVersion", "kind", "metadata"}


def test_webhooks_carry_no_authority_yet() -> None:
    """The configurations carry no CA: the webhook writes its own, and applying again keeps it.

    They are among the manifests so that they go when the rest goes.
    """
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (hook,) = one("admission", kind)["webhooks"]
        assert set(hook["clientConfig"]) == {"service"}
        assert one("admission", "Service", hook["clientConfig"]["service"]["name"])


def test_monitors_find_the_processes() -> None:
    """The Prometheus operator scrapes each process by its Service, and sends no token in clear."""
    monitors = list(yaml.safe_load_all((DEPLOY / "monitoring/service-monitors.yaml").read_text()))

    assert len(monitors) == len(ALL)
    for name, monitor in zip(ALL, monitors, strict=True):
        title = monitor["metadata"]["name"]
        service = one(name, "Service", title if name == PAGE else f"{title}-metrics")
        selected = monitor["spec"]["selector"]["matchLabels"]
        pages = [endpoint["path"] for endpoint in monitor["spec"]["endpoints"]]
        assert selected.items() <= service["metadata"]["labels"].items()
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} == {
            service["spec"]["ports"][0]["name"]
        }
        assert pages == ["/metrics"]
        assert "bearer" not in str(monitor)
        (probe,) = pod(name)["spec"]["containers"]
        served = probe["readinessProbe"]["httpGet"].get("scheme", "HTTP").lower()
        assert [one.get("scheme", "http") for one in monitor["spec"]["endpoints"]] == [served]


def test_policies_are_about_the_processes() -> None:
    """Each process has a policy that selects its pods; only API servers' port is open to all."""
    path = DEPLOY / "components/network-policies/policies.yaml"
    policies = list(yaml.safe_load_all(path.read_text()))

    assert len(policies) == len(ALL)
    for name, policy in zip(ALL, policies, strict=True):
        spec, metadata = policy["spec"], pod(name)["metadata"]
        assert spec["podSelector"]["matchLabels"].items() <= metadata["labels"].items()
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        let_in = {rule["ports"][0]["port"]: rule.get("from") for rule in spec["ingress"]}
        assert set(let_in) == set(ports(name))
        assert [port for port, whom in let_in.items() if whom is None] == [
            port for port in ports(name) if port == "https"
        ]


CA = "-----BEGIN CERTIFICATE-----\n"


def webhooks(registration: Registration, ca_pem: str = CA) -> Sequence[dict[str, Any]]:
    """The webhooks of both configurations, one each: the mutating and the validating one."""
    found = [
        webhook
        for _, item in webhook_configurations(registration, ca_pem)
        for webhook in item["webhooks"]
    ]
    assert [webhook["name"] for webhook in found] == ["vpa.k8s.io", "validate.vpa.k8s.io"]
    return found


def rule(group: str, version: str, resource: str, *operations: str) -> Json:
    """What a webhook is asked about."""
    about = {"apiGroups": [group], "apiVersions": [version], "resources": [resource]}
    return {"operations": [*operations], **about, "scope": "*"}


def test_mutating() -> None:
    """The configuration for pods and VPAs is upstream's, with all defaults written down."""
    webhook, _ = webhooks(Registration())
    del webhook["matchConditions"]
    assert webhook == {
        "name": "vpa.k8s.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": base64.b64encode(CA.encode()).decode(),
            "service": {"namespace": "kube-system", "name": "vpa-webhook"}
            | {"path": "/mutate", "port": 443},
        },
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "namespaceSelector": {},
        "objectSelector": {},
        "rules": [
            rule("", "v1", "pods", "CREATE"),
            rule("autoscaling.k8s.io", "*", "verticalpodautoscalers", "CREATE", "UPDATE"),
        ],
    }


def test_validating() -> None:
    """The other configuration asks about VPAs only, without conditions."""
    _, webhook = webhooks(Registration())
    assert webhook["name"] == "validate.vpa.k8s.io"
    assert webhook["clientConfig"]["service"]["path"] == "/validate"
    assert [rule["resources"] for rule in webhook["rules"]] == [["verticalpodautoscalers"]]
    assert webhook["matchConditions"] == []
    assert "reinvocationPolicy" not in webhook


def test_configurations() -> None:
    """Each document stands beside its collection, under upstream's name."""
    for resource, document in webhook_configurations(Registration(labels={"a": "b"}), CA):
        assert document["kind"] == resource.kind
        assert document["apiVersion"] == "admissionregistration.k8s.io/v1"
        assert document["metadata"] == {"name": "vpa-webhook-config", "labels": {"a": "b"}}


def namespaces(operator: str, *values: str) -> Json:
    """The selector of namespaces by name."""
    key = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


@cases(
    "registration path expected",
    {
        "fail closed": (Registration(fail_closed=True), "failurePolicy", "Fail"),
        "timeout": (Registration(timeout_seconds=30), "timeoutSeconds", 30),
        "by URL, without a CA": (
            Registration(url="https://10.0.0.1:8443/base"),
            "clientConfig",
            {"url": "https://10.0.0.1:8443/base/validate"},
        ),
        "ignored namespaces": (
            Registration(ignored_namespaces=("a", "", "b"), selected_namespace="c"),
            "namespaceSelector",
            namespaces("NotIn", "a", "b"),
        ),
        "one namespace, and an empty list of ignored ones": (
            Registration(ignored_namespaces=("",), selected_namespace="c"),
            "namespaceSelector",
            namespaces("In", "c"),
        ),
    },
)
def test_registration(registration: Registration, path: str, expected: object) -> None:
    """Each setting ends up in its field."""
    assert webhooks(registration, "")[1][path] == expected


def test_match_conditions() -> None:
    """Conditions hold pods back, never VPAs, and our own pods only where we live."""
    mirror, own = webhooks(Registration(namespace="vpa"))[0]["matchConditions"]
    for condition in (mirror, own):
        assert condition["expression"].startswith(
            "!(request.resource.group == '' && request.resource.resource == 'pods' && "
        )
        assert condition["expression"].count("(") == condition["expression"].count(")")
    assert "'kubernetes.io/config.mirror' in object.metadata.annotations" in mirror["expression"]
    assert "request.namespace == 'vpa' && has(object.metadata.labels)" in own["expression"]


@cases(
    "address port expected",
    {
        "both": ("https://10.0.0.1", "8443", "https://10.0.0.1:8443"),
        "no port": ("https://vpa.example.com", "", "https://vpa.example.com"),
        "IPv6": ("https://[fd00::1]", "8443", "https://[fd00::1]:8443"),
        "path": ("https://a.example.com/base/", "", "https://a.example.com/base"),
    },
)
def test_webhook_url(address: str, port: str, expected: str) -> None:
    """The root of the webhooks' URLs has no slash at its end."""
    assert webhook_url(address, port) == expected


@pytest.mark.parametrize("address", ["", "10.0.0.1", "http://a", "https://u@a", "https://a?b#c"])
def test_bad_webhook_url(address: str) -> None:
    """What an API server would refuse is refused here, by the flag's name."""
    with pytest.raises(BadSetting, match="--webhook-address"):
        webhook_url(address, "443")
