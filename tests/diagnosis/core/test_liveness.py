"""What is found about certificates, Leases and metrics."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.admission.core.rotation import EXPIRY_ANNOTATION, Generation
from app.diagnosis.core.facts import CouldNotLook, Facts, Level, Unasked, unknown
from app.diagnosis.core.liveness import of_certificate, of_leases, of_metrics
from app.model.fields import Json
from tests import make
from tests.cases import cases
from tests.diagnosis.core.healthy import FACTS, deployment, generation, lease, with_one

HEARTBEAT = "vpa-admission-controller"


@pytest.mark.parametrize(
    ("certificate", "level", "word"),
    [
        (generation(), Level.FINE, "good for another 300d"),
        (generation(days=3), Level.WARNING, "it expires in 3d"),
        (generation(days=-0.5), Level.SERIOUS, "the certificate expired at"),
        (generation(missing_names=("a.b.svc",)), Level.SERIOUS, "not made out to a.b.svc"),
        (None, Level.NOTE, "there is none"),
    ],
)
def test_certificates(certificate: Generation | None, level: Level, word: str) -> None:
    """A certificate is judged by its life and its names."""
    (finding,) = of_certificate(replace(FACTS, certificate=certificate))
    assert finding.level is level
    assert word in finding.message


@cases(
    "told level word",
    {
        "long": ("2026-12-01T00:00:00Z", Level.FINE, "the webhook's certificate: good for another"),
        "soon": ("2026-01-08T10:00:00Z", Level.WARNING, "it expires in 3d, and was not renewed"),
        "over": ("2026-01-05T09:00:00Z", Level.SERIOUS, "it expired 60m ago"),
        "garbage": ("soon", Level.UNKNOWN, "could not be looked at: Secrets are secret"),
        "not told": (None, Level.UNKNOWN, "could not be looked at: Secrets are secret"),
    },
)
def test_a_certificate_that_may_not_be_seen(told: str | None, level: Level, word: str) -> None:
    """The webhook tells on its Lease until when it is valid."""
    item = lease(HEARTBEAT, timedelta())
    item["metadata"]["annotations"] = {} if told is None else {EXPIRY_ANNOTATION: told}
    facts = replace(FACTS, certificate=Unasked("Secrets are secret"), leases=[item])
    try:
        (finding,) = of_certificate(facts)
    except CouldNotLook as error:
        finding = unknown(error.about, error.fact)
    assert finding.level is level
    assert word in finding.message


def test_who_renews_a_certificate() -> None:
    """Ours is made again when its Secret is empty; one that is given must not be touched."""
    facts = replace(FACTS, certificate=generation(days=3))
    (ours,) = of_certificate(facts)
    (given,) = of_certificate(replace(facts, secret="plumbline-webhook", is_given=True))
    assert ours.fix.startswith(
        "kubectl -n kube-system patch secret/vpa-tls-certs --type=merge -p '{\"data\":null}' && "
    )
    assert given.about == "secret/plumbline-webhook"
    assert given.fix == "kubectl -n kube-system describe secret/plumbline-webhook"


@cases(
    "leases found",
    {
        "alive": (FACTS.leases, [Level.FINE, Level.FINE]),
        "none": ([], [Level.SERIOUS]),
        "stale": ([lease(HEARTBEAT, timedelta(minutes=2))], [Level.SERIOUS]),
        "ahead": ([lease(HEARTBEAT, timedelta(seconds=-3))], [Level.FINE]),
        "far ahead": ([lease(HEARTBEAT, timedelta(seconds=-9))], [Level.WARNING]),
        "never renewed": ([{"metadata": {"name": HEARTBEAT}, "spec": {}}], [Level.SERIOUS]),
        "garbage": (
            [{"metadata": {"name": HEARTBEAT}, "spec": {"renewTime": "soon"}}],
            [Level.SERIOUS],
        ),
        "a leader that died": (
            [lease(HEARTBEAT, timedelta()), lease("vpa-updater", timedelta(minutes=9))],
            [Level.FINE, Level.SERIOUS],
        ),
        "a leader that stepped down": (
            [lease(HEARTBEAT, timedelta()), lease("vpa-updater", timedelta(hours=9), holder="")],
            [Level.FINE],
        ),
        "a leader of another installation": (
            [
                lease(HEARTBEAT, timedelta()),
                lease("vpa-updater", timedelta()),
                lease("vpa-updater-lease", timedelta(hours=9)),
            ],
            [Level.FINE, Level.FINE, Level.NOTE],
        ),
    },
)
def test_leases(leases: list[Json], found: list[Level]) -> None:
    """Who gives no sign of life is named; who stepped down is not."""
    assert [one.level for one in of_leases(replace(FACTS, leases=leases))] == found


@cases(
    "deployments level",
    {
        "electing": ([deployment("updater", "--leader-elect=true")], Level.SERIOUS),
        "alone": ([deployment("updater", "--leader-elect=false")], Level.NOTE),
        "none of ours": ([], Level.SERIOUS),
        "not known": (Unasked("refused"), Level.SERIOUS),
    },
)
def test_a_lease_without_a_leader(deployments: list[Json] | Unasked, level: Level) -> None:
    """A Lease that is not renewed is a fault unless the only replica runs without election."""
    leases = [lease(HEARTBEAT, timedelta()), lease("vpa-updater", timedelta(days=3))]
    facts = replace(FACTS, leases=leases, deployments=deployments)
    _, found = of_leases(facts)
    assert found.level is level
    assert found.is_absence is (level is Level.SERIOUS)


@pytest.mark.parametrize(
    ("metrics", "level", "word"),
    [
        (FACTS.metrics, Level.FINE, "20s old"),
        ([], Level.WARNING, "knows of no pod"),
        ([{"timestamp": "now"}], Level.WARNING, "knows of no pod"),
        ([{"timestamp": make.time(timedelta(hours=1))}], Level.SERIOUS, "60m old"),
    ],
)
def test_metrics(metrics: list[Json], level: Level, word: str) -> None:
    """The source of usage is judged by its newest word."""
    (finding,) = of_metrics(replace(FACTS, metrics=metrics))
    assert finding.level is level
    assert word in finding.message


EXTERNAL = deployment("recommender", "--use-external-metrics=true")
INTERNAL = deployment("recommender", "--use-external-metrics=false")
PROMETHEUS = deployment("recommender", "--storage=prometheus")


@pytest.mark.parametrize(
    ("facts", "level", "word"),
    [
        (with_one(EXTERNAL), Level.NOTE, "external metrics"),
        (with_one(INTERNAL), Level.SERIOUS, "does not tell"),
        (with_one(PROMETHEUS), Level.WARNING, "only Prometheus"),
        (replace(FACTS, deployments=[]), Level.SERIOUS, "does not tell"),
        (
            replace(FACTS, deployments=Unasked("403")),
            Level.SERIOUS,
            "it does not tell how much pods use: 404",
        ),
    ],
)
def test_usage_from_elsewhere(facts: Facts, level: Level, word: str) -> None:
    """Without metrics.k8s.io it counts where the recommender reads usage instead."""
    (finding,) = of_metrics(replace(facts, metrics=Unasked("404")))
    assert finding.level is level
    assert word in finding.message
