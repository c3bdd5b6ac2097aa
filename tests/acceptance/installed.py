"""What is installed, at work: each process as its pod on a node would have it.

Strategy: Deployments make pods, and the kubelet gives each an address, volumes and a bound token,
but starts no program. That is done here, from the container of the live pod: its command line,
its environment, its mounts, its user and its read-only root. Only addresses are told beside, for
everything is on loopback.
The kubelet's own probes then find the program, and say whether the pod is ready.
"""

from __future__ import annotations

import fcntl
import os
import re
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import pytest

from app.model.fields import Json
from app.ports import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, PODS, Resource
from app.runtime.clock import SystemClock
from tests.acceptance.container import REPOSITORY, Mount, User, contained
from tests.acceptance.definitions import install
from tests.acceptance.logs import Logs
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.space import item_of
from tests.cluster.balancer import Balancer
from tests.cluster.control_plane import ControlPlane
from tests.cluster.parts import Unavailable, parts
from tests.cluster.programs import Program, eventually

ACCOUNTS: Final = ("vpa-admission-controller", "vpa-recommender", "vpa-updater", "vpa-page")
SERVICES: Final = Resource("", "v1", "services", "Service")
SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_ADDRESSES: Final = "127.96.0.0/16"  # of Services: here they can be listened on
_ELSEWHERE: Final = "192.0.2.1"  # nobody's; EndpointSlices take none of loopback
_HOOK: Final = "helm.sh/hook"
_OURS: Final = "app.kubernetes.io/name=plumbline"
_LONG_SECONDS: Final = 180.0


def account(name: str) -> str:
    """Return how an API server calls an account of ours."""
    return f"system:serviceaccount:{NAMESPACE}:{name}"


