"""Recommendations beside requests, from files and from a cluster."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pytest

from app.commands.recommendations import recommendations_report, recommendations_reports
from app.commands.recommendations_flags import RecommendationsSettings
from app.flags.command_line import parse
from app.model.errors import BadSetting, NotFound, Unavailable
from app.model.fields import Json
from app.output import Output, Report, shown
from app.ports import CHECKPOINTS, PODS, STATEFUL_SETS, VPAS, WORKLOADS
from tests import make
from tests.cases import cases
from tests.diagnosis.core.healthy import checkpoint_json
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.kube.recommender_server import answer_json, recommending
from tests.prometheus_server import Asked, Reply, matrix, prometheus
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


def table(report: Report, output: Output = Output.TABLE, width: int | None = None) -> list[str]:
    """Return what people see, with one space between columns."""
    return [" ".join(line.split()) for line in shown(report, output, width=width)]


def test_a_table_for_people(tmp_path: Path) -> None:
    """One line a container, in the units that people use, and what all pods together save."""
    assert list(shown(found(tmp_path, "-n", "default"), Output.TABLE)) == [
        "VPA    PODS  CONTAINER  CPU                 MEMORY  SAVES     MODE      NOTE",
        "db     0     -          -                   -       -         Recreate  "
        "no recommender has looked at it yet",
        "web    2     app        100m..250m -> 350m  -       -350m, -  Recreate",
        "TOTAL  2                350m -> 700m        -       -350m, -",
    ]


def test_what_is_held(tmp_path: Path) -> None:
    """What an HPA scales by is shown with a note, and no saving is made up of it."""
    held = make.hpa_json(make.metric_json("cpu", 70), target="StatefulSet/big")
    report = found(tmp_path, objects=[*sized("big", pods=1, has="2", target="1"), held])
    row, total = table(report)[1:]
    note = "cpu held: HorizontalPodAutoscaler/web scales by it"
    assert row == f"default big 1 app 2 -> 1 2Gi -> 1Gi -, 1Gi Recreate {note}"
    assert total == "TOTAL 1 - 2Gi -> 1Gi -, 1Gi"
    assert [item.get("heldBy") for item in report.items] == ["HorizontalPodAutoscaler/web", None]


def test_a_wide_table(tmp_path: Path) -> None:
    """It has what the usual one leaves out, and is not cut on a terminal."""
    report = found(tmp_path, "-n", "default", "web")
    head, row, _ = table(report, Output.WIDE, width=40)
    assert head.endswith("MODE WORKLOAD CPU BOUNDS MEMORY BOUNDS CONFIDENCE AGE")
    assert row.endswith("Recreate statefulset/web 200m..1 - 50% 2m")


@cases(
    "width expected",
    {
        "of 80 columns": (
            80,
            [
                "NAMESPACE  VPA  PODS  CONTAINER  CPU                 MEMORY  SAVES",
                "    MODE",
                "default    web  2     app        100m..250m -> 350m  -       -350m, -",
                "    InPlaceOrRecreate",
                "TOTAL           2                350m -> 700m        -       -350m, -",
            ],
        ),
        "of 40 columns": (
            40,
            [
                "NAMESPACE  VPA  PODS  CONTAINER",
                "    CPU                 MEMORY  SAVES",
                "    MODE",
                "default    web  2     app",
                "    100m..250m -> 350m  -       -350m, -",
                "    InPlaceOrRecreate",
                "TOTAL           2",
                "    350m -> 700m        -       -350m, -",
            ],
        ),
    },
)
def test_a_narrow_terminal(tmp_path: Path, width: int, expected: list[str]) -> None:
    """What has no room stands below: neither a mode nor a number is cut."""
    objects = copy.deepcopy(OBJECTS)
    for item in objects:
        if item["kind"] == "VerticalPodAutoscaler":
            item["spec"]["updatePolicy"] = {"updateMode": "InPlaceOrRecreate"}
    report = found(tmp_path, "web", objects=objects)
    assert list(shown(report, Output.TABLE, width=width)) == expected


def sized(name: str, *, pods: int, has: str, target: str, memory: str = "1Gi") -> list[Json]:
    """Return a VPA, its workload and pods with such requests of CPU, and 2 GiB of memory."""
    key = f"StatefulSet/{name}"
    wanted = make.recommendation_json(cpu=target, memory=memory)
    return [
        make.vpa_json(name, target=key, recommendations=[wanted]),
        make.workload_json(key),
        *(
            make.pod_json(name=f"{name}-{one}", owner=key, cpu=has, memory="2Gi")
            for one in range(pods)
        ),
    ]


SEVERAL = [
    *sized("big", pods=1, has="2", target="1", memory="2Gi"),
    *sized("far", pods=3, has="100m", target="1"),
    *sized("idle", pods=2, has="500m", target="500m", memory="512Mi"),
]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], ["big", "far", "idle"]),
        (["--sort-by=name"], ["big", "far", "idle"]),
        (["--sort-by=-name"], ["idle", "far", "big"]),
        (["--sort-by=pods"], ["far", "idle", "big"]),
        (["--sort-by=cpu"], ["big", "idle", "far"]),
        (["--sort-by", "-cpu"], ["far", "idle", "big"]),
        (["--sort-by=memory"], ["far", "idle", "big"]),
    ],
)
def test_rows_are_sorted(tmp_path: Path, flags: list[str], names: list[str]) -> None:
    """The column that is named decides, for people and for programs."""
    report = found(tmp_path, *flags, objects=SEVERAL)
    assert [row.split()[1] for row in table(report)[1:-1]] == names
    assert list(dict.fromkeys(item["vpa"] for item in report.items)) == names


def test_the_total(tmp_path: Path) -> None:
    """It sums up all pods: what they request, what they would, and what that saves."""
    report = found(tmp_path, objects=SEVERAL)
    assert table(report)[-1] == "TOTAL 6 3.3 -> 5 12Gi -> 6Gi -1.7, 6Gi"
    assert [row.split(" Recreate")[0] for row in table(report)[1:-1]] == [
        "default big 1 app 2 -> 1 2Gi 1, 0",
        "default far 3 app 100m -> 1 2Gi -> 1Gi -2.7, 3Gi",
        "default idle 2 app 500m 2Gi -> 512Mi 0, 3Gi",
    ]


def test_workloads_can_be_named(tmp_path: Path) -> None:
    """A workload stands for its VPAs, in the words of kubectl; without one there is advice."""
    for name in ("sts/far", "statefulsets/far", "statefulset.apps/far", "StatefulSet/far"):
        assert {item["vpa"] for item in found(tmp_path, name, objects=SEVERAL).items} == {"far"}
    told = "no VPA in namespace default targets deploy/far; create one: "
    with pytest.raises(BadSetting, match=re.escape(told + "plumbline init -n default deploy/far")):
        found(tmp_path, "-ndefault", "deploy/far", objects=SEVERAL)


def test_watching(tmp_path: Path) -> None:
    """What changes is shown again with the time, for programs alone; what does not is not."""
    path = tmp_path / "objects.jsonl"

    def write_objects(pods: int) -> None:
        objects = [*sized("a", pods=1, has="1", target="1"), *SEVERAL[:2], *SEVERAL[2:][:pods]]
        path.write_bytes(b"\n".join(map(orjson.dumps, objects)))

    class Writing(SteppedClock):
        def wait(self, seconds: float) -> None:
            super().wait(seconds)
            write_objects(0 if self.monotonic() < 25 else 1)

    write_objects(0)
    clock, words = Writing(make.NOW), ["--watch", f"--objects={path}"]
    reports = recommendations_reports(parse(RecommendationsSettings, words, {}), clock)
    first, second = next(reports), next(reports)
    assert (len(first.items), clock.monotonic()) == (4, 30.0)
    assert {item["vpa"] for item in second.items} == {"big"}
    assert table(second)[1] == "2026-01-05T10:00:30Z"
    assert table(second)[2:] == table(recommendations_report(parse_objects(path), clock))


def parse_objects(path: Path) -> RecommendationsSettings:
    """Return the settings that show the objects of a file."""
    return parse(RecommendationsSettings, [f"--objects={path}"], {})


def test_a_pipe_cannot_be_watched() -> None:
    """What can be read only once is refused, instead of being shown once."""
    settings = parse(RecommendationsSettings, ["-w", "--objects=-"], {})
    with pytest.raises(BadSetting, match=r"^--watch: standard input can be read only once"):
        next(recommendations_reports(settings, SteppedClock()))


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


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["wbe"], 'there is no VPA "wbe" in any namespace; did you mean "web"?'),
        (["-n=bank", "web"], 'there is no VPA "web" in namespace bank; -A looks at all namespaces'),
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
    assert found(tmp_path, "-lapp=x").notes == ["no VPA has the labels app=x"]
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
    assert table(report)[1:] == [
        "default db 0 - - - - Recreate no recommender has looked at it yet",
        "default web 0 app ? -> 350m - - Recreate",
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


# --- workloads without a VPA


BARE = [
    make.workload_json("Deployment/api", replicas=2),
    make.workload_json("ReplicaSet/api-1", owner="Deployment/api"),
    make.pod_json(cpu="100m", memory="1Gi", name="api-1-a", owner="ReplicaSet/api-1"),
    make.pod_json(cpu="100m", memory="1Gi", name="api-1-b", owner="ReplicaSet/api-1"),
    make.workload_json("Deployment/idle", labels={"app": "idle"}),
    make.workload_json("Job/once"),
    *OBJECTS,
]
NO_VPA = [
    "VPA PODS CONTAINER CPU MEMORY SAVES MODE NOTE",
    "deploy/api 2 app 100m -> 247m 1Gi -> 363Mi -294m, 1.29Gi no VPA",
    "db 0 - - - - Recreate no recommender has looked at it yet",
    "deploy/idle 0 - - - - no VPA Prometheus has no usage of its pods",
]


def recorded(asked: Asked) -> Reply:
    """Return the usage of the pods of `api`: 200m and 300Mi all the time."""
    if not asked.path.endswith("query_range"):
        return matrix()
    start, end, step = (float(asked.told[word]) for word in ("start", "end", "step"))
    times = [start + step * index for index in range(int((end - start) // step) + 1)]
    used = 0.2 if "cpu" in asked.told["query"] else 300 * 2**20
    points = [(time, used) for time in times]
    place = {"namespace": "default", "container": "app"}
    return matrix(*((place | {"pod": f"api-1-{end}"}, points) for end in "ab"))


def test_recorded_usage_of_workloads_without_a_vpa(tmp_path: Path) -> None:
    """What a recommender would say of them stands beside the VPAs; labels are today's."""
    with prometheus() as server:
        server.otherwise = recorded
        asks = f"--prometheus-address={server.url}"
        report = found(tmp_path, asks, "-ndefault", objects=BARE)
        named = found(tmp_path, asks, "deploy/api", objects=BARE)
    assert table(report)[:4] == NO_VPA
    assert [line.split()[0] for line in table(report)[4:]] == ["web", "TOTAL"]
    assert report.notes == []
    cpu, memory = named.items
    assert ("vpa" in cpu, cpu["workload"], cpu["target"]) == (False, "Deployment/api", "247m")
    assert cpu["asOf"] == make.NOW.isoformat()
    assert memory["confidence"] > 1
    assert list(dict.fromkeys(named.names)) == ["deployment/api"]
    queries = [asked.told["query"] for asked in server.asked]
    assert queries[0].endswith(
        '{pod=~".+", container!="POD", container!="", namespace="default"}[1h])'
    )


