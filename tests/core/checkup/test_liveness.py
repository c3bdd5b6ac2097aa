"""What is found about certificates, Leases, metrics and processes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.core.checkup.facts import Facts
from app.core.checkup.findings import Level, Unasked
from app.core.checkup.liveness import of_certificate, of_components, of_leases, of_metrics
from app.model.certificates import Generation
from tests import make
from tests.core.checkup.healthy import FACTS, deployment, flaws, generation, lease

Json = dict[str, Any]
UPSTREAM = "registry.k8s.io/autoscaling/vpa-{}:1.8.1"
DOUBLED = "upstream's {} still runs, and does the same as ours"
HEARTBEAT = "vpa-admission-controller"


@pytest.mark.parametrize(
    ("certificate", "level", "word"),
    [
        (generation(), Level.FINE, "good for another 300d"),
        (generation(days=3), Level.WARNING, "it expires in 3d"),
        (generation(days=-0.5), Level.SERIOUS, "the certificate expired at"),
        (generation(missing_names=("a.b.svc",)), Level.SERIOUS, "not made out to a.b.svc"),
        (None, Level.NOTE, "there is none"),
        (Unasked("refused"), Level.UNKNOWN, "refused"),
    ],
)
def test_certificates(certificate: Generation | Unasked | None, level: Level, word: str) -> None:
    """A certificate is judged by its life and its names."""
    (finding,) = of_certificate(replace(FACTS, certificate=certificate))
    assert finding.level is level
    assert word in finding.message


@pytest.mark.parametrize(
    ("leases", "found"),
    [
        pytest.param(FACTS.leases, [Level.FINE, Level.FINE], id="alive"),
        pytest.param([], [Level.SERIOUS], id="none"),
        pytest.param([lease(HEARTBEAT, timedelta(minutes=2))], [Level.SERIOUS], id="stale"),
        pytest.param([lease(HEARTBEAT, timedelta(seconds=-9))], [Level.FINE], id="ahead"),
        pytest.param(
            [{"metadata": {"name": HEARTBEAT}, "spec": {}}], [Level.SERIOUS], id="never renewed"
        ),
        pytest.param(
            [{"metadata": {"name": HEARTBEAT}, "spec": {"renewTime": "soon"}}],
            [Level.SERIOUS],
            id="garbage",
        ),
        pytest.param(
            [lease(HEARTBEAT, timedelta()), lease("vpa-updater", timedelta(minutes=9))],
            [Level.FINE, Level.SERIOUS],
            id="a leader that died",
        ),
        pytest.param(
            [lease(HEARTBEAT, timedelta()), lease("vpa-updater", timedelta(hours=9), holder="")],
            [Level.FINE],
            id="a leader that stepped down",
        ),
        pytest.param(Unasked("refused"), [Level.UNKNOWN], id="unasked"),
    ],
)
def test_leases(leases: list[Json] | Unasked, found: list[Level]) -> None:
    """Who gives no sign of life is named; who stepped down is not."""
    assert [one.level for one in of_leases(replace(FACTS, leases=leases))] == found


@pytest.mark.parametrize(
    ("metrics", "level", "word"),
    [
        (FACTS.metrics, Level.FINE, "20s old"),
        (Unasked("404"), Level.SERIOUS, "nobody tells how much pods use: 404"),
        ([], Level.WARNING, "knows of no pod"),
        ([{"timestamp": "now"}], Level.WARNING, "knows of no pod"),
        ([{"timestamp": make.time(timedelta(hours=1))}], Level.SERIOUS, "60m old"),
    ],
)
def test_metrics(metrics: list[Json] | Unasked, level: Level, word: str) -> None:
    """The source of usage is judged by its newest word."""
    (finding,) = of_metrics(replace(FACTS, metrics=metrics))
    assert finding.level is level
    assert word in finding.message


def with_one(*deployments: Json) -> Facts:
    """Return an installation with these processes instead of the usual ones of their kind."""
    kinds = {item["metadata"]["name"] for item in deployments}
    assert not isinstance(FACTS.deployments, Unasked)
    others = [one for one in FACTS.deployments if one["metadata"]["name"] not in kinds]
    return replace(FACTS, deployments=[*others, *deployments])


def theirs(component: str, *args: str, replicas: int = 1) -> Json:
    """Return upstream's process."""
    return deployment(component, *args, image=UPSTREAM.format(component), replicas=replicas)


