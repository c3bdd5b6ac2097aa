"""The webhook goes and comes back: what was evicted for nothing is tried again at once."""

from __future__ import annotations

from datetime import datetime

import pytest

from app.admission.heartbeat import Heartbeat, HeartbeatRules
from app.admission.registrar import Registrar
from app.kube.manifests.documents import Registration, webhook_configurations
from app.ports import MUTATING_WEBHOOKS, Ref
from app.updater.core.decisions import Reason
from tests.updater.stage import LEASE, Stage, staged

QUICK = "--updater-interval=5s"


def failing(stage: Stage, *, beats: bool) -> Stage:
    """Return the stage after the webhook was away for a while, and a pod came back unchanged."""
    stage.webhook_works = False
    stage.webhook_beats = beats
    stage.restart()
    stage.run(20)
    assert (len(stage.evicted()), stage.requests()) == (1, ["100m"] * 4)
    assert str(Reason.RECREATED_WITHOUT_CHANGE) in stage.reasons()
    return stage


def test_all_are_sized_soon_after_a_webhook_is_back() -> None:
    """The pause that began just before its Lease was stale does not go on when it is fresh."""
    stage = failing(staged(QUICK), beats=False)
    stage.run(90)
    assert set(stage.reasons()) == {Reason.LEASE_STALE}
    stage.webhook_works = stage.webhook_beats = True
    stage.run(30)
    assert stage.requests() == ["200m"] * 4
    assert len(stage.evicted()) <= 5


def test_a_short_outage_of_which_the_webhook_tells() -> None:
    """Its Lease was never stale, but says that its beats were interrupted."""
    stage = failing(staged(QUICK), beats=True)
    stage.webhook_works = True
    stage.acquired = stage.clock.now()
    stage.run(40)
    assert stage.requests() == ["200m"] * 4


def registered(stage: Stage, holder: str, *, leads: bool) -> None:
    """Let a replica of the webhook beat and, if it leads, keep the configuration for pods."""
    (resource, wanted), _ = webhook_configurations(Registration(), "")
    wanted["webhooks"][0]["rules"].pop()
    cluster = stage.sandbox.cluster
    registrar = Registrar(cluster, lambda _: [(resource, wanted)], lambda: leads, lambda: "")
    registrar.bundle = "any"

    def register(now: datetime) -> float:
        registrar.tick(now)
        return 5.0

    def missing() -> str:
        return "missing" if None in registrar.bundles() else ""

    rules = HeartbeatRules("kube-system", LEASE, holder, 10.0)
    beats = Heartbeat(cluster, rules, missing, stage.clock, lambda: registrar.repairs)
    stage.also(register)
    stage.also(beats.tick)


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_configuration_that_is_put_back_between_two_beats(replicas: int) -> None:
    """The Lease was never late, but the elected replica, which put it back, tells."""
    stage = staged(QUICK)
    stage.webhook_beats = False
    for number in range(replicas):
        registered(stage, f"webhook-{number}", leads=number == 0)
        stage.run(1)
    stage.sandbox.cluster.delete(Ref(MUTATING_WEBHOOKS, "", "vpa-webhook-config"))
    stage.round()
    stage.run(5)  # put back by now
    assert (len(stage.evicted()), stage.requests()) == (1, ["100m"] * 4)
    assert str(Reason.RECREATED_WITHOUT_CHANGE) in stage.reasons()
    stage.run(30)
    assert stage.requests() == ["200m"] * 4
    assert len(stage.evicted()) == 5


def test_the_webhook_is_not_at_fault() -> None:
    """Whose replacement came unchanged while it was alive all the time waits for five minutes."""
    stage = failing(staged(QUICK), beats=True)
    stage.webhook_works = True
    stage.run(200)
    assert stage.requests() == ["100m"] * 4
    stage.run(200)
    assert stage.requests() == ["200m"] * 4
