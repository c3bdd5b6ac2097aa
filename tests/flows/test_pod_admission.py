"""Pod admission, from usage to the next pod: what was recommended is what a new pod asks for."""

from __future__ import annotations

from app.model.pods import OBSERVED_ANNOTATION, UPDATES_ANNOTATION
from app.ports import DEPLOYMENTS, PatchKind, Ref
from tests.flows.autoscaler import MINUTE, NAMESPACE, Autoscaler, autoscaler, vpa, workload

LOAD = "noise: 0, cpu: constant 400m, memory: constant 300Mi"


def scale(cluster: Autoscaler, replicas: int) -> None:
    """Let a Deployment have so many pods."""
    body = {"spec": {"replicas": replicas}}
    cluster.world.sandbox.cluster.patch(
        Ref(DEPLOYMENTS, NAMESPACE, "web", subresource="scale"), body, kind=PatchKind.MERGE
    )
    cluster.run(5)


def test_a_new_pod_gets_what_is_recommended() -> None:
    """Mode Initial sizes pods as they are created, tells so on the pod, and touches no other."""
    with autoscaler(vpa(mode="Initial"), workload(load=LOAD, replicas=1)) as cluster:
        cluster.run(5 * MINUTE)
        first = cluster.pods()[0]["metadata"]["name"]
        scale(cluster, 2)
        requests = {
            pod["metadata"]["name"]: pod["spec"]["containers"][0]["resources"]["requests"]
            for pod in cluster.pods()
        }
        target = cluster.target("web")
        new = next(pod for pod in cluster.pods() if pod["metadata"]["name"] != first)

        assert requests.pop(first) == {"cpu": "100m", "memory": "100Mi"}
        assert list(requests.values()) == [target]
        assert new["metadata"]["annotations"][OBSERVED_ANNOTATION] == "app"
        assert new["metadata"]["annotations"][UPDATES_ANNOTATION].startswith(
            "Pod resources updated by web: "
        )