@contextmanager
def _control_plane(folder: Path, logs: Logs) -> Iterator[ControlPlane]:
    """A cluster of its own that notes whatever our accounts ask for.

    One at a time: the ports of our processes are the shipped ones, and clusters that run side by
    side give the same addresses to their pods.
    """
    if os.environ.get("KUBECONFIG"):
        pytest.skip("KUBECONFIG names a cluster, and these need one of their own")
    mounted = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can give a program its volumes, and listen where a Service is")
    try:
        built = parts()
    except Unavailable as error:
        pytest.exit(str(error), returncode=1)
    now, accounts = SystemClock().now(), tuple(map(account, ACCOUNTS))
    with Path(tempfile.gettempdir(), "plumbline-installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        plane = ControlPlane(built, folder, now, services=_ADDRESSES, accounts=accounts)
        for program in plane.programs:
            logs.add(program.name, program.log)
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()


class Installed:
    """The processes of a cluster; those of pods that come later are started as well, if told."""

    def __init__(self, plane: ControlPlane, logs: Logs) -> None:
        self.plane = plane
        self.admin = plane.access.api(plane.admin_token)
        self._logs = logs
        self._balancer: Balancer | None = None
        self._programs: dict[str, Program] = {}  # by the pod's name
        self._pods: dict[str, Json] = {}
        self._led_to: dict[str, tuple[int, str]] = {}  # port and address, by the pod's name
        self._wanted = 0  # pods

    def end(self) -> None:
        """End the processes."""
        for program in self._programs.values():
            program.kill()

    def close(self) -> None:
        """End all."""
        self.end()
        if self._balancer is not None:
            self._balancer.stop()
        self.admin.close()

    def apply(self, documents: Sequence[Json]) -> list[str]:
        """Apply documents as `kubectl apply --server-side` does; return all warnings.

        What a chart brings for its own test is not installed.
        """
        documents = [item for item in documents if _HOOK not in notes(item)]
        kind = CUSTOM_RESOURCE_DEFINITIONS.kind
        definitions = [document for document in documents if document["kind"] == kind]
        programs = [item["spec"] for item in documents if item["kind"] == DEPLOYMENTS.kind]
        self._wanted = sum(spec["replicas"] for spec in programs)
        answers = install(self.admin, definitions)
        answers += [self.admin.apply(item) for item in documents if item["kind"] != kind]
        return [warning for answer in answers for warning in answer.warnings]

    def start(self, more: int = 0) -> None:
        """Start the program of each pod; return when the kubelet finds them ready.

        There may be `more` than are wanted, while some are replaced. A pod that is replaced
        meanwhile is not waited for: it is deleted as soon as the one that takes its place is ready,
        and nothing says that somebody sees both ready before.
        """
        count = self._wanted + more

        def pods() -> dict[str, Json]:
            found = self.admin.list(PODS, NAMESPACE, _OURS)
            lasting = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
            running = {_name(pod): pod for pod in lasting if pod["status"].get("podIP")}
            return running if len(running) == len(lasting) == count else {}

        found = eventually(pods, f"{count} pods have an address", seconds=_LONG_SECONDS)
        for name in self._programs.keys() - found.keys():
            self._programs.pop(name).stop(45)
        self._pods = found
        for name in found.keys() - self._programs.keys():
            program = self._programs[name] = _program(self.plane, found[name])
            self._logs.add(name, program.log)
            program.start()
        self._lead_to_webhook()
        eventually(self._are_ready, "the kubelet finds all ready", seconds=_LONG_SECONDS)

    def pod(self, component: str) -> Json:
        """Return the pod of a process."""
        return next(
            pod
            for pod in self._pods.values()
            if pod["metadata"]["labels"]["app.kubernetes.io/component"] == component
        )

    def program(self, component: str) -> Program:
        """Return a process."""
        return self._programs[_name(self.pod(component))]

    def page(self, component: str, path: str, token: str = "") -> str:
        """Return a page of a process, from the port that Prometheus asks."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = self.url(component) + path
        answer = httpx.get(url, headers=headers, timeout=30, verify=trusting())
        return answer.raise_for_status().text

    def url(self, component: str) -> str:
        """Return where a process answers beside its own work, as its probes ask."""
        pod = self.pod(component)
        (container,) = pod["spec"]["containers"]
        scheme = container["readinessProbe"]["httpGet"].get("scheme", "HTTP").lower()
        return f"{scheme}://{pod['status']['podIP']}:{_ports(pod)['prometheus']}"

    def explain(self, review: Json, token: str) -> int:
        """Ask the webhook what would become of an object; return the status of its answer."""
        pod = self.pod("admission-controller")
        url = f"https://{pod['status']['podIP']}:{_ports(pod)['https']}/explain"
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.post(url, json=review, headers=headers, verify=trusting()).status_code

    def _are_ready(self) -> bool:
        for name, program in self._programs.items():
            assert program.exit_code is None, f"{name} ended:\n{program.tail()}"
        return all(self._is_ready(name) or self._is_leaving(name) for name in self._programs)

    def _is_ready(self, name: str) -> bool:
        pod = self.admin.find(PODS, NAMESPACE, name) or {"status": {}}
        found = pod["status"].get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found)

    def _is_leaving(self, name: str) -> bool:
        pod = self.admin.find(PODS, NAMESPACE, name)
        return pod is None or "deletionTimestamp" in pod["metadata"]

    def _lead_to_webhook(self) -> None:
        """Do what a Service does: lead its address to the ports of the pods that it names."""
        found = self.admin.find(SERVICES, NAMESPACE, "vpa-webhook")
        if found is None:
            return
        (port,) = found["spec"]["ports"]
        chosen = found["spec"]["selector"].items()
        behind = {
            name: pod
            for name, pod in self._pods.items()
            if chosen <= pod["metadata"]["labels"].items()
        }
        if self._balancer is None:
            target = next(_ports(pod)[port["targetPort"]] for pod in behind.values())
            self._balancer = Balancer(found["spec"]["clusterIP"], port["port"])
            self._balancer.start()
            self.admin.apply(_slice(target))
        for name in self._led_to.keys() - behind.keys():
            self._balancer.remove(*self._led_to.pop(name))
        for name, pod in behind.items():
            place = _ports(pod)[port["targetPort"]], pod["status"]["podIP"]
            self._led_to[name] = place
            self._balancer.add(place[0], partial(self._is_ready, name), place[1])


def trusting() -> ssl.SSLContext:
    """Return TLS that takes any certificate: those of ours are about the names of Services."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextmanager
def installed_from(documents: Sequence[Json], folder: Path, logs: Logs) -> Iterator[Installed]:
    """What documents install, at work; the API server has nothing to warn of."""
    with _control_plane(folder, logs) as plane:
        found = Installed(plane, logs)
        try:
            assert found.apply(documents) == []
            found.start()
            yield found
        finally:
            found.close()


def _slice(port: int) -> Json:
    """Return what the API server needs to see of a Service before it asks a webhook."""
    found = item_of(
        SLICES,
        "vpa-webhook-tests",
        NAMESPACE,
        addressType="IPv4",
        endpoints=[{"addresses": [_ELSEWHERE], "conditions": {"ready": True}}],
        ports=[{"port": port}],
    )
    found["metadata"]["labels"] = {"kubernetes.io/service-name": "vpa-webhook"}
    return found


def _program(plane: ControlPlane, pod: Json) -> Program:
    """Return the program of a pod's container, with what the kubelet has prepared for it."""
    (container,) = pod["spec"]["containers"]
    volumes = plane.folder / pod["spec"]["nodeName"] / "pods" / pod["metadata"]["uid"] / "volumes"
    mounts = [
        Mount(
            next(volumes.glob(f"*/{each['name']}")),
            each["mountPath"],
            is_writable=not each.get("readOnly", False),
        )
        for each in container["volumeMounts"]
    ]
    server = urlsplit(plane.access.url)
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(REPOSITORY),
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        **{each["name"]: _value(each, pod) for each in container.get("env", ())},
    }
    told = [_expanded(word, environment) for word in container["args"]]
    name, who = _name(pod), pod["spec"]["securityContext"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    command = contained(
        [sys.executable, "-m", "app", *told, *_where(pod)],
        plane.folder / f"{name}.root",
        User(who["runAsUser"], who["runAsGroup"]),
        mounts,
    )
    return Program(name, command, plane.folder / f"{name}.log", environment)


def _where(pod: Json) -> Iterator[str]:
    """Yield the addresses to listen on; what the flags say of ports is what the pod says."""
    ports = _ports(pod)
    # Not written as one of loopback, so that nobody is let in who would not be elsewhere.
    first, second, third, fourth = map(int, pod["status"]["podIP"].split("."))
    host = f"{first}.{second}.{third * 256 + fourth}"
    yield f"--address={host}:{ports['prometheus']}"
    if "https" in ports:
        yield f"--host={host}"


def _ports(pod: Json) -> dict[str, int]:
    (container,) = pod["spec"]["containers"]
    return {each["name"]: each["containerPort"] for each in container["ports"]}


def _value(variable: Json, pod: Json) -> str:
    if "value" in variable:
        return str(variable["value"])
    found: Any = pod
    for key in variable["valueFrom"]["fieldRef"]["fieldPath"].split("."):
        found = found[key]
    return str(found)


def _expanded(word: str, environment: dict[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda match: environment[match[1]], word)


def notes(item: Json) -> Mapping[str, str]:
    """Return the annotations of an object."""
    found: Mapping[str, str] = item["metadata"].get("annotations") or {}
    return found


def _name(pod: Json) -> str:
    name: str = pod["metadata"]["name"]
    return name
