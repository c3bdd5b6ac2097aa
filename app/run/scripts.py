"""Scripts to be tried while everything runs, and the files that they need.

Strategy: each is a few lines of shell around curl that people can read, and its name says what it
shows; a small program turns the JSON of the answer into lines.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

import orjson

from app.model.errors import ClusterError
from app.ports import PODS, VPAS, WORKLOADS, Cluster, Json, Ref
from app.run.flags import Ports

_MOST_TRIED: Final = 50  # VPAs
_CONTENT: Final = "Content-Type: application/json\n"
# Shows an answer: the operations of a patch, why something was refused, an explanation, decisions.
_SHOW: Final = """\
import base64, json, sys

text = sys.stdin.read()
if not text:
    sys.exit("no answer; has `plumbline run` ended?")
answer = json.loads(text)
if "decisions" in answer:
    for one in answer["decisions"]:
        print(f"{one['pod']:26} {one['action']:7} {one['reason']:16} {one['message']}")
elif "explanation" in answer:
    print(json.dumps(answer["explanation"], indent=2))
elif "patch" in answer["response"]:
    for operation in json.loads(base64.b64decode(answer["response"]["patch"])):
        print(json.dumps(operation))
else:
    print(answer["response"].get("status", {}).get("message", "allowed, as it is"))
"""


class Scripts:
    """Writes the scripts into a folder."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        self._folder = folder
        self._ports = ports

    def write(self, ca_pem: str, cluster: Cluster, namespace: str = "") -> list[str]:
        """Write all that have something to show; return their names.

        As long as no VPA has pods there is none to be created.
        """
        vpa = files("app.run.demo").joinpath("vpa.json").read_bytes()
        for name, text in (
            ("ca.pem", ca_pem),
            ("json", _CONTENT),
            ("show.py", _SHOW),
            ("vpa.json", orjson.dumps(orjson.loads(vpa)).decode()),
        ):
            self._folder.joinpath(name).write_text(text)
        scripts = dict(self._scripts(_subject(cluster, namespace)))
        for name, text in scripts.items():
            self._folder.joinpath(name).write_text(text)
        return list(scripts)

    def _scripts(self, subject: tuple[Json, Json] | None) -> Iterator[tuple[str, str]]:
        webhook = f"https://{self._ports.host}:{self._ports.port}"
        if subject is not None:
            vpa, review = subject
            self._folder.joinpath("pod.json").write_bytes(orjson.dumps(review))
            of = f"of VPA {vpa['metadata']['namespace']}/{vpa['metadata']['name']}"
            post = self._posted("pod.json")
            yield "1-new-pod", self._script(f"What a new pod {of} gets", f"{post}{webhook}/mutate")
            yield "2-why", self._script(f"Why a new pod {of} gets that", f"{post}{webhook}/explain")
        bad = f"{self._posted('vpa.json')}{webhook}/validate"
        yield "3-bad-vpa", self._script("Why a VPA with mistakes is refused", bad)
        decisions = f"http://{self._ports.host}:{self._ports.updater}/v1/decisions"
        title = "What was decided about each pod, and why"
        yield "4-decisions", self._script(title, decisions)

    def _posted(self, name: str) -> str:
        """Return how curl sends a file to the webhook."""
        ca, content, body = (self._quoted(one) for one in ("ca.pem", "json", name))
        return f"--cacert {ca} -H @{content} -d @{body} "

    def _script(self, title: str, request: str) -> str:
        show = f"{shlex.quote(sys.executable)} {self._quoted('show.py')}"
        return f"# {title}.\ncurl -s {request} | {show}\n"

    def _quoted(self, name: str) -> str:
        return shlex.quote(str(self._folder / name))


def _subject(cluster: Cluster, namespace: str) -> tuple[Json, Json] | None:
    """Return a VPA, if possible with a startup boost, and the review of another of its pods."""
    vpas = cluster.list(VPAS, namespace, limit=_MOST_TRIED).items
    for vpa in sorted(vpas, key=lambda one: "startupBoost" not in one["spec"]):
        try:
            pod = _pod_of(cluster, vpa)
            owner = next(one for one in pod["metadata"]["ownerReferences"] if one["controller"])
            controller = _controller(cluster, pod["metadata"]["namespace"], owner)
        except (ClusterError, LookupError, StopIteration):
            continue  # a target without pods, or of a kind that is not built in
        return vpa, _created(pod, owner, controller)
    return None


def _pod_of(cluster: Cluster, vpa: Json) -> Json:
    """Return a pod of a VPA's target; raises `LookupError` if it has none."""
    namespace = vpa["metadata"]["namespace"]
    target = _controller(cluster, namespace, vpa["spec"]["targetRef"])
    labels: Mapping[str, str] = target["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return cluster.list(PODS, namespace, label_selector=selector, limit=1).items[0]


def _controller(cluster: Cluster, namespace: str, reference: Json) -> Json:
    for resource in WORKLOADS:
        if resource.kind == reference["kind"]:
            return cluster.get(Ref(resource, namespace, reference["name"]))
    raise LookupError(reference["kind"])


def _created(pod: Json, owner: Json, controller: Json) -> Json:
    """Return the review of a pod as its controller would create it."""
    template: Mapping[str, Json] = controller["spec"]["template"]
    annotations = template["metadata"].get("annotations") or {}
    namespace = pod["metadata"]["namespace"]
    item = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner['name']}-",
            "namespace": namespace,
            "labels": pod["metadata"].get("labels") or {},
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "namespace": namespace,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": item,
        },
    }