@pytest.mark.parametrize(
    ("facts", "level", "word"),
    [
        pytest.param(
            with_one(deployment("recommender", "--use-external-metrics=true")),
            Level.NOTE,
            "external metrics",
            id="external metrics",
        ),
        pytest.param(
            with_one(deployment("recommender", "--use-external-metrics=false")),
            Level.SERIOUS,
            "nobody tells",
            id="no external metrics",
        ),
        pytest.param(
            with_one(deployment("recommender", "--storage=prometheus")),
            Level.WARNING,
            "only Prometheus",
            id="Prometheus",
        ),
        pytest.param(
            replace(FACTS, deployments=[]), Level.SERIOUS, "nobody tells", id="no recommender"
        ),
        pytest.param(
            replace(FACTS, deployments=Unasked("403")),
            Level.SERIOUS,
            "nobody tells",
            id="nobody knows",
        ),
    ],
)
def test_usage_from_elsewhere(facts: Facts, level: Level, word: str) -> None:
    """Without metrics.k8s.io it counts where the recommender reads usage instead."""
    (finding,) = of_metrics(replace(facts, metrics=Unasked("404")))
    assert finding.level is level
    assert word in finding.message


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        pytest.param(FACTS, [], id="ours"),
        pytest.param(
            with_one(deployment("updater", available=0)),
            [(Level.SERIOUS, "no pod of the updater is available")],
            id="down",
        ),
        pytest.param(
            with_one(deployment("updater", replicas=0)),
            [(Level.WARNING, "the updater is scaled to zero")],
            id="scaled to zero",
        ),
        pytest.param(
            with_one(deployment("updater"), theirs("updater")),
            [(Level.SERIOUS, DOUBLED.format("updater"))],
            id="both",
        ),
        pytest.param(
            with_one(theirs("updater")),
            [(Level.NOTE, "upstream's updater runs")],
            id="upstream's alone",
        ),
        pytest.param(
            with_one(deployment("updater"), theirs("updater", replicas=0)), [], id="the way back"
        ),
        pytest.param(
            with_one(deployment("updater", "--v=4", "--dry-run"), theirs("updater")), [], id="dry"
        ),
        pytest.param(
            with_one(deployment("recommender", "--recommender-name=b"), theirs("recommender")),
            [],
            id="two names",
        ),
        pytest.param(
            with_one(
                deployment("recommender", "--recommender-name", "b"),
                theirs("recommender", "--recommender-name=b"),
            ),
            [(Level.SERIOUS, DOUBLED.format("recommender"))],
            id="one name for two",
        ),
        pytest.param(
            with_one(deployment("admission-controller"), theirs("admission-controller")),
            [(Level.SERIOUS, DOUBLED.format("admission-controller"))],
            id="two webhooks",
        ),
        pytest.param(
            with_one(deployment("updater", image="nginx")),
            [(Level.NOTE, "it was not found; it may run by other means")],
            id="something else of that name",
        ),
        pytest.param(
            replace(FACTS, deployments=[{"metadata": {"name": "web"}}]),
            [(Level.NOTE, "it was not found; it may run by other means")] * 3,
            id="none",
        ),
        pytest.param(
            replace(FACTS, deployments=Unasked("refused")),
            [(Level.UNKNOWN, "could not be looked at: refused")],
            id="unasked",
        ),
    ],
)  # fmt: skip
def test_components(facts: Facts, found: list[tuple[Level, str]]) -> None:
    """Processes that are down, doubled or absent are named; those that agreed are not."""
    assert flaws(list(of_components(facts))) == found
