"""The check of an installation: what is asked of a cluster, and what is shown."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.admission.certificates import issue, serving_names
from app.admission.core.rotation import CertificateSet
from app.commands.doctor import doctor_report, findings_report
from app.commands.flags import DoctorSettings
from app.diagnosis.core.facts import Check, Finding, Level
from app.flags.command_line import parse
from app.kube.manifests import documents
from app.model.errors import ClusterError
from app.model.fields import Json
from app.output import Output, Report, shown
from app.ports import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_METRICS,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    VALIDATING_WEBHOOKS,
    VPAS,
    WORKLOADS,
    Resource,
)
from tests import make
from tests.diagnosis.core.healthy import configuration, deployment, hook, lease, scope
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.stepped_clock import SteppedClock

SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SUBRESOURCES = [Resource("", "v1", f"pods/{word}", "Pod") for word in ("eviction", "resize")]
SERVED = [
    *WORKLOADS, *SUBRESOURCES, CUSTOM_RESOURCE_DEFINITIONS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS,
    SLICES, LEASES, VPAS, PODS, LIMIT_RANGES, NODES, POD_DISRUPTION_BUDGETS, POD_METRICS, SECRETS,
]  # fmt: skip
DENIED = {"kind": "Status", "message": 'admission webhook "vpa.k8s.io" denied the request: no'}
METRICS: Json = {
    "metadata": {"name": "web-0", "namespace": "default"},
    "timestamp": make.time(make.NOW),
}
SERVICE = "vpa-webhook"
CERTIFICATES = issue(serving_names(SERVICE, "kube-system"), make.NOW, 365)


def put_certificates(
    server: ApiServer, secret: str, *names: str, of: CertificateSet = CERTIFICATES
) -> None:
    """Store CA, certificate and key in a Secret, under these names."""
    texts = (of.ca_pem, of.cert_pem, of.key_pem)
    encoded = [b64encode(text.encode()).decode() for text in texts]
    server.put(SECRETS, secret, "kube-system", data=dict(zip(names, encoded, strict=True)))


def stored(server: ApiServer, **changes: object) -> None:
    """Fill a cluster with an installation that is in order, or with other webhooks."""
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    for item in documents.objects("crd"):
        server.store(CUSTOM_RESOURCE_DEFINITIONS, {**item, "status": established})
    ca = b64encode(CERTIFICATES.ca_pem.encode()).decode()
    ours = hook(clientConfig=hook()["clientConfig"] | {"caBundle": ca}, **changes)
    server.store(MUTATING_WEBHOOKS, configuration("vpa-webhook-config", ours))
    judge = ours | {"name": "validate.vpa.k8s.io"}
    server.store(VALIDATING_WEBHOOKS, configuration("vpa-webhook-config", judge))
    put_certificates(server, "vpa-tls-certs", "caCert.pem", "serverCert.pem", "serverKey.pem")
    server.store(
        SLICES,
        {
            "metadata": {
                "name": "one",
                "namespace": "kube-system",
                "labels": {"kubernetes.io/service-name": SERVICE},
            },
            "endpoints": [{"conditions": {"ready": True}}, {"conditions": {"ready": False}}],
        },
    )
    beat = lease("vpa-admission-controller", timedelta(seconds=5))
    server.put(LEASES, "vpa-admission-controller", "kube-system", spec=beat["spec"])
    for component in ("admission-controller", "recommender", "updater"):
        server.store(DEPLOYMENTS, deployment(component))
    server.store(POD_METRICS, METRICS)
    server.store(VPAS, make.vpa_json(cpu="1"))
    server.store(STATEFUL_SETS, make.workload_json())
    server.store(PODS, make.pod_json())


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server with an installation that is in order, and that answers trials."""
    with serving(*SERVED) as found:
        stored(found)
        yield found


def allow(server: ApiServer, *, is_allowed: bool = True) -> None:
    """Let all accounts do everything, or nothing."""
    answer: Json = {"status": {"allowed": is_allowed}}
    server.fail("accessreviews", 201, body=answer, times=500)


def answer_trials(server: ApiServer) -> None:
    """Refuse the VPA with a mistake, and tell the time."""
    server.fail("verticalpodautoscalers?fieldManager&dryRun", 400, body=DENIED)
    created: Json = {"metadata": {"creationTimestamp": make.time(make.NOW)}}
    server.fail("leases?fieldManager&dryRun", 201, body=created)


@pytest.fixture
def healthy(server: ApiServer) -> ApiServer:
    """The same, with an account that may do everything."""
    allow(server)
    answer_trials(server)
    return server


def of_server(server: ApiServer, folder: Path, *flags: str) -> Report:
    """Return what is found in a cluster."""
    path = write(folder / "config", kubeconfig(server.url))
    settings = parse(DoctorSettings, [f"--kubeconfig={path}", *flags], {})
    return doctor_report(settings, SteppedClock(make.NOW))


