"""Webhook down: no pod is evicted, because the next pod would come back as it was."""

from __future__ import annotations

from collections.abc import Callable

from app.admission.certification import Certification, in_cluster
from app.ports import LEASES, MUTATING_WEBHOOKS, PODS, Ref
from app.run.embedded_webhook import EmbeddedWebhook
from app.run.simulated import SimulatedRuntime
from app.runtime.clock import SystemClock
from tests.flows.autoscaler import (
    MINUTE,
    NAMESPACE,
    Autoscaler,
    autoscaler,
    listeners,
    process_settings,
    vpa,
    workload,
)
from tests.waiting import eventually

LOAD = "noise: 0, cpu: constant 400m, memory: constant 300Mi"


def go_down(cluster: Autoscaler) -> None:
    """End the webhook; its registration and its Lease stay behind."""
    cluster.world.webhook.stop()


def come_back(cluster: Autoscaler) -> None:
    """Start another one where the first one was."""
    world, settings = cluster.world, process_settings().admission

    def certify(problem: Callable[[], str]) -> Certification:
        return in_cluster(settings, world.sandbox.cluster, SystemClock(), problem)

    world.webhook = EmbeddedWebhook(
        settings, SimulatedRuntime(world.sandbox), certify, listeners(world.port), beats=True
    )
    world.await_webhook()


def test_no_pod_is_evicted_until_it_is_back() -> None:
    """From a minute after the last beat evictions wait, and say for what, until the next beat."""
    with autoscaler(vpa(), workload(load=LOAD)) as cluster:
        cluster.run(5)
        go_down(cluster)
        cluster.run(15 * MINUTE)

        assert cluster.events("EvictedByVPA") == []
        assert cluster.requests() == ["100m", "100m"]
        assert cluster.reasons("web") <= {"LeaseStale"}

        come_back(cluster)
        cluster.run(10 * MINUTE)
        assert len(cluster.events("EvictedByVPA")) == 2
        assert set(cluster.requests()) == {cluster.target("web")["cpu"]}


def test_a_registration_that_is_put_back_is_told() -> None:
    """The Lease tells the updater that pods may have been created without the webhook."""
    with autoscaler() as cluster:
        objects = cluster.world.sandbox.cluster
        objects.delete(Ref(MUTATING_WEBHOOKS, "", "vpa-webhook-config"))
        assert eventually(lambda: not cluster.world.webhook.reachable())
        cluster.run(15)
        spec = objects.get(Ref(LEASES, "kube-system", "vpa-admission-controller"))["spec"]
        assert "acquireTime" in spec


def test_pods_are_created_all_the_same() -> None:
    """Whoever needs a pod gets it, as its controller made it."""
    with autoscaler(vpa(mode="Initial"), workload(load=LOAD, replicas=1)) as cluster:
        cluster.run(5 * MINUTE)
        go_down(cluster)
        former = cluster.pods()[0]["metadata"]["name"]
        cluster.world.sandbox.cluster.delete(Ref(PODS, NAMESPACE, former))
        cluster.run(MINUTE)

        assert [pod["metadata"]["name"] for pod in cluster.pods()] != [former]
        assert cluster.requests() == ["100m"]
