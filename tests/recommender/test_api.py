"""What is answered about recommendations is what stands in the status, and why."""

from __future__ import annotations

import re
import time
from pathlib import Path

import orjson
import pytest
from pydantic import BaseModel

from app.model.fields import Json
from app.recommender.api_shapes import Container, Page, PodAnswer, Recommendation
from app.runtime.access import Guard
from app.runtime.answers import MEDIA_TYPE, Problem
from tests.cases import cases
from tests.flows.recommending import vpa
from tests.runtime.asking import Desk
from tests.sandbox.worlds import snapshot_of
from tests.sandbox_objects import pods_in

WEB = "/v1/namespaces/default/recommendations/web"
ALL = "/v1/recommendations"
WORDS = ("target", "lowerBound", "upperBound", "uncappedTarget")


def started() -> Desk:
    """Return one Deployment and its VPA after three rounds."""
    found = Desk()
    found.rounds(3)
    return found


@pytest.fixture
def desk() -> Desk:
    """One that may be changed."""
    return started()


@pytest.fixture(scope="module")
def still() -> Desk:
    """One for all who only ask."""
    return started()


def pod(desk: Desk) -> str:
    """Return the path of the Deployment's pod."""
    return f"/v1/namespaces/default/pods/{pods_in(desk.sandbox)[0]['metadata']['name']}"


def amounts(answer: Json) -> list[Json]:
    """Return the amounts of an answer as a status holds them."""
    return [
        {"containerName": entry["container"], **{word: entry[word] for word in WORDS}}
        for entry in answer["containers"]
    ]


# --- what is told


def test_it_answers_what_status_says(still: Desk) -> None:
    """The amounts are those of the status, on one page with all others, and by themselves."""
    assert amounts(still.answer(WEB)) == list(still.recommended().values()) != []
    assert still.answer("/v1/namespaces/default/recommendations")["items"] == [still.answer(WEB)]
    assert still.answer(ALL) == {"items": [still.answer(WEB)], "next": ""}


def test_a_new_vpa_is_known_at_once(desk: Desk) -> None:
    """A VPA that no round has seen yet is told of, without amounts."""
    desk.apply(vpa("fresh"))
    found = desk.answer("/v1/namespaces/default/recommendations/fresh")
    assert (found["containers"], found["computedAt"]) == ([], None)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        (WEB, Recommendation),
        (f"{WEB}?explain=true", Recommendation),
        (ALL, Page),
        (f"{ALL}?explain=true", Page),
        ("pod", PodAnswer),
        ("pod?explain=true", PodAnswer),
    ],
)
def test_answers_have_the_documented_form(still: Desk, path: str, shape: type[BaseModel]) -> None:
    """Nothing is missing, and nothing is there that the documentation does not tell."""
    path = path.replace("pod", pod(still), 1) if path.startswith("pod") else path
    answer = still.ask(path)
    read = shape.model_validate_json(answer.content)
    told = orjson.loads(read.model_dump_json(by_alias=True, exclude_unset=True))
    assert told.keys() == answer.json().keys()


def test_every_step_is_told_when_asked(still: Desk) -> None:
    """The way from the percentile to the amount comes with `explain`, and only then."""
    assert "derivation" not in still.answer(WEB)["containers"][0]
    found = still.answer(f"{WEB}?explain=true")["containers"][0]
    steps = found["derivation"]["cpu"]["target"]
    assert (steps["percentileAmount"], steps["withMargin"], steps["quantity"]) == (215, 247, "247m")
    assert found["target"]["cpu"] == "247m"


# --- pages


def test_pages_follow_one_another(desk: Desk) -> None:
    """Some at a time, in order, across namespaces, each once."""
    for namespace, name in (("a", "x"), ("a", "y"), ("b", "x"), ("default", "zz")):
        desk.apply(vpa(name, namespace=namespace))
    seen: list[str] = []
    after, pages = "", 0
    while pages == 0 or after:
        page = desk.answer(f"{ALL}?limit=2&after={after}")
        seen += [f"{item['namespace']}/{item['name']}" for item in page["items"]]
        after, pages = page["next"], pages + 1
    assert seen == ["a/x", "a/y", "b/x", "default/web", "default/zz"]
    assert pages == 3
    assert len(desk.answer("/v1/namespaces/a/recommendations?limit=1")["items"]) == 1


