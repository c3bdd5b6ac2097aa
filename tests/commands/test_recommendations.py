"""Recommendations beside requests, from files and from a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pytest

from app.commands.flags import RecommendationsSettings
from app.commands.recommendations import recommendations_report
from app.flags.command_line import parse
from app.model.errors import BadSetting, NotFound
from app.model.fields import Json
from app.output import Output, Report, shown
from app.ports import CHECKPOINTS, PODS, STATEFUL_SETS, VPAS, WORKLOADS
from tests import make
from tests.diagnosis.core.healthy import checkpoint_json
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.kube.recommender_server import answer_json, recommending
from tests.stepped_clock import SteppedClock

PROVIDED = {"type": "RecommendationProvided", "status": "True"}


def vpa(
    name: str = "web", *, labels: dict[str, str] | None = None, namespace: str = "default"
) -> Json:
    """Return a VPA that recommends 350m of CPU."""
    told = PROVIDED | {"lastTransitionTime": make.time(make.NOW.replace(hour=7))}
    return make.vpa_json(
        name,
        namespace=namespace,
        target=f"StatefulSet/{name}",
        recommendations=[
            make.recommendation_json(cpu="350m", lower={"cpu": "200m"}, upper={"cpu": "1"})
        ],
        metadata={"labels": labels or {}},
        status={"conditions": [told]},
    )


HALF_A_DAY = checkpoint_json(
    firstSampleStart="2026-01-04T22:00:00Z",
    lastSampleStart="2026-01-05T10:00:00Z",
    lastUpdateTime="2026-01-05T09:58:00Z",
    totalSamplesCount=720,
)
OBJECTS = [
    vpa(labels={"team": "shop"}),
    make.workload_json(),
    make.pod_json(cpu="100m"),
    make.pod_json(name="web-1", cpu="250m"),
    make.vpa_json("db", target="StatefulSet/db"),
    vpa("far", namespace="bank"),
    HALF_A_DAY,
]


def found(folder: Path, *flags: str, objects: Sequence[Json] = OBJECTS) -> Report:
    """Return what is told about objects in a file."""
    path = folder / "objects.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(item) for item in objects))
    words = [*flags, f"--objects={path}"]
    return recommendations_report(parse(RecommendationsSettings, words, {}), SteppedClock(make.NOW))


def test_a_table_for_people(tmp_path: Path) -> None:
    """One line a resource, in the units that people use."""
    assert list(shown(found(tmp_path, "-n", "default"), Output.TABLE)) == [
        "WORKLOAD         CONTAINER  RESOURCE  REQUEST    TARGET  BOUNDS  DIFFERENCE"
        "         CONFIDENCE  AGE  NOTE",
        "statefulset/db   -          -         -          -       -       -"
        "                  -           -    no recommender has looked at it yet",
        "statefulset/web  app        cpu       100m-250m  350m    200m-1  short 350m (100%)"
        "  50%         2m",
    ]


def test_objects_for_programs(tmp_path: Path) -> None:
    """Programs get exact amounts, and nothing where nothing is known."""
    report = found(tmp_path, "web")
    (item,) = report.items
    assert item["shortage"] == "350m"
    assert (item["lowestRequest"], item["highestRequest"]) == ("100m", "250m")
    assert (item["share"], item["confidence"], item["samples"]) == (1.0, 0.5, 720)
    assert item["asOf"] == "2026-01-05T09:58:00+00:00"
    assert "problem" not in item
    assert report.names == ["verticalpodautoscaler.autoscaling.k8s.io/web"]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], ["far", "db", "web"]),
        (["-A"], ["far", "db", "web"]),
        (["-n", "bank"], ["far"]),
        (["-l", "team=shop"], ["web"]),
        (["-l", "!team"], ["far", "db"]),
        (["db", "web"], ["db", "web"]),
    ],
)
def test_what_is_looked_at(tmp_path: Path, flags: list[str], names: list[str]) -> None:
    """Namespaces, labels of VPAs and names choose."""
    assert [item["vpa"] for item in found(tmp_path, *flags).items] == names


def test_labels_that_cannot_be_read(tmp_path: Path) -> None:
    """A VPA without readable labels is not chosen, and stops nothing."""
    broken = make.with_value(vpa("broken"), "metadata.labels", 7)
    objects = [*OBJECTS, broken, {"kind": "Pod", "apiVersion": "v1", "metadata": 7}]
    assert [item["vpa"] for item in found(tmp_path, "-lteam", objects=objects).items] == ["web"]


def test_two_vpas_of_one_workload_are_told_apart(tmp_path: Path) -> None:
    """Where the workload's name does not tell the VPA, both are told."""
    other = make.vpa_json("leader", cpu="1", selector={"matchLabels": {"role": "leader"}})
    table = list(shown(found(tmp_path, objects=[other]), Output.TABLE))
    assert table[1].split()[:3] == ["default", "statefulset/web", "(leader)"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["wbe"], 'there is no VPA "wbe" anywhere; did you mean "web"?'),
        (["-n=bank", "web"], 'there is no VPA "web" in namespace bank'),
    ],
)
def test_wrong_questions(tmp_path: Path, flags: list[str], sentence: str) -> None:
    """A VPA that is not there is told in a sentence."""
    with pytest.raises(BadSetting, match=f"^{re.escape(sentence)}$"):
        found(tmp_path, *flags)