def levels(found: Report) -> dict[str, set[str]]:
    """Return the levels of what is not fine, by check."""
    told: dict[str, set[str]] = {}
    for item in found.items:
        if item["level"] != "fine":
            told.setdefault(item["check"], set()).add(item["level"])
    return told


def test_in_order(healthy: ApiServer, tmp_path: Path) -> None:
    """Where all is well nothing is bad, and nothing was written."""
    found = of_server(healthy, tmp_path)
    assert levels(found) == {}
    assert not found.is_bad
    assert {item["check"] for item in found.items} == set(Check)
    writes = [one for one in healthy.requests if one.method != "GET"]
    assert all("dryRun" in one.query or "accessreviews" in one.path for one in writes)


def plant(server: ApiServer, fault: str) -> None:
    """Bring one fault into an installation."""
    match fault:
        case "no definition":
            server.remove(
                CUSTOM_RESOURCE_DEFINITIONS, documents.objects("crd")[1]["metadata"]["name"]
            )
        case "no webhook":
            server.remove(MUTATING_WEBHOOKS, "vpa-webhook-config")
        case "no pod behind the service":
            server.remove(SLICES, "one", "kube-system")
        case "another certificate":
            other = issue(serving_names(SERVICE, "kube-system"), make.NOW, 365)
            put_certificates(server, "vpa-tls-certs", "ca", "cert", "key", of=other)
        case "no sign":
            server.remove(LEASES, "vpa-admission-controller", "kube-system")
        case "no metrics":
            server.fail("metrics.k8s.io", 503, times=9)
        case "upstream":
            image = "registry.k8s.io/autoscaling/vpa-updater:1.8.1"
            item = deployment("updater", image=image)
            server.store(DEPLOYMENTS, item | {"metadata": item["metadata"] | {"name": "old"}})
        case "no pods":
            server.remove(PODS, "web-0")
        case "no owner":
            server.remove(STATEFUL_SETS, "web")


@pytest.mark.parametrize(
    ("fault", "check", "level"),
    [
        ("no definition", Check.DEFINITIONS, Level.SERIOUS),
        ("no webhook", Check.WEBHOOK, Level.SERIOUS),
        ("no pod behind the service", Check.WEBHOOK, Level.SERIOUS),
        ("another certificate", Check.WEBHOOK, Level.SERIOUS),
        ("no sign", Check.LEASES, Level.SERIOUS),
        ("no metrics", Check.METRICS, Level.SERIOUS),
        ("upstream", Check.COMPONENTS, Level.SERIOUS),
        ("no pods", Check.VPAS, Level.NOTE),
        ("no owner", Check.VPAS, Level.WARNING),
    ],
)
def test_planted_faults(
    healthy: ApiServer, tmp_path: Path, fault: str, check: Check, level: Level
) -> None:
    """Each fault is found by the check that is for it, and by no other."""
    plant(healthy, fault)
    found = of_server(healthy, tmp_path)
    assert levels(found) == {check: {level}}
    assert found.is_bad is (level is Level.SERIOUS)
    assert all(item["fix"] for item in found.items if item["level"] == "serious")


@pytest.mark.parametrize(
    ("status", "body", "level"),
    [
        (201, {}, Level.SERIOUS),
        (500, {"message": 'failed calling webhook "vpa.k8s.io": no route'}, Level.SERIOUS),
        (403, {"message": "you may not create VPAs"}, Level.UNKNOWN),
    ],
)
def test_what_becomes_of_the_trial(
    server: ApiServer, tmp_path: Path, status: int, body: Json, level: Level
) -> None:
    """A webhook that is not asked is told from one that may not be tried."""
    allow(server)
    server.fail("verticalpodautoscalers?fieldManager&dryRun", status, body=body)
    answer_trials(server)
    assert levels(of_server(server, tmp_path)) == {Check.WEBHOOK: {level}}


def test_rights(server: ApiServer, tmp_path: Path) -> None:
    """Who may not do what its process needs is told with all of it."""
    allow(server, is_allowed=False)
    answer_trials(server)
    found = of_server(server, tmp_path)
    assert levels(found) == {Check.RIGHTS: {Level.SERIOUS, Level.WARNING}}
    asked = [
        one.json["spec"] for one in server.requests if one.path.endswith("/subjectaccessreviews")
    ]
    evict = {"verb": "create", "group": "", "resource": "pods", "subresource": "eviction"}
    updater = [one for one in asked if one["user"].endswith(":default")]
    assert any(one["resourceAttributes"].items() >= evict.items() for one in updater)


def test_rights_that_a_flag_needs(server: ApiServer, tmp_path: Path) -> None:
    """What only a flag needs is granted by a document of its own."""
    allow(server, is_allowed=False)
    answer_trials(server)
    server.store(DEPLOYMENTS, deployment("updater", "updater", "--prove=dry-run"))
    fixes = [item["fix"] for item in of_server(server, tmp_path).items if "reconcile" in str(item)]
    both = "(plumbline manifests updater; plumbline manifests trials)"
    assert f"{both} | kubectl auth reconcile -f -" in fixes


