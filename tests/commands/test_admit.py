"""Reviews are answered without a server as they are with one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from app.admission.app import Webhook
from app.admission.knowledge import RecordedKnowledge
from app.admission.metrics import AdmissionMetrics
from app.admission.reviews import Reviewer, ReviewRules
from app.commands.admit import given_reviews, review_row
from app.commands.flags import AdmitSettings
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.model.fields import Json
from app.model.review import read_review
from app.output import Table
from app.runtime.access import Guard
from app.runtime.clock import SystemClock
from tests import logging_state, make
from tests.cases import cases
from tests.junk import objects_like

OBJECTS = [
    make.vpa_json(cpu="250m", boost=make.boost_json(factor=2)),
    make.vpa_json("split", target="Deployment/api", selector={"matchLabels": {"role": "a"}}),
    make.workload_json(),
    make.workload_json("ReplicaSet/web-1", owner="example.com/v1/Shop/web"),
    make.limit_range_json(most={"cpu": "2"}),
]
REVIEWS = [
    make.review_json(make.pod_json(cpu="100m")),
    make.review_json(make.pod_json(cpu="100m", cpu_limit="200m"), uid="2"),
    make.review_json(make.pod_json(owner="ReplicaSet/web-1")),
    make.review_json(make.pod_json(namespace="other")),
    make.review_json(make.vpa_json("new", target="Deployment/api")),
    make.review_json(make.vpa_json("new", target="Deployment/free")),
    make.review_json(make.vpa_json(mode="Auto"), old=make.vpa_json(), operation="UPDATE"),
    make.review_json(old=make.vpa_json(), operation="DELETE"),
    make.review_json(make.workload_json()),
    make.review_json(make.pod_json(), requestKind={"kind": "x" * 100_000}),
    {"request": {"uid": "7"}},
    {"request": 7},
    {"kind": "AdmissionReview"},
]


@pytest.fixture(autouse=True)
def kept_logging() -> Iterator[None]:
    """Put logging back as it was."""
    with logging_state.kept():
        yield


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """Return a file with the objects."""
    path = tmp_path / "objects.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, OBJECTS)))
    return path


def admitted(*words: str | Path) -> list[bytes]:
    """Return the lines of `plumbline admit`."""
    return list(given_reviews(parse(AdmitSettings, list(map(str, words)), {})).lines())


def served(knowledge: RecordedKnowledge, bodies: list[bytes]) -> list[bytes]:
    """Return what a server answers from files."""
    metrics = AdmissionMetrics(CollectorRegistry())
    reviewer = Reviewer(knowledge.sources, ReviewRules(), metrics, SystemClock())

    async def exchange() -> list[bytes]:
        transport = httpx.ASGITransport(Webhook(reviewer, Guard()))
        headers = {"content-type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="https://webhook") as client:
            return [
                (await client.post("/mutate", content=body, headers=headers)).content
                for body in bodies
            ]

    return asyncio.run(exchange())


def is_review(body: bytes) -> bool:
    """Whether a body says that it is a review, or holds a request."""
    try:
        item = orjson.loads(body)
    except orjson.JSONDecodeError:  # which Python's own writer does not heed
        return False
    return isinstance(item, dict) and (
        item.get("kind") == "AdmissionReview" or (not item.get("kind") and "request" in item)
    )


def test_the_same_as_served(objects: Path, tmp_path: Path) -> None:
    """To the byte, with and without a server, whatever comes before."""
    bodies = [orjson.dumps(review) for review in REVIEWS]
    bodies += [bodies[0], bodies[4]]
    bodies.append(b'{"request":{"uid":"u","object":' + b"[" * 900 + b"]" * 900 + b"}}")
    bodies.append(b'{"request":{"uid":"u","object":123456789012345678901234567890}}')
    reviews = tmp_path / "reviews.jsonl"
    reviews.write_bytes(b"\n".join(bodies))
    lines = admitted("--objects", objects, "--", reviews)
    found = served(RecordedKnowledge([objects]), bodies)
    assert lines == [line + b"\n" for line in found]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(REVIEWS[:9]).flatmap(objects_like), min_size=1, max_size=5))
def test_any_reviews_are_answered(
    tmp_path_factory: pytest.TempPathFactory, reviews: list[Json]
) -> None:
    """However wrong reviews are, each has its line, the same as from a server; nothing else has."""
    folder = tmp_path_factory.mktemp("reviews")
    (folder / "objects.jsonl").write_bytes(b"\n".join(map(orjson.dumps, OBJECTS)))
    bodies = [json.dumps(review).encode() for review in reviews]
    (folder / "reviews.jsonl").write_bytes(b"\n".join(bodies))
    words = ("--objects", folder / "objects.jsonl", folder / "reviews.jsonl")
    if not all(map(is_review, bodies)):
        with pytest.raises(BadSetting, match=r"reviews\.jsonl:\d"):
            admitted(*words)
        return
    known = RecordedKnowledge([folder / "objects.jsonl"])
    assert admitted(*words) == [line + b"\n" for line in served(known, bodies)]


def test_every_review_is_a_question_of_its_own(objects: Path, tmp_path: Path) -> None:
    """What one review would create does not stand in the way of the next."""
    reviews = [
        make.review_json(make.vpa_json(name, target="Deployment/free", mode="Off"), uid=name)
        for name in "abcd"
    ]
    path = tmp_path / "reviews.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, reviews)))
    found = [orjson.loads(line)["response"] for line in admitted("--objects", objects, path)]
    assert [(response["uid"], response["allowed"]) for response in found] == [
        (name, True) for name in "abcd"
    ]


def test_gates_and_caps(objects: Path, tmp_path: Path) -> None:
    """The flags that decide are those of the server."""
    path = tmp_path / "review.json"
    path.write_bytes(orjson.dumps(REVIEWS[0]))

    def cpu(*flags: str) -> str:
        (line,) = admitted("--objects", objects, "--decode", *flags, path)
        patch = orjson.loads(line)["response"]["patch"]
        values = {operation["path"]: operation["value"] for operation in patch}
        text: str = values["/spec/containers/0/resources/requests/cpu"]
        return text

    assert cpu() == "250m"
    assert cpu("--feature-gates=CPUStartupBoost=true") == "500m"
    assert cpu("--feature-gates=CPUStartupBoost=true", "--max-allowed-cpu-boost=300m") == "300m"


@cases(
    "review reason",
    {
        "a pod that is sized": (REVIEWS[0], "Sized"),
        "a pod whose owner is not known": (REVIEWS[2], "OwnerUnknown"),
        "a pod without a VPA": (REVIEWS[3], "NoVPAInNamespace"),
        "no pod": (make.review_json(make.pod_json(cpu="x")), "UnreadablePod"),
        "a VPA": (REVIEWS[4], "NotAPod"),
        "no request": ({"request": 7}, "UnreadableReview"),
    },
)
def test_explanations(objects: Path, tmp_path: Path, review: Json, reason: str) -> None:
    """Whatever the answer, it can be told why."""
    path = tmp_path / "review.jsonl"
    path.write_bytes(orjson.dumps(review))
    (line,) = admitted(path, "--explain", "--objects", objects)
    assert orjson.loads(line)["explanation"]["reason"] == reason


ROWS = [
    (0, "review-1  default  pod/web-0  patched  cpu 100m -> 250m  Sized: VPA web targets"),
    (3, "review-1  other  pod/web-0  allowed  -  NoVPAInNamespace: "),
    (4, "review-1  default  verticalpodautoscaler/new  refused  -  VerticalPodAutoscaler."),
    (5, "review-1  default  verticalpodautoscaler/new  patched  -  -"),
    (
        6,
        'review-1  default  verticalpodautoscaler/web  allowed  -  spec.updatePolicy: updateMode "',
    ),
    (10, "7  -  -/-  allowed  -  -"),
    (11, "-  -  review/-  unreadable  -  request: expected an object"),
]


def test_rows_for_people(objects: Path, tmp_path: Path) -> None:
    """A row says what became of a review, and why; a name is what other commands take."""
    (tmp_path / "reviews.jsonl").write_bytes(b"\n".join(map(orjson.dumps, REVIEWS)))
    words = ["-v=0", "--objects", str(objects), "--", str(tmp_path / "reviews.jsonl")]
    report = given_reviews(parse(AdmitSettings, words, {})).report()
    assert isinstance(report.body, Table)
    shown = ["  ".join(piece.text for piece in row) for row in report.body.rows]
    assert [shown[index][: len(row)] for index, row in ROWS] == [row for _, row in ROWS]
    assert [report.names[index] for index in (0, 4)] == ["pod/web-0", "verticalpodautoscaler/new"]
    assert len(report.items) == len(REVIEWS)


def test_several_containers_are_told_apart() -> None:
    """What a container had or gets may be missing."""
    told = {
        "reason": "Sized",
        "message": "by web",
        "containers": [
            {"name": "a", "cpu": {"gets": {"request": "1"}}, "memory": {"had": {"limit": "1Gi"}}},
            {"name": "b", "cpu": {"had": {"request": "1"}, "gets": {"request": "1"}}},
        ],
    }
    request = read_review(REVIEWS[0])
    response = {"uid": "u", "allowed": True, "patch": "x"}
    shown = review_row(request, {"response": response, "explanation": told})
    assert [piece.text for piece in shown][3:] == ["patched", "a cpu none -> 1", "Sized: by web"]


def test_yaml_that_json_cannot_tell(objects: Path, tmp_path: Path) -> None:
    """A review in YAML may hold anything that YAML can say."""
    review = tmp_path / "review.yaml"
    review.write_text(
        "kind: AdmissionReview\n"
        "request:\n"
        "  uid: !!str 7\n"
        "  resource: {version: v1, resource: pods}\n"
        "  namespace: default\n"
        "  object:\n"
        "    {metadata: {1: 2, at: 2026-01-05T10:00:00Z}, x: .inf, big: 99999999999999999999}\n"
    )
    (line,) = admitted("--objects", objects, "--", review)
    assert orjson.loads(line)["response"] == {
        "uid": "7",
        "allowed": True,
        "auditAnnotations": {"reason": "NoController"},
    }