def test_nothing_is_told_as_such(tmp_path: Path) -> None:
    """Who looks in the wrong place learns where else to look; what is wrong is named."""
    broken = make.with_value(vpa("broken"), "spec.targetRef", "web")
    nothing, problem = found(tmp_path, "-nshop"), found(tmp_path, "-nshop", objects=[broken])
    told = "no VerticalPodAutoscaler was found in namespace shop; -A looks at all namespaces"
    assert nothing.notes == [told]
    assert problem.notes[0].startswith(f"{tmp_path}/objects.jsonl:1: VerticalPodAutoscaler")


# --- a cluster


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server with these objects."""
    with serving(*WORKLOADS, VPAS, PODS, CHECKPOINTS) as found:
        kinds = {one.kind: one for one in (STATEFUL_SETS, VPAS, PODS, CHECKPOINTS)}
        for item in OBJECTS:
            found.store(kinds[item["kind"]], item)
        yield found


def of_server(server: ApiServer, folder: Path, *flags: str) -> Report:
    """Return what is told about a cluster."""
    path = write(folder / "config", kubeconfig(server.url))
    words = [f"--kubeconfig={path}", *flags]
    return recommendations_report(parse(RecommendationsSettings, words, {}), SteppedClock(make.NOW))


def test_a_cluster_tells_the_same(server: ApiServer, tmp_path: Path) -> None:
    """A cluster is only read, and tells what files of it tell; the usual namespace is meant."""
    report = of_server(server, tmp_path)
    assert list(report.items) == list(found(tmp_path, "-ndefault").items)
    assert list(of_server(server, tmp_path, "-A").items) == list(found(tmp_path, "-A").items)
    assert {request.method for request in server.requests} == {"GET"}


def test_a_cluster_without_vpas(server: ApiServer, tmp_path: Path) -> None:
    """Where VPAs are not defined, it is told how that is mended."""
    server.fail("verticalpodautoscalers", 404)
    with pytest.raises(NotFound, match=r"plumbline manifests crd \| kubectl apply -f -$"):
        of_server(server, tmp_path)


def test_history_may_be_refused(server: ApiServer, tmp_path: Path) -> None:
    """Without the right to read checkpoints the rest is told."""
    server.fail("verticalpodautoscalercheckpoints", 403)
    report = of_server(server, tmp_path, "web")
    assert "confidence" not in report.items[0]
    assert any(note.startswith("verticalpodautoscalercheckpoints:") for note in report.notes)


# --- a recommender


def of_recommender(url: str, *flags: str) -> Report:
    """Return what a recommender tells."""
    words = [f"--from={url}", *flags]
    return recommendations_report(parse(RecommendationsSettings, words, {}), SteppedClock(make.NOW))


def test_a_recommender_alone() -> None:
    """A recommender tells targets and confidence; requests it does not tell."""
    with recommending(answer_json(), answer_json("db", cpu=None)) as server:
        report = of_recommender(server.url)
    assert list(shown(report, Output.TABLE))[1:] == [
        "default    statefulset/db   -          -         -        -       -       -"
        "           -           -    no recommender has looked at it yet",
        "default    statefulset/web  app        cpu       -        350m    200m-1  -"
        "           50%         60s",
    ]


def test_a_recommender_beside_files(tmp_path: Path) -> None:
    """With objects beside it, its targets are compared with what pods request."""
    path = tmp_path / "objects.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(item) for item in OBJECTS))
    with recommending(answer_json(cpu="1")) as server:
        (item,) = of_recommender(server.url, f"--objects={path}").items
    assert (item["target"], item["shortage"], item["confidence"]) == ("1", "1650m", 0.5)


def test_a_recommender_in_a_namespace() -> None:
    """Only what was asked for is asked for."""
    with recommending(answer_json(), answer_json("far", namespace="bank")) as server:
        assert [item["vpa"] for item in of_recommender(server.url, "-nbank").items] == ["far"]


def test_labels_are_not_told_by_a_recommender() -> None:
    """A question that a recommender cannot answer is refused with what would help."""
    with pytest.raises(BadSetting, match=r"^--selector needs --kubeconfig or --objects"):
        of_recommender("http://localhost:1", "-l", "a=b")


def test_an_answer_that_cannot_be_read() -> None:
    """Garbage is a note beside what can be read."""
    broken = answer_json("broken", cpu="x")
    with recommending(answer_json(), broken) as server:
        report = of_recommender(server.url)
        body = orjson.dumps({"items": [answer_json(), {"containers": 7}, 7], "next": ""})
        server.refusal = 200, body
        worse = of_recommender(server.url)
    assert [item["vpa"] for item in (*report.items, *worse.items)] == ["web", "web"]
    assert "containerRecommendations[0].target" in report.notes[0]
    assert worse.notes == ["the answer about ?/?: containers: expected a list, found the number 7"]