def test_without_recorded_usage_it_is_said_what_to_do(tmp_path: Path) -> None:
    """Workloads without a VPA are named beside the others, and in one sentence what helps."""
    told = "2 workloads have no VPA (deploy/api, deploy/idle); to get recommendations: "
    last = "for numbers from usage that Prometheus has: --prometheus-address=URL"
    notes = found(tmp_path, objects=BARE).notes
    assert notes == [f"{told}plumbline init -A | kubectl apply -f -; {last}"]
    with pytest.raises(BadSetting, match=r"^no VPA in any namespace targets deploy/api; create "):
        found(tmp_path, "deploy/api", objects=BARE)


def test_a_prometheus_that_does_not_answer(tmp_path: Path) -> None:
    """Its own name stands in the error; an empty one is told with what was asked."""
    with prometheus() as server:
        empty = found(tmp_path, f"--prometheus-address={server.url}", "deploy/api", objects=BARE)
        server.otherwise = lambda _: Reply.of(400, "bad_data", "no such metric")
        with pytest.raises(Unavailable, match="no such metric") as caught:
            found(tmp_path, f"--prometheus-address={server.url}", objects=BARE)
    assert empty.notes[0].startswith("Prometheus has no such usage; do its labels have other")
    assert caught.value.reason == "Prometheus"


def test_a_cluster_that_knows_no_vpas(server: ApiServer, tmp_path: Path) -> None:
    """Without the definitions of VPAs recorded usage gives numbers all the same."""
    server.fail("verticalpodautoscalers", 404)
    with prometheus() as recording:
        report = of_server(server, tmp_path, f"--prometheus-address={recording.url}")
    assert [line.split()[0] for line in table(report)[1:]] == ["sts/web"]


def test_recorded_usage_needs_pods() -> None:
    """A recommender alone knows no workloads."""
    with pytest.raises(BadSetting, match=r"^--prometheus-address needs --kubeconfig or --objects"):
        of_recommender("http://localhost:1", "--prometheus-address=http://localhost:1")
