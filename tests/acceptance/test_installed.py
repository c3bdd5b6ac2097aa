"""The processes run from what is shipped: command lines, accounts and probes of their pods."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit

import pytest
import yaml

from app.admission.certificates import issue
from app.kube.manifests.documents import CONFIGURATION_NAME
from app.model.fields import Json
from app.ports import (
    CHECKPOINTS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PODS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    VPAS,
)
from app.runtime.clock import SystemClock
from bench.upstream import source
from tests.acceptance.asked import asked, forbidden
from tests.acceptance.cluster import doctor
from tests.acceptance.definitions import install
from tests.acceptance.installed import SERVICES, Installed, installed_from, notes
from tests.acceptance.logs import Logs
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.scraped import jobs, prometheus
from tests.acceptance.space import Box, Space, bare_pod, item_of, new_space
from tests.acceptance.templates import AS_THE_BASE, CHARTS, DEPLOY, charted, kustomized, tool
from tests.acceptance.webhook import SECRET
from tests.cluster.foreign import foreign
from tests.cluster.programs import eventually
from tests.kube.manifests.monitored import (
    ALERTS,
    FLEET,
    SERIES,
    SUFFIXES,
    THEIRS,
    WORKLOAD,
    expressions,
    panels,
)

ROOT = Path(__file__).parents[2]
NOBODY = 65534
WATCHED = "watched"
# Nothing happened that they tell of, or the API server, which is not scraped here, tells of it.
UNEVENTFUL = {
    "As the API server sees it",
    "Failures a minute",
    "Pods that no VPA changes, a second",
}
SECONDS = 120
COMPONENTS = ("admission-controller", "recommender", "updater")
POOR = ("serious", "unknown", "warning")
WITH_WORKERS = {"vpa_admission_controller_replaced_workers_total"}  # published if there are any


@pytest.fixture(scope="module")
def installed(logs: Logs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The base, as it is shipped; the kubelet has found all pods ready by their probes."""
    documents = kustomized(DEPLOY / "base")
    with installed_from(documents, tmp_path_factory.mktemp("installed"), logs) as found:
        yield found


def test_doctor_is_content(installed: Installed) -> None:
    """Nothing is wrong with it, usage included, and there is nothing that cannot be looked at."""
    wait_until_well(installed)


def wait_until_well(installed: Installed) -> None:
    """Return when the check has nothing against anything."""

    def look() -> bool:
        code, found = doctor(installed.plane.kubeconfig)
        assert code == 0, found
        assert [one for one in found if one["level"] in POOR] == []
        return {one["check"] for one in found} >= {"Metrics", "Rights", "Webhook", "Leases"}

    eventually(look, "all is well", seconds=SECONDS, every=2)


def test_secret_outlives_an_upgrade(installed: Installed) -> None:
    """What the webhook put into its Secret stays when all is applied again."""
    before = installed.admin.get(SECRETS, NAMESPACE, SECRET)["data"]
    for documents in (charted(*AS_THE_BASE), kustomized(DEPLOY / "base")):
        (empty,) = (item for item in documents if item["kind"] == SECRETS.kind)
        installed.admin.apply(empty)

    assert before
    assert installed.admin.get(SECRETS, NAMESPACE, SECRET)["data"] == before


@pytest.mark.parametrize("component", COMPONENTS)
def test_nobody_is_at_work(installed: Installed, component: str) -> None:
    """A process is the user of its pod, without privileges, and may write nowhere but in /tmp."""
    place = Path(f"/proc/{installed.program(component).pid}")
    status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines())
    mounts = [line.split() for line in (place / "mountinfo").read_text().splitlines()]

    assert status["Uid"].split() == status["Gid"].split() == [str(NOBODY)] * 4
    assert not any(int(status[f"Cap{which}"], 16) for which in ("Inh", "Prm", "Eff", "Bnd", "Amb"))
    assert status["NoNewPrivs"] == "1"
    assert {where for _, _, _, _, where, how, *_ in mounts if "ro" not in how.split(",")} == {
        "/tmp"
    }


def test_metrics_are_published(installed: Installed) -> None:
    """Every series that a panel or an alert asks of ours is one that a process publishes."""
    skipped = "vpa_admission_controller_skipped_pods_total"
    alone = bare_pod(Box(), generateName="alone-")
    Space(installed.admin, "default").create(alone, dry_run=True)
    eventually(
        lambda: skipped in installed.page("admission-controller", "/metrics"), "a pod is skipped"
    )
    pages = [installed.page(component, "/metrics") for component in COMPONENTS]
    token = installed.plane.admin_token
    pages.append(installed.page("recommender", "/metrics/recommendations", token))
    published = {
        line.split()[2] for page in pages for line in page.splitlines() if line[:7] == "# TYPE "
    }
    queries = [*expressions(FLEET), *expressions(WORKLOAD), *(each["expr"] for each in ALERTS)]
    wanted = {name for query in queries for name in SERIES.findall(query)}
    known = published | set(THEIRS) | WITH_WORKERS
    assert wanted
    assert {
        name for name in wanted if not {name.removesuffix(each) for each in SUFFIXES} & known
    } == set()


