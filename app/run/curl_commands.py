"""Commands to be pasted while everything runs, and the files that they need."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

import orjson

from app.model.errors import ClusterError
from app.ports import PODS, VPAS, WORKLOADS, Cluster, Json, Ref
from app.run.flags import Ports

_MOST_TRIED: Final = 50  # VPAs
_CONTENT: Final = "Content-Type: application/json\n"
# Shows what a webhook answered: the operations of its patch, or why it refused.
_SHOW: Final = """\
import base64, json, sys

response = json.load(sys.stdin)["response"]
if "patch" in response:
    for operation in json.loads(base64.b64decode(response["patch"])):
        print(json.dumps(operation))
else:
    print(response.get("status", {}).get("message", "allowed, as it is"))
"""


class CurlCommands:
    """Writes the files into a folder, and says what to paste."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        self._folder = folder
        self._ports = ports

    def prepare(self, ca_pem: str) -> None:
        """Write what is needed from the start."""
        vpa = files("app.run.demo").joinpath("vpa.json").read_bytes()
        for name, text in (
            ("ca.pem", ca_pem),
            ("json", _CONTENT),
            ("show.py", _SHOW),
            ("vpa.json", orjson.dumps(orjson.loads(vpa)).decode()),
        ):
            self._folder.joinpath(name).write_text(text)

    def lines(self, cluster: Cluster, namespace: str = "") -> list[str]:
        """Return the commands, in lines that a shell takes as they are.

        As long as no VPA has pods there is nothing to be created, and nothing to be read of it.
        """
        ports, folder = self._ports, self._folder
        post = f"curl -s --cacert {_quoted(folder / 'ca.pem')} -H @{_quoted(folder / 'json')}"
        webhook = f"https://{ports.host}:{ports.port}"
        show = f"python3 {_quoted(folder / 'show.py')}"
        lines: list[str] = []
        subject = _subject(cluster, namespace)
        if subject is not None:
            vpa, review = subject
            folder.joinpath("pod.json").write_bytes(orjson.dumps(review))
            metadata = vpa["metadata"]
            path = f"v1/namespaces/{metadata['namespace']}/recommendations/{metadata['name']}"
            lines += [
                f"# what a new pod gets of VPA {metadata['namespace']}/{metadata['name']}",
                f"{post} \\",
                f"  -d @{_quoted(folder / 'pod.json')} {webhook}/mutate | {show}",
                "# the same, and why",
                f"{post} \\",
                f"  -d @{_quoted(folder / 'pod.json')} {webhook}/explain",
                "# what is recommended, and how that came about",
                f"curl -s '{_http(ports.host, ports.recommender)}/{path}?explain=true'",
            ]
        lines += [
            "# what a VPA with mistakes is told",
            f"{post} \\",
            f"  -d @{_quoted(folder / 'vpa.json')} {webhook}/validate | {show}",
            "# what was decided about pods, and why",
            f"curl -s '{_http(ports.host, ports.updater)}/v1/decisions?limit=3'",
        ]
        return lines


def _subject(cluster: Cluster, namespace: str) -> tuple[Json, Json] | None:
    """Return a VPA, and the review of another pod like the first that its target has."""
    for vpa in cluster.list(VPAS, namespace, limit=_MOST_TRIED).items:
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


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _http(host: str, port: int) -> str:
    return f"http://{host}:{port}"
