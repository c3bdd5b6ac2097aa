"""The webhook under load, beside a plain TLS echo on the same server in the same run.

Strategy: real TLS, keep-alive, a well-known load generator in a process of its own. What is
printed first is ratios: they hold on noisy machines where rates do not, and CPU time for each
request even beside other work. Reviews are of about 2.8 KB and differ as those of many rollouts
do, so that no cache of one answer shines.

    python -m bench.admission [--seconds 8] [--connections 32] [--workers 2]

Needs `wrk` (Debian: apt-get install wrk).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import orjson

NAMESPACE = "load"
REVIEWS = 1000
WORKLOADS = 200


class Server(NamedTuple):
    """What is loaded."""

    port: int
    session: int  # of all its processes


class Load(NamedTuple):
    """What a load generator saw."""

    rate: float
    p50_ms: float
    p99_ms: float
    failed: int
    cpu_us: float  # of the server, for each request


def objects(vpas_here: int, vpas_elsewhere: int, owners: int) -> Iterator[dict[str, object]]:
    """Yield VPAs in the namespace and elsewhere, and owners for all of them."""
    for index in range(max(vpas_here, 1)):
        yield from _workload(NAMESPACE, f"app-{index}", with_vpa=index < vpas_here)
    for index in range(vpas_here, WORKLOADS):
        yield from _workload(NAMESPACE, f"app-{index}", with_vpa=False)
    for index in range(vpas_elsewhere):
        yield from _workload(f"ns-{index % 100}", f"app-{index}", with_vpa=True)
    for index in range(owners):
        name = f"old-{index}"
        yield from _workload(f"ns-{index % 100}", name, with_vpa=False, with_deployment=False)


def _workload(
    namespace: str, name: str, *, with_vpa: bool, with_deployment: bool = True
) -> Iterator[dict[str, object]]:
    selector = {"matchLabels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}}
    if with_deployment:
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace, "uid": f"d-{name}"},
            "spec": {"replicas": 3, "selector": selector, "template": template},
        }
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"d-{name}"}
    yield {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": _replica_set(name),
            "namespace": namespace,
            "uid": f"r-{name}",
            "ownerReferences": [owner | {"controller": True}] if with_deployment else [],
        },
        "spec": {"replicas": 3, "selector": selector, "template": template},
    }
    if with_vpa:
        yield _vpa(namespace, name)


def _replica_set(name: str) -> str:
    return f"{name}-{crc32(name.encode()):x}"


def _vpa(namespace: str, name: str) -> dict[str, object]:
    def amounts(cpu: str, memory: str) -> dict[str, str]:
        return {"cpu": cpu, "memory": memory}

    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"v-{name}",
            "creationTimestamp": "2026-01-05T10:00:00Z",
        },
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": "Recreate"},
            "resourcePolicy": {
                "containerPolicies": [
                    {"containerName": "*", "maxAllowed": amounts("4", "8Gi")},
                ]
            },
        },
        "status": {
            "recommendation": {
                "containerRecommendations": [
                    {
                        "containerName": "server",
                        "target": amounts("350m", "629145600"),
                        "lowerBound": amounts("200m", "400Mi"),
                        "upperBound": amounts("700m", "900Mi"),
                        "uncappedTarget": amounts("350m", "629145600"),
                    }
                ]
            }
        },
    }


def review(index: int, workloads: int) -> dict[str, object]:
    """Return a review of a pod as a ReplicaSet makes it, of about 2.8 KB."""
    name = f"app-{index % workloads}"
    replica_set = _replica_set(name)
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    mounts = [
        {
            "name": "kube-api-access",
            "readOnly": True,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        }
    ]
    environment = [{"name": f"SETTING_{n}", "value": f"value-{index}-{n}"} for n in range(12)]
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": f"705ab4f5-6393-11e8-b7cc-{index:012d}",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": NAMESPACE,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
                "uid": "a7e0ab33-5f29-11e8-8a3c-36e6bb280816",
                "groups": ["system:serviceaccounts", "system:authenticated"],
            },
            "object": {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {
                    "generateName": f"{replica_set}-",
                    "creationTimestamp": None,
                    "labels": {"app": name, "pod-template-hash": replica_set.rpartition("-")[2]},
                    "annotations": {"prometheus.io/scrape": "true"},
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": "ReplicaSet",
                            "name": replica_set,
                            "uid": f"r-{name}",
                            "controller": True,
                            "blockOwnerDeletion": True,
                        }
                    ],
                },
                "spec": {
                    "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420}}],
                    "containers": [
                        {
                            "name": "server",
                            "image": f"registry.example.com/{name}:v1.{index}",
                            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                            "env": environment,
                            "resources": {
                                "limits": {"cpu": "500m", "memory": "512Mi"},
                                "requests": {"cpu": f"{100 + index % 50}m", "memory": "256Mi"},
                            },
                            "volumeMounts": mounts,
                            "livenessProbe": probe,
                            "readinessProbe": probe,
                            "terminationMessagePath": "/dev/termination-log",
                            "imagePullPolicy": "IfNotPresent",
                        }
                    ],
                    "restartPolicy": "Always",
                    "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst",
                    "serviceAccountName": "default",
                    "securityContext": {},
                    "schedulerName": "default-scheduler",
                    "tolerations": [
                        {
                            "key": f"node.kubernetes.io/{word}",
                            "operator": "Exists",
                            "effect": "NoExecute",
                            "tolerationSeconds": 300,
                        }
                        for word in ("not-ready", "unreachable")
                    ],
                    "priority": 0,
                    "enableServiceLinks": True,
                },
                "status": {},
            },
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


_LUA = """
local bodies = {{}}
for line in io.lines("{path}") do bodies[#bodies + 1] = line end
local headers = {{["Content-Type"] = "application/json"}}
function init(args) math.randomseed(os.time() + tonumber(tostring({{}}):sub(8), 16) % 1000) end
function request()
  return wrk.format("POST", "/mutate?timeout=5s", headers, bodies[math.random(#bodies)])
end
"""
# Each connection rests between two requests, on average so long that the rate comes out.
_RESTS = """
function delay() return math.random(0, {most_ms}) end
"""


def wrk(
    folder: Path, at: Server, bodies: Path, seconds: int, connections: int, rate: float = 0
) -> Load:
    """Load a server as fast as it answers, or at about a rate."""
    script = folder / "post.lua"
    rests = _RESTS.format(most_ms=round(2000 * connections / rate)) if rate else ""
    script.write_text(_LUA.format(path=bodies) + rests)
    command = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(script)]
    before = _cpu_seconds(at.session)
    done = subprocess.run(
        [*command, f"https://127.0.0.1:{at.port}"], capture_output=True, text=True, check=True
    )
    spent = _cpu_seconds(at.session) - before
    text = done.stdout
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return Load(
        rate=float(_found(r"Requests/sec:\s+([\d.]+)", text)),
        p50_ms=_milliseconds(_found(r"\n +50%\s+(\S+)", text)),
        p99_ms=_milliseconds(_found(r"\n +99%\s+(\S+)", text)),
        failed=int(bad[1]) if bad else 0,
        cpu_us=spent * 1e6 / float(_found(r"(\d+) requests in", text)),
    )


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"the load generator said something unexpected:\n{text}")
    return match[1]


def _milliseconds(text: str) -> float:
    for unit, factor in (("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise SystemExit(f"not a duration: {text}")


@contextmanager
def webhook(folder: Path, found: Path, workers: int) -> Iterator[Server]:
    """Run the webhook on files."""
    port, health = _free_port(), _free_port()
    command = [
        sys.executable, "-m", "app", "admission", "--objects", str(found), f"--port={port}",
        f"--address=127.0.0.1:{health}", f"--workers={workers}", "--host=127.0.0.1",
        f"--certs-dir={folder / 'certs'}",
    ]  # fmt: skip
    with _running(command) as process:
        _wait_for(f"http://127.0.0.1:{health}/readyz")
        yield Server(port, process.pid)


@contextmanager
def echo(folder: Path, workers: int, size: int) -> Iterator[Server]:
    """Run a plain uvicorn that answers each POST with so many bytes, over the same TLS."""
    port = _free_port()
    command = [
        sys.executable, "-m", "uvicorn", "bench.echo:app", "--host=127.0.0.1", f"--port={port}",
        f"--workers={workers}", "--http=httptools", "--loop=uvloop", "--lifespan=off",
        "--no-access-log", "--log-level=error", f"--ssl-certfile={folder / 'certs/serverCert.pem'}",
        f"--ssl-keyfile={folder / 'certs/serverKey.pem'}",
    ]  # fmt: skip
    with _running(command, PLUMBLINE_ECHO_BYTES=str(size)) as process:
        _wait_for_port(port)
        yield Server(port, process.pid)


@contextmanager
def _running(command: list[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # the second one: now
            os.killpg(process.pid, number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(url: str, seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"{url} did not become ready")


def _wait_for_port(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return


def _rss_mb(session: int) -> float:
    """Return the memory of the largest process of a session."""
    statuses = (path / "status" for path in _processes(session))
    sizes = (int(_found(r"VmRSS:\s+(\d+)", path.read_text())) / 1024 for path in statuses)
    return max(sizes, default=0.0)


def _cpu_seconds(session: int) -> float:
    """Return what all processes of a session have spent."""
    stats = ((path / "stat").read_text().rpartition(")")[2].split() for path in _processes(session))
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def _processes(session: int) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if os.getsid(int(path.name)) == session:
                found.append(path)
    return found


def _written(path: Path, items: Iterator[dict[str, object]]) -> Path:
    with path.open("wb") as file:
        for item in items:
            file.write(orjson.dumps(item) + b"\n")
    return path


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not shutil.which("wrk"):
        raise SystemExit("wrk is missing: install it with 'sudo apt-get install wrk'")
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), options)


SCENES = {"1 VPA": (1, 0, 0), "100 VPAs": (100, 0, 0), "2,000 VPAs": (2000, 18_000, 10_000)}


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Run all scenes by turns and print rates as ratios of the echo's."""
    random.seed(1)
    subprocess.run(
        [sys.executable, "-m", "app", "certs", "--certs-dir", str(folder / "certs")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    found: dict[str, list[Load]] = {}
    memory: dict[str, float] = {}
    bodies = {}
    files = {}
    for scene, counts in SCENES.items():
        here = min(counts[0], WORKLOADS)
        files[scene] = _written(folder / f"{counts[0]}.jsonl", objects(*counts))
        reviews = (review(index, here) for index in range(REVIEWS))
        bodies[scene] = _written(folder / f"{counts[0]}-reviews.jsonl", reviews)
    size = len(orjson.dumps(review(0, 1)))
    print(f"reviews of {size} bytes, {options.connections} connections, {options.workers} workers")
    for turn in range(options.rounds):
        with echo(folder, options.workers, 1100) as at:
            load = wrk(folder, at, bodies["1 VPA"], options.seconds, options.connections)
            found.setdefault("TLS echo", []).append(load)
        for scene in SCENES:
            with webhook(folder, files[scene], options.workers) as at:
                load = wrk(folder, at, bodies[scene], options.seconds, options.connections)
                memory[scene] = _rss_mb(at.session)
                found.setdefault(scene, []).append(load)
        print(f"round {turn + 1} of {options.rounds} done", flush=True)
    _table(found, memory)
    most = _median(found["2,000 VPAs"]).rate
    _at_half_load(folder, options, most, files["2,000 VPAs"], bodies["2,000 VPAs"])


def _median(loads: list[Load]) -> Load:
    return sorted(loads)[len(loads) // 2]


def _table(found: dict[str, list[Load]], memory: dict[str, float]) -> None:
    base = _median(found["TLS echo"]).rate
    head = f"{'rate/s':>10}{'of echo':>9}{'cpu us':>8}{'p50 ms':>9}{'p99 ms':>9}"
    print(f"\n{'':14}{head}{'failed':>8}{'MB':>7}")
    for scene, loads in found.items():
        load = _median(loads)
        row = f"{load.rate:10.0f}{load.rate / base:9.2f}{load.cpu_us:8.1f}"
        row += f"{load.p50_ms:9.2f}{load.p99_ms:9.2f}"
        print(f"{scene:14}{row}{load.failed:8}{memory.get(scene, 0):7.0f}")
    many, one = _median(found["2,000 VPAs"]).rate, _median(found["1 VPA"]).rate
    print(f"\n2,000 VPAs beside 1 VPA: {many / one:.2f}")


def _at_half_load(
    folder: Path, options: argparse.Namespace, most: float, file: Path, bodies: Path
) -> None:
    with webhook(folder, file, options.workers) as at:
        wrk(folder, at, bodies, 2, options.connections)  # what is read first is slower
        load = wrk(folder, at, bodies, options.seconds, options.connections, most / 2)
    print(
        f"at {load.rate:.0f}/s, about half of that: p50 {load.p50_ms:.2f} ms, "
        f"p99 {load.p99_ms:.2f} ms, failed {load.failed}"
    )


if __name__ == "__main__":
    main()
