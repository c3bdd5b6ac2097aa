"""VPA validation: what is wrong with a VPA is told, all of it, to whoever writes it."""

from __future__ import annotations

import pytest

from app.model.errors import ClusterError
from app.ports import VPAS, Json, PatchKind, Ref
from tests.flows.autoscaler import NAMESPACE, Autoscaler, autoscaler, vpa

WRONG = vpa("wrong", target="Deployment/other", mode="Sometimes", startupBoost={"cpu": {}})


def refusal(cluster: Autoscaler, item: Json) -> str:
    """Return why an object was not taken, empty if it was."""
    found = cluster.world.sandbox.apply(item)
    return found[0].why if found else ""


def test_all_mistakes_are_told_at_once() -> None:
    """A refusal names every field that is wrong, and nothing is stored."""
    with autoscaler() as cluster:
        why = refusal(cluster, WRONG)

        assert "spec.updatePolicy.updateMode" in why
        assert "spec.startupBoost" in why
        assert cluster.world.sandbox.cluster.list(VPAS, NAMESPACE).items == []
        assert cluster.world.webhook.reviewed().vpas_refused == 1


def test_two_vpas_cannot_claim_the_same_pods() -> None:
    """The second VPA of a target is refused, unless selectors tell the pods of both apart."""
    with autoscaler(vpa("one")) as cluster:
        why = refusal(cluster, vpa("two"))
        selectors = [{"matchLabels": {"role": role}} for role in ("leader", "follower")]
        apart = [
            refusal(cluster, vpa(f"apart-{number}", target="StatefulSet/db", selector=selector))
            for number, selector in enumerate(selectors)
        ]

        assert 'VerticalPodAutoscaler "one" takes all pods of Deployment/web already' in why
        assert apart == ["", ""]


def test_a_change_is_checked_as_well() -> None:
    """An update that would make a VPA wrong is refused, and the object stays as it was."""
    with autoscaler(vpa()) as cluster:
        body = {"spec": {"updatePolicy": {"minReplicas": 0}}}
        with pytest.raises(ClusterError, match=r"spec\.updatePolicy\.minReplicas"):
            cluster.world.sandbox.cluster.patch(
                Ref(VPAS, NAMESPACE, "web"), body, kind=PatchKind.MERGE
            )

        found = cluster.world.sandbox.cluster.get(Ref(VPAS, NAMESPACE, "web"))
        assert found["spec"]["updatePolicy"] == {"updateMode": "Recreate"}