def test_panels_show_what_is_scraped(installed: Installed, tmp_path: Path, logs: Logs) -> None:
    """With the shipped monitors a real Prometheus has something for each panel about ourselves."""
    space = new_space(installed.admin, WATCHED)
    space.vpa()
    space.deployment(Box(requests="100m/100Mi"))
    told = jobs(installed, monitored(tmp_path), installed.plane.admin_token)
    with prometheus(tmp_path, logs, {"scrape_configs": told}) as found:

        def are_empty() -> set[str]:
            return {
                title
                for page in (FLEET, WORKLOAD)
                for title, queries in panels(page)
                if not any(found.result(filled(query)) for query in queries)
            }

        def look() -> bool:
            assert are_empty() <= UNEVENTFUL
            return True

        eventually(look, "the panels show something", seconds=SECONDS, every=1)


def monitored(folder: Path) -> list[Json]:
    """Return the monitors for processes that take tokens."""
    overlay = {
        "resources": [os.path.relpath(DEPLOY / "monitoring", folder)],
        "components": [os.path.relpath(DEPLOY / "components/tls", folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay), "utf-8")
    return [one for one in kustomized(folder) if one["kind"] == "ServiceMonitor"]


def filled(expression: str) -> str:
    """Return a query as Grafana sends it, for the workload that is watched."""
    chosen = {"rate_interval": "30s", "namespace": WATCHED, "vpa": "vpa", "container": "hamster"}
    return re.sub(r"\$(?:__)?(\w+)", lambda word: chosen[word[1]], expression)


@pytest.mark.parametrize("component", COMPONENTS)
def test_helm_test_asks(installed: Installed, component: str) -> None:
    """What `helm test` runs is content with a process, through a Service that leads to its pod."""
    (hook,) = [
        item
        for item in charted(*AS_THE_BASE)
        if notes(item).get("helm.sh/hook") == "test"
        and item["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    (container,) = hook["spec"]["containers"]
    (script,) = container["args"]
    url = urlsplit(next(word for word in script.split('"') if word.startswith("http://")))
    service = installed.admin.get(SERVICES, NAMESPACE, str(url.hostname))
    labels = ",".join(f"{key}={text}" for key, text in service["spec"]["selector"].items())
    (pod,) = installed.admin.list(PODS, NAMESPACE, labels)
    script = script.replace(str(url.hostname), pod["status"]["podIP"])

    assert [port["port"] for port in service["spec"]["ports"]] == [url.port]
    done = subprocess.run(
        [sys.executable, *container["command"][1:], script],
        capture_output=True,
        timeout=SECONDS,
        check=True,
        text=True,
    )
    assert done.stdout.strip() == "OK"


def test_nothing_is_forbidden(installed: Installed) -> None:
    """With the accounts and tokens of their pods all processes may do what they want."""
    found = asked(installed.plane.audit_log)

    assert {each.account.rpartition(":vpa-")[2] for each in found} >= set(COMPONENTS)
    assert forbidden(found) == []


def test_certificates_of_others(installed: Installed) -> None:
    """With its overlay the webhook is ready with what cert-manager made, and that CA is trusted.

    cert-manager is not here: its definitions are, and a Secret as it makes one.
    """
    admin = installed.admin
    made = issue((f"vpa-webhook.{NAMESPACE}.svc",), SystemClock().now(), 30)
    texts = {"tls.crt": made.cert_pem, "tls.key": made.key_pem, "ca.crt": made.ca_pem}
    kind = "kubernetes.io/tls"
    admin.create(item_of(SECRETS, "plumbline-webhook", NAMESPACE, type=kind, stringData=texts))
    install(admin, foreign())

    assert installed.apply(kustomized(DEPLOY / "overlays/cert-manager")) == []
    installed.start(more=1)  # the old one goes when the new one is ready
    installed.start()

    def is_trusted() -> bool:
        (hook,) = admin.get(MUTATING_WEBHOOKS, "", CONFIGURATION_NAME)["webhooks"]
        return made.ca_pem in b64decode(hook["clientConfig"]["caBundle"]).decode()

    eventually(is_trusted, "the webhook is trusted by this CA", seconds=SECONDS)


def test_registered_by_others(installed: Installed) -> None:
    """Nor does it need any right on webhook configurations where these are others' to keep."""
    admin = installed.admin
    found = charted(*AS_THE_BASE, *CHARTS["registered by others"])
    for component in COMPONENTS:
        admin.delete(DEPLOYMENTS, NAMESPACE, f"vpa-{component}")
    eventually(lambda: not admin.list(PODS, NAMESPACE), "the former pods are gone", seconds=SECONDS)

    log = installed.plane.audit_log
    former = asked(log)

    assert installed.apply(found) == []
    installed.start()
    wait_until_well(installed)
    assert forbidden(asked(log) - former) == []


def helm(installed: Installed, *words: str) -> str:
    """Return what helm says to a command about the release."""
    where = ("-n", NAMESPACE, f"--kubeconfig={installed.plane.kubeconfig}")
    command = [tool("helm"), *words, *where]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_going_back_leaves_vpas(installed: Installed) -> None:
    """A chart takes the place of manifests, says what to do next, and goes without any VPA."""
    admin = installed.admin
    installed.end()
    space = Space(admin, "default")
    space.vpa()
    learned = {"vpaObjectName": "vpa", "containerName": "hamster"}
    space.create(item_of(CHECKPOINTS, "vpa-hamster", spec=learned))

    told = helm(installed, "install", "vpa", str(DEPLOY / "chart"), "--take-ownership")
    for command in (
        f"helm test vpa -n {NAMESPACE}",
        f"plumbline doctor -n {NAMESPACE}",
        "kubectl get vpa -A",
    ):
        assert command in told
    helm(installed, "upgrade", "vpa", str(DEPLOY / "chart"), "--reset-then-reuse-values")
    helm(installed, "uninstall", "vpa")

    assert admin.find(VPAS, "default", "vpa")
    assert admin.find(CHECKPOINTS, "default", "vpa-hamster")
    assert admin.list(DEPLOYMENTS, NAMESPACE) == []
    assert admin.find(MUTATING_WEBHOOKS, "", CONFIGURATION_NAME) is None


def pasted(chapter: str, language: str = "sh") -> list[str]:
    """Return what a chapter about moving tells to paste, as far as it is about manifests."""
    text = (ROOT / "docs/from-upstream.md").read_text("utf-8")
    told = text.split(f"## {chapter}\n")[1].split("## ")[0].split("ith charts:")[0]
    blocks = re.findall(rf"^ *```{language}\n(.*?)```", told, re.DOTALL | re.MULTILINE)
    return list(map(dedent, blocks))


def told(item: Json) -> Json:
    """Return what a Deployment says of its pods that must not be mixed with what another says."""
    spec = item["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return {
        "labels": item["metadata"].get("labels"),
        "replicas": item["spec"].get("replicas", 1),
        "args": container.get("args"),
        "env": [each["name"] for each in container.get("env", ())],
        "image": container["image"],
        "mounts": [each["name"] for each in container.get("volumeMounts", ())],
        "ports": [each["containerPort"] for each in container["ports"]],
        "probe": container["livenessProbe"]["httpGet"]["path"],
        "resources": container["resources"],
        "security": container.get("securityContext"),
        "volumes": [each["name"] for each in spec.get("volumes", ())],
    }


@pytest.mark.parametrize("verb", ["apply", "create"])
@pytest.mark.skipif(shutil.which("go") is None, reason="Go fetches upstream's manifests")
def test_moving_by_the_book(installed: Installed, tmp_path: Path, verb: str) -> None:
    """The commands of the page bring over whatever upstream brought, and bring it back."""
    admin = installed.admin
    paths = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths, "KUBECONFIG": str(installed.plane.kubeconfig)}
    (tmp_path / "kubectl").symlink_to(tool("kubectl"))
    (tmp_path / "vertical-pod-autoscaler").symlink_to(source())
    overlay = os.path.relpath(DEPLOY / "overlays/high-availability", tmp_path)
    (flags,) = pasted("Migrate", "yaml")
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{overlay}]\n{flags}", "utf-8")

    def run(command: str) -> None:
        shell = ["bash", "-euo", "pipefail", "-c", command]
        subprocess.run(shell, cwd=tmp_path, env=environment, timeout=SECONDS, check=True)

    def live() -> Json:
        return {item["metadata"]["name"]: told(item) for item in admin.list(DEPLOYMENTS, NAMESPACE)}

    def wanted(folder: Path) -> Json:
        found = kustomized(folder)
        return {one["metadata"]["name"]: told(one) for one in found if one["kind"] == "Deployment"}

    installed.end()
    upstream = source() / "deploy"
    run(f"kubectl delete --ignore-not-found -k {DEPLOY / 'base'}")
    run(f"kubectl {verb} -k {upstream}")
    for command in pasted("Migrate"):
        if verb == "create" and " apply " in command:  # nobody knows which fields were upstream's
            run(f"kubectl -n {NAMESPACE} delete deploy {' '.join(live())}")
        if "plumbline doctor" not in command:
            run(command)
    assert live() == wanted(tmp_path)
    assert live()["vpa-recommender"]["args"][-1].startswith("--pod-recommendation-min-memory-mb=")

    for command in pasted("Roll back"):
        run(command)
    assert live() == wanted(upstream)
    assert admin.find(SERVICES, NAMESPACE, "vpa-webhook")
    assert admin.find(VALIDATING_WEBHOOKS, "", CONFIGURATION_NAME) is None
    run(f"kubectl delete -k {upstream}")