def test_an_unknown_namespace_is_empty(still: Desk) -> None:
    """Nobody knows all namespaces; one without VPAs has no recommendations."""
    assert still.answer("/v1/namespaces/nowhere/recommendations") == {"items": [], "next": ""}


# --- tags


def test_tags(desk: Desk) -> None:
    """An answer holds until something is published; then it has another tag."""
    first = desk.ask(ALL)
    tag = first.headers["etag"]
    again = desk.ask(ALL, if_none_match=tag)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert desk.ask(ALL, if_none_match=f'"other", W/{tag}').status_code == 304
    assert desk.ask(ALL, if_none_match="*").status_code == 304
    assert desk.ask(ALL, if_none_match='"other"').status_code == 200
    assert desk.ask(f"{ALL}?explain=true", if_none_match=tag).status_code == 200
    desk.rounds(1)
    assert desk.ask(ALL, if_none_match=tag).status_code == 200
    assert first.headers["cache-control"] == "private, no-cache"
    assert first.headers["vary"] == "authorization"


# --- who does not lead


def test_a_standby_tells_the_status(desk: Desk) -> None:
    """It knows what stands, not on what that rests; who knows is told to those who ask why."""
    desk.is_leading = False
    found = desk.answer(WEB)
    assert amounts(found) == list(desk.recommended().values())
    assert (found["computedAt"], found["containers"][0]["evidence"]) == (None, None)
    assert found["containers"][0]["origin"] == {"cpu": None, "memory": None}
    refused = desk.ask(f"{WEB}?explain=true")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.json()["detail"] == "only the leader can explain; recommender-1 leads"
    assert refused.json()["field"] == "query.explain"
    desk.leader = ""
    assert "no replica leads" in desk.ask(f"{WEB}?explain=true").json()["detail"]


def test_before_anything_is_known(desk: Desk) -> None:
    """As long as the cluster is not read there are no half answers."""
    desk.problem = "the cluster is not read yet"
    refused = desk.ask(ALL)
    assert (refused.status_code, refused.json()["detail"]) == (503, desk.problem)


def test_a_recommender_of_one_namespace() -> None:
    """What it does not look at it cannot tell."""
    desk = Desk(namespace="default")
    assert desk.ask(WEB).status_code == 200
    refused = desk.ask("/v1/namespaces/other/recommendations")
    assert refused.status_code == 404
    assert refused.json()["detail"] == "this recommender looks at namespace default only"


# --- wrong questions


@cases(
    "path status subject field",
    {
        "no such VPA": (
            "/v1/namespaces/default/recommendations/ghost",
            404,
            "VerticalPodAutoscaler default/ghost",
            "path.name",
        ),
        "no such pod": ("/v1/namespaces/default/pods/ghost", 404, "Pod default/ghost", "path.name"),
        "no namespace": (
            "/v1/namespaces/nowhere/pods/ghost",
            404,
            "Pod nowhere/ghost",
            "path.name",
        ),
        "upper case": ("/v1/namespaces/Default/recommendations", 422, "", "path.namespace"),
        "long namespace": (f"/v1/namespaces/{'a' * 64}/recommendations", 422, "", "path.namespace"),
        "long name": (f"/v1/namespaces/a/recommendations/{'a' * 254}", 422, "", "path.name"),
        "control character": ("/v1/namespaces/a/pods/%00", 422, "", "path.name"),
        "emoji": ("/v1/namespaces/a/pods/%F0%9F%98%80", 422, "", "path.name"),
        "dots": ("/v1/namespaces/a/pods/%2e%2e", 422, "", "path.name"),
        "line break": ("/v1/namespaces/a/pods/x%0A", 422, "", "path.name"),
        "slash": ("/v1/namespaces/a/pods/x%2Fy", 404, "", "path"),
        "no boolean": (f"{ALL}?explain=maybe", 422, "", "query.explain"),
        "unknown parameter": (f"{ALL}?explian=true", 422, "", "query.explian"),
        "of another operation": (
            "/v1/namespaces/a/recommendations/b?limit=1",
            422,
            "",
            "query.limit",
        ),
        "unknown path with a parameter": ("/v1/nothing?x=1", 404, "", "path"),
        "below zero": (f"{ALL}?limit=-1", 422, "", "query.limit"),
        "too many": (f"{ALL}?limit=9999999", 422, "", "query.limit"),
        "no path": ("/v1/", 404, "", "path"),
        "not told": ("/v1/namespaces/default", 404, "", "path"),
    },
)
def test_refusals_name_what_is_meant(
    still: Desk, path: str, status: int, subject: str, field: str
) -> None:
    """Whatever is wrong, the answer has one form that names the object and the field."""
    answer = still.ask(path)
    assert answer.headers["content-type"] == MEDIA_TYPE
    found = Problem.model_validate_json(answer.content)
    assert (answer.status_code, found.status, found.object, found.field) == (
        status, status, subject, field,
    )  # fmt: skip
    assert found.detail


