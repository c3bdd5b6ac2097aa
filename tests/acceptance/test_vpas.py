"""VPAs that are written to a real API server: defaults, refusals, warnings."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.model.fields import Json
from app.ports import VPAS
from tests.acceptance.space import Space, boost, mode, policy, selecting, vpa
from tests.acceptance.webhook import Webhook
from tests.cluster.api import Api, Refusal

pytestmark = pytest.mark.usefixtures("webhook")

DENIED = 'admission webhook "vpa.k8s.io" denied the request: '
INVALID = f'{DENIED}VerticalPodAutoscaler.autoscaling.k8s.io "vpa" is invalid: '


def test_default_policy(space: Space) -> None:
    """Who names no update policy gets mode Recreate; who names one keeps it."""
    assert space.vpa("a")["spec"]["updatePolicy"] == {"updateMode": "Recreate"}
    found = space.vpa("b", target="other", **mode("Off"))
    assert found["spec"]["updatePolicy"] == {"updateMode": "Off"}


POLICIES = "spec.resourcePolicy.containerPolicies[0]"
REFUSED: Mapping[str, tuple[Json, str]] = {
    "policy without mode": ({"updatePolicy": {}}, "spec.updatePolicy.updateMode: Required value"),
    "mode": (mode("Sometimes"), 'spec.updatePolicy.updateMode: Unsupported value: "Sometimes"'),
    "gate InPlace": (mode("InPlace"), "spec.updatePolicy.updateMode: Forbidden"),
    "gate boost": (boost(type="Factor", factor=2), "spec.startupBoost: Forbidden"),
    "gate PerVPAConfig": (policy(oomBumpUpRatio="1.5"), f"{POLICIES}.oomBumpUpRatio: Forbidden"),
    "no replicas": (
        {"updatePolicy": {"updateMode": "Off", "minReplicas": 0}},
        "spec.updatePolicy.minReplicas: Invalid value: 0",
    ),
    "maximum below minimum": (
        policy(minAllowed={"cpu": "2"}, maxAllowed={"cpu": "1"}),
        f'{POLICIES}.maxAllowed[cpu]: Invalid value: "1"',
    ),
    "recommenders": (
        {"recommenders": [{"name": "a"}, {"name": "b"}]},
        "spec.recommenders: Too many: 2: must have at most 1 item",
    ),
}


@pytest.mark.parametrize(("spec", "words"), REFUSED.values(), ids=[*REFUSED])
def test_refusals(space: Space, spec: Json, words: str) -> None:
    """A refusal comes from the webhook, as Invalid, with the field; on updates as well."""
    with pytest.raises(Refusal) as caught:
        space.vpa(**spec)
    good = space.vpa()
    with pytest.raises(Refusal) as again:
        space.admin.replace({**good, "spec": {**good["spec"], **spec}})

    assert words in caught.value.message
    assert words in again.value.message
    assert caught.value.message.startswith(INVALID)
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")


def test_all_problems_at_once(space: Space) -> None:
    """Whoever made several mistakes hears of all of them."""
    spec = {
        "updatePolicy": {"updateMode": "Off", "minReplicas": -1},
        **policy(mode="Off", controlledValues="RequestsAndLimits", minAllowed={"memory": "1m"}),
    }
    with pytest.raises(Refusal) as caught:
        space.vpa(**spec)

    for field in ("minReplicas", "controlledValues", "minAllowed[memory]"):
        assert field in caught.value.message


def test_warnings(admin: Api, space: Space) -> None:
    """A deprecated mode is accepted with a warning that reaches the client."""
    item = vpa(**mode("Auto"))
    answer = admin.call("POST", VPAS.path(space.name), item)

    (warning,) = answer.warnings
    assert warning.startswith("spec.updatePolicy: ")
    assert "deprecated" in warning


def test_what_was_stored_before_there_was_a_webhook(
    admin: Api, space: Space, webhook: Webhook
) -> None:
    """It can be reported on, changed and deleted, also if it would be refused today."""

    def store() -> None:
        space.vpa("boosted", target="other", **mode("Auto"), **boost(type="Factor", factor=2))
        for name in ("first", "second"):
            space.vpa(name)

    webhook.while_unregistered(store)
    space.recommend({"hamster": "100m/100Mi"}, "boosted")
    label = {"metadata": {"labels": {"a": "b"}}}
    for name in ("boosted", "first"):
        assert admin.merge(VPAS, space.name, name, label).body["metadata"]["labels"] == {"a": "b"}
    changed = admin.merge(VPAS, space.name, "first", {"spec": mode("Off")}).body
    assert changed["spec"]["updatePolicy"] == {"updateMode": "Off"}
    admin.delete(VPAS, space.name, "boosted")
    assert admin.find(VPAS, space.name, "boosted") is None


def test_two_for_one_target(space: Space) -> None:
    """A second VPA for the same pods is refused; selectors that keep them apart make room."""
    space.vpa("first", **selecting(role="leader"))
    for name, spec in (("all", {}), ("same", selecting(role="leader")), ("x", selecting(a="b"))):
        with pytest.raises(Refusal, match="first") as caught:
            space.vpa(name, **spec)
        assert caught.value.message.startswith(DENIED)
    space.vpa("second", **selecting(role="follower"))
    space.vpa("elsewhere", target="other")
    with pytest.raises(Refusal, match="first"):
        space.admin.merge(VPAS, space.name, "second", {"spec": selecting(role="leader")})


@pytest.mark.parametrize("turn", range(5))
def test_parallel_rivals(space: Space, turn: int) -> None:
    """Of VPAs for one target that are created at the same moment, one remains."""
    names = [f"rival-{number}-{turn}" for number in range(4)]

    def create(name: str) -> str:
        try:
            space.vpa(name)
        except Refusal as refusal:
            return refusal.message.removesuffix(refusal.message.removeprefix(DENIED))
        return "created"

    with ThreadPoolExecutor(len(names)) as pool:
        outcomes = sorted(pool.map(create, names))

    assert outcomes == [DENIED, DENIED, DENIED, "created"]


def test_dry_run_leaves_nothing(space: Space) -> None:
    """A dry run is judged, and claims no pods."""
    space.create(vpa("tried"), dry_run=True)
    space.vpa("real")

    with pytest.raises(Refusal, match="real"):
        space.create(vpa("late"), dry_run=True)