def test_a_certificate_that_is_given(healthy: ApiServer, tmp_path: Path) -> None:
    """What is mounted counts, whatever else lies about, as from before cert-manager came."""
    plant(healthy, "another certificate")
    put_certificates(healthy, "plumbline-webhook", "ca.crt", "tls.crt", "tls.key")
    item = deployment("admission-controller", "--tls-cert-dir=/given")
    pod = item["spec"]["template"]["spec"]
    pod["volumes"] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "tls", "secret": {"secretName": "plumbline-webhook"}},
    ]
    pod["containers"][0]["volumeMounts"] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "tls", "mountPath": "/given"},
    ]
    healthy.store(DEPLOYMENTS, item)
    found = of_server(healthy, tmp_path)
    assert levels(found) == {}
    assert "secret/plumbline-webhook" in {one["about"] for one in found.items}


def test_a_webhook_for_some_namespaces(healthy: ApiServer, tmp_path: Path) -> None:
    """The VPA with a mistake is tried where the webhook is asked about it."""
    stored(healthy, namespaceSelector=scope("In", "web"))
    assert levels(of_server(healthy, tmp_path)) == {Check.WEBHOOK: {Level.NOTE}}
    tried = [
        one.path for one in healthy.requests if "/verticalp" in one.path and one.method == "POST"
    ]
    assert tried == ["/apis/autoscaling.k8s.io/v1/namespaces/web/verticalpodautoscalers"]


def test_what_may_not_be_asked(server: ApiServer, tmp_path: Path) -> None:
    """Whatever is refused is unknown, and the rest is looked at all the same."""
    for path in ("customresourcedefinitions", "mutatingwebhook", "deployments", "accessreviews",
                 "secrets", "pods", "leases?fieldManager", "metrics"):  # fmt: skip
        server.fail(path, 403, times=20)
    found = levels(of_server(server, tmp_path))
    assert {check for check, told in found.items() if Level.UNKNOWN in told} >= {
        Check.DEFINITIONS, Check.COMPONENTS, Check.RIGHTS, Check.WEBHOOK, Check.CERTIFICATE,
        Check.CLOCK, Check.VPAS, Check.METRICS,
    }  # fmt: skip


def test_a_cluster_that_does_not_answer(server: ApiServer, tmp_path: Path) -> None:
    """Who does not even tell its version cannot be reached."""
    server.stop()
    with pytest.raises(ClusterError):
        of_server(server, tmp_path)
    server.start()


def test_before_an_installation(tmp_path: Path) -> None:
    """In an empty cluster nothing is serious that an installation will bring."""
    served = [one for one in SERVED if one is not VPAS]
    with serving(*served) as empty:
        allow(empty)
        empty.store(POD_METRICS, METRICS)
        assert of_server(empty, tmp_path).is_bad
        assert not of_server(empty, tmp_path, "--before").is_bad


def test_what_is_shown() -> None:
    """A line for each finding, its command below where something is to be done, and the sum."""
    found = findings_report(
        {
            Check.SERVER: [Finding(Level.FINE, "API server", "fine", "never shown")],
            Check.LEASES: [
                Finding(Level.NOTE, "lease/a", "odd"),
                Finding(Level.NOTE, "lease/b", "odd"),
            ],
            Check.METRICS: [Finding(Level.SERIOUS, "apiservice/x", "down", "mend it")],
        }
    )
    assert list(shown(found, Output.TABLE)) == [
        "fine     Server       API server: fine",
        "note     Leases       lease/a: odd",
        "note     Leases       lease/b: odd",
        "serious  Metrics      apiservice/x: down",
        "         $ mend it",
        "1 serious (Metrics), 2 notes, 1 fine",
    ]
    assert list(shown(found, Output.NAME)) == ["lease/a", "lease/b", "apiservice/x"]
    assert found.items[1] == {
        "check": "Leases",
        "level": "note",
        "about": "lease/a",
        "message": "odd",
    }


def test_many_alike() -> None:
    """Of what a thousand VPAs have in common people see ten, programs all, with the sum."""
    found = findings_report(
        {
            Check.VPAS: [
                Finding(level, f"vpa/{number}", "no pods")
                for number in range(1000)
                for level in (Level.NOTE, Level.WARNING)
            ]
        }
    )
    *first, notes, warnings, told = shown(found, Output.TABLE)
    assert len(first) == 20
    assert notes == "note     VPAs         990 more: not shown here, but by -o json"
    assert warnings == "warning  VPAs         990 more: not shown here, but by -o json"
    assert told == "1000 warnings, 1000 notes"
    assert len(found.items) == 2000