def test_names_may_be_encoded(desk: Desk) -> None:
    """A name is the same however its characters are sent, and as long as names can be."""
    assert desk.answer("/v1/namespaces/%64efault/recommendations/%77eb") == desk.answer(WEB)
    name = ".".join(["a" * 63] * 3 + ["b" * 61])
    desk.apply(vpa(name))
    assert desk.answer(f"/v1/namespaces/default/recommendations/{name}")["name"] == name


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed(still: Desk, method: str) -> None:
    """There is only one method."""
    answer = still.ask(WEB, method=method)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.headers["content-type"] == MEDIA_TYPE


# --- beside


def test_probes_and_metrics_stay(still: Desk) -> None:
    """What was behind the port before is there as before."""
    assert still.ask("/metrics").text == "vpa_up 1\n"
    assert still.ask("/health-check").text == "OK"
    assert still.ask("/nothing").status_code == 404


def test_the_documentation(still: Desk) -> None:
    """Each path, parameter and member is described, and so is who may ask."""
    found = still.ask("/openapi.json").json()
    assert found["paths"].keys() == {
        "/v1/recommendations",
        "/v1/namespaces/{namespace}/recommendations",
        "/v1/namespaces/{namespace}/recommendations/{name}",
        "/v1/namespaces/{namespace}/pods/{name}",
    }
    for path in found["paths"].values():
        assert path["get"]["description"]
        assert path["get"]["security"] == [{"HTTPBearer": []}]
        assert {"200", "304", "401", "403", "404", "422", "503"} == path["get"]["responses"].keys()
    steps = found["components"]["schemas"]["Steps"]["properties"]
    assert "percentileAmount + cut(" in steps["withMargin"]["description"]
    assert "swagger" in still.ask("/docs").text


def test_what_is_broken(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody foresaw is told in the same form, and why only in the log."""
    desk.showing.derivations = {("default", "web"): "none"}  # type: ignore[dict-item]  # broken
    answer = desk.ask(WEB)
    assert (answer.status_code, answer.headers["content-type"]) == (500, MEDIA_TYPE)
    assert answer.json()["detail"] == "something is broken; the log tells what"
    assert "question not answered" in caplog.text


# --- many


def test_a_list_of_two_thousand_is_cheap() -> None:
    """All of 2,000 VPAs are told within a second of CPU, in one answer."""
    desk = Desk()
    amount = {"cpu": "247m", "memory": "262144000"}
    entry = {"containerName": "app", **{word: dict(amount) for word in WORDS}}
    recommendation = {"containerRecommendations": [entry]}
    for number in range(2_000):
        item = vpa(f"web-{number:04}")
        item["status"] = {"recommendation": recommendation}
        desk.apply(item)
    known = snapshot_of(desk.sandbox)
    desk.snapshot = lambda: known  # type: ignore[method-assign]  # as a watch cache holds it
    desk.app = desk.application(Guard(None))
    began = time.process_time()
    answer = desk.ask(ALL)
    spent = time.process_time() - began
    assert len(answer.json()["items"]) == 2_001
    assert spent < 1.0


def test_many_ask_at_once(still: Desk) -> None:
    """Questions wait for one another, probes do not wait for questions; too many are refused."""
    answers = still.ask_all(*[ALL] * 150, "/health-check")
    assert answers[-1].text == "OK"
    assert {answer.status_code for answer in answers[:-1]} <= {200, 503}
    assert len({answer.content for answer in answers[:-1] if answer.status_code == 200}) == 1


# --- the page that tells of it

PAGE = Path(__file__).parents[2] / "docs/recommendations-api.md"


def test_the_page_shows_real_answers() -> None:
    """Its examples have the form of answers."""
    container, problem = re.findall(r"^```json\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    Container.model_validate_json(container)
    Problem.model_validate_json(problem)
