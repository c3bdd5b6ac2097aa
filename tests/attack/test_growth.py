"""What is seen once does not stay in memory: many distinct pods, owners, VPAs and containers.

Strategy: a process watches a cluster in which nothing stays for long and nothing is like anything
before. Its memory at a third is compared with that at the end.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Final

import httpx
import orjson
import pytest

from app.admission.certificate_stores import made_in
from app.ports import CHECKPOINTS, JOBS, POD_METRICS, PODS, STATEFUL_SETS, VPAS, Json, Resource
from app.runtime.clock import SystemClock
from tests import make
from tests.attack.processes import SERVED, Attacked, process, share
from tests.cluster.programs import free_port
from tests.kube.api_server import ApiServer
from tests.kube.api_server import serving as api_serving
from tests.kube.connecting import kubeconfig, write
from tests.waiting import eventually

TIMES: Final = share(450, 10_000)
MOST_MB: Final = 20.0  # at the end, beside what there was at a third
OWNERS: Final = share(300, 40)  # of a pod; few of them are large, many are small
POLICIES: Final = share(300, 60)  # of a VPA
BATCH: Final = 50  # pods that are there at a time
AT_ONCE: Final = 10  # reviews, because look-ups of owners wait
SETTLE_SECONDS: Final = share(2, 10)
LONG: Final = "x" * 40

CONTROLLER: Final = make.owner_json("StatefulSet/web")


class Crowd:
    """A namespace in which everything is new."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._there: list[tuple[Resource, str]] = []
        server.store(STATEFUL_SETS, make.workload_json(replicas=BATCH))
        server.store(VPAS, make.vpa_json(cpu="250m", memory="200Mi", mode="Recreate"))

    def pod(self, number: int) -> Json:
        """Return a pod that has names, owners and a container that none had before."""
        owners = [
            make.owner_json(f"Job/{number}-{index}-{LONG}", controller=False)
            for index in range(OWNERS)
        ]
        app, other = (
            make.container_json(name, cpu="100m", memory="100Mi", image="web")
            for name in ("app", f"box-{number}-{LONG}")
        )
        references = {"ownerReferences": [*owners, CONTROLLER]}
        return make.pod_json(app, other, name=f"web-{number}-{LONG}", metadata=references)

    def play(self, number: int) -> None:
        """Let a pod, an owner and a version of a VPA come; those before them go with the batch."""
        if number % BATCH == 0:
            self.clear()
        pod = make.running_json(self.pod(number))
        owner = make.workload_json(f"Job/job-{number}-{LONG}", replicas=None)
        policies = [
            make.policy_json(f"{number}-{index}-{LONG}", max_allowed=make.amounts("1", "1Gi"))
            for index in range(POLICIES)
        ]
        vpa = make.vpa_json(mode="Recreate", cpu=f"{250 + number % 250}m", policies=policies)
        usage: Json = {
            "apiVersion": POD_METRICS.api_version,
            "kind": POD_METRICS.kind,
            "metadata": {"name": pod["metadata"]["name"], "namespace": "default"},
            "timestamp": make.time(timedelta(0)),
            "window": "15s",
            "containers": [
                {"name": one["name"], "usage": {"cpu": "50m", "memory": "60Mi"}}
                for one in pod["spec"]["containers"]
            ],
        }
        for resource, item in ((PODS, pod), (JOBS, owner), (VPAS, vpa), (POD_METRICS, usage)):
            self.server.store(resource, item)
            self._there.append((resource, item["metadata"]["name"]))

    def clear(self) -> None:
        """Let all go but the workload and its VPA; forget it here too, once it was told."""
        self.server.wait_for(lambda: not any(watch.orders for watch in self.server.watches))
        for resource, name in self._there:
            if resource is not VPAS:
                with suppress(KeyError):  # it was evicted
                    self.server.remove(resource, name)
        self._there.clear()
        self.server.compact()
        self.server.requests.clear()


@contextmanager
def reviewing(crowd: Crowd, port: int) -> Iterator[Callable[[int], None]]:
    """Let a webhook see each pod as well."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers, url = {"content-type": "application/json"}, f"https://127.0.0.1:{port}/mutate"

    with (
        httpx.Client(verify=context, timeout=20, headers=headers) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        open_ones: list[Future[httpx.Response]] = []

        def play(number: int) -> None:
            crowd.play(number)
            for pod in (crowd.pod(number), make.pod_json(owner=f"Job/other-{number}-{LONG}")):
                body = orjson.dumps(make.review_json(pod))
                open_ones.append(pool.submit(client.post, url, content=body))
            if len(open_ones) >= AT_ONCE:
                for one in open_ones:
                    one.result().raise_for_status()
                open_ones.clear()

        yield play


@contextmanager
def crowded(verb: str, folder: Path) -> Iterator[tuple[Attacked, Callable[[int], None]]]:
    """Start a process before an API server; return it, and what plays one time."""
    with api_serving(*SERVED, CHECKPOINTS, POD_METRICS) as server:
        crowd, port = Crowd(server), free_port()
        flags = [
            f"--kubeconfig={write(folder / 'config', kubeconfig(server.url))}", "--v=0",
            "--kube-api-qps=10000", "--kube-api-burst=10000",
        ]  # fmt: skip
        playing: AbstractContextManager[Callable[[int], None]] = nullcontext(crowd.play)
        if verb == "admission":
            playing = reviewing(crowd, port)
            paths = made_in(folder / "certs", ("localhost",), SystemClock().now(), 1)
            flags += [
                f"--port={port}", "--host=127.0.0.1", "--register-webhook=false",
                f"--tls-cert-file={paths.cert}", f"--tls-private-key={paths.key}",
                f"--client-ca-file={paths.ca}",
            ]  # fmt: skip
        else:
            flags.append(f"--{verb}-interval=1s")
        if verb == "updater":
            flags.append("--use-admission-controller-status=false")
        with process(verb, folder, *flags, tls_port=port) as found, playing as play:
            yield found, play


def settled_mb(at: Attacked) -> float:
    """Return the memory in use, the least of some seconds in which nothing happens."""
    until, found = monotonic() + SETTLE_SECONDS, [at.memory_mb()]

    def is_over() -> bool:
        found.append(at.memory_mb())
        return monotonic() > until

    assert eventually(is_over)
    return min(found)


@pytest.mark.parametrize("verb", ["admission", "recommender", "updater"])
def test_memory_at_the_end_is_that_at_a_third(verb: str, tmp_path: Path) -> None:
    """However much was seen, what is gone takes no memory."""
    with crowded(verb, tmp_path) as (at, play):
        for number in range(TIMES // 3):
            play(number)
        third = settled_mb(at)
        for number in range(TIMES // 3, TIMES):
            play(number)
        end = settled_mb(at)

    assert end - third < MOST_MB, f"{third:.0f} MB at a third, {end:.0f} MB at the end"
