"""Asking a recommender over HTTP."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from app.diagnosis.core.comparisons import LearnedHistory
from app.diagnosis.recommendation_client import (
    RECOMMENDER,
    RecommendedVpas,
    RecommenderAccess,
    answers,
    recommended_vpas,
)
from app.model.errors import BadSetting, ClusterError, Refused, Unavailable
from app.model.fields import Json
from app.model.vpa import ContainerRecommendation
from tests import make
from tests.kube.recommender_server import RecommenderServer, answer_json, recommending

NAMES = ["a", "b", "c", "d", "e"]


def names(
    server: RecommenderServer, namespace: str = "", token_file: Path | None = None
) -> list[str]:
    """Return the names of the VPAs that are told of."""
    access = RecommenderAccess(server.url, token_file)
    return [item["name"] for item in answers(access, namespace)]


def recommended(*items: Json) -> RecommendedVpas:
    """Return what is read from answers."""
    with recommending() as server:
        server.refusal = 200, orjson.dumps({"items": items, "next": ""})
        return recommended_vpas(RecommenderAccess(server.url), "")


def test_an_answer_is_its_vpa() -> None:
    """Target, mode and amounts are those that the VPA has in the cluster."""
    (vpa,) = recommended(answer_json()).vpas
    assert (vpa.namespace, vpa.name, vpa.mode) == ("default", "web", "Recreate")
    assert vpa.target is not None
    assert str(vpa.target.key) == "StatefulSet/web"
    amounts = vpa.recommended("app")
    assert amounts is not None
    assert amounts.target == make.quantities(cpu="350m")
    assert amounts.upper_bound == make.quantities(cpu="1")


def test_an_answer_without_amounts_recommends_nothing() -> None:
    """A container of which nothing is known is no recommendation of nothing."""
    found = recommended(answer_json(cpu=None))
    assert found.vpas[0].recommendation is None
    assert found.histories == {}


def test_evidence_is_history() -> None:
    """Confidence is that of the resource which is known least."""
    history = LearnedHistory(720, make.NOW.replace(hour=9, minute=59), 0.5)
    assert recommended(answer_json()).histories == {("default", "web", "app"): history}


def test_evidence_without_confidence() -> None:
    """What is not told counts as nothing."""
    answer = answer_json()
    answer["containers"][0]["evidence"]["confidence"] = {"cpu": "much"}
    (history,) = recommended(answer).histories.values()
    assert history.confidence == 0.0


@pytest.mark.parametrize("evidence", [7, {"samples": "many"}, {"confidence": 7}])
def test_garbage_is_no_history(evidence: object) -> None:
    """What cannot be read of the history tells nothing, and the VPA is read all the same."""
    answer = answer_json()
    answer["containers"][0]["evidence"] = evidence
    found = recommended(answer)
    assert [vpa.name for vpa in found.vpas] == ["web"]
    assert (found.histories, found.problems) == ({}, [])


def test_a_newer_recommender_is_understood() -> None:
    """Fields and words that are not known here change nothing else."""
    newer = answer_json() | {"mood": "fine"}
    newer["containers"][0] |= {"mood": "fine", "origin": {"cpu": "guessed"}}
    assert recommended(newer) == recommended(answer_json())


def test_unknown_words_are_kept() -> None:
    """An update mode that is not known here is shown as the recommender says it."""
    (vpa,) = recommended(answer_json() | {"updateMode": "Sometimes"}).vpas
    assert vpa.mode == "Sometimes"


def test_an_older_recommender_is_understood() -> None:
    """Names and a target are enough; what else is missing counts as absent."""
    container = {"container": "app", "target": {"cpu": "350m"}}
    found = recommended({"namespace": "default", "name": "web", "containers": [container, {}]})
    (vpa,) = found.vpas
    assert (vpa.mode, vpa.target, vpa.conditions) == ("Recreate", None, ())
    amounts = ContainerRecommendation("app", make.quantities(cpu="350m"), {}, {}, {})
    assert vpa.recommendation == (amounts,)
    assert (found.histories, found.problems) == ({}, [])


@pytest.mark.parametrize(
    ("garbage", "problem"),
    [
        ({"containers": 7}, "containers: expected a list, found the number 7"),
        ({"conditions": 7}, "conditions: expected a list, found the number 7"),
        ({"target": 7}, "spec.targetRef: expected an object, found the number 7"),
    ],
)
def test_an_answer_of_another_shape_is_a_problem(garbage: Json, problem: str) -> None:
    """It names the VPA and the field that is wrong, and the other answers are read."""
    found = recommended(answer_json("broken") | garbage, answer_json())
    assert [vpa.name for vpa in found.vpas] == ["web"]
    assert list(map(str, found.problems)) == [f"the answer about default/broken: {problem}"]


def test_all_pages_are_read() -> None:
    """However many pages there are, every VPA comes once, in order."""
    with recommending(*(answer_json(name) for name in NAMES)) as server:
        assert names(server) == NAMES
        assert len(server.asked) == 3


def test_a_namespace_is_asked_for_alone() -> None:
    """A namespace has a path of its own, so that no right for all is needed."""
    with recommending(answer_json("web"), answer_json("far", namespace="bank")) as server:
        assert names(server, "bank") == ["far"]
        assert server.asked[0].startswith("/v1/namespaces/bank/recommendations?")


def test_a_token(tmp_path: Path) -> None:
    """The token of a file is sent; without it the refusal is told."""
    (tmp_path / "token").write_text("secret\n", "ascii")
    with recommending(answer_json(), token="secret") as server:
        assert names(server, token_file=tmp_path / "token") == ["web"]
        with pytest.raises(Refused, match=r"recommendations: the bearer token is not valid$"):
            names(server)


@pytest.mark.parametrize(
    ("status", "body", "kind", "sentence"),
    [
        (503, b'{"detail": "VPAs are not read yet"}', Unavailable, "VPAs are not read yet"),
        (500, b"<html>", Unavailable, "HTTP status 500"),
        (200, b"<html>", Unavailable, "the answer is not a JSON object"),
        (200, b"[]", Unavailable, "the answer is not a JSON object"),
        (404, b"{}", ClusterError, "HTTP status 404"),
    ],
)
def test_refusals(status: int, body: bytes, kind: type[ClusterError], sentence: str) -> None:
    """Whatever comes instead of an answer is told in a sentence that names the address."""
    with recommending() as server:
        server.refusal = status, body
        with pytest.raises(kind, match=f"^GET {server.url}.*{sentence}$"):
            names(server)


def test_no_recommender() -> None:
    """A recommender that does not answer is told from a cluster that does not."""
    with recommending() as server:
        pass
    with pytest.raises(Unavailable) as caught:
        names(server)
    assert caught.value.reason == RECOMMENDER


@pytest.mark.parametrize(
    ("access", "sentence"),
    [
        (RecommenderAccess("localhost:8942"), "--from takes a URL such as http://localhost:8942"),
        (RecommenderAccess("http://here:x"), "--from: "),
        (RecommenderAccess("http://localhost", Path("/no/token")), "--token-file: /no/token: "),
        (
            RecommenderAccess("http://recommender:8942", Path("/no/token")),
            "--token-file: no token is sent to recommender over plain HTTP",
        ),
        (
            RecommenderAccess("http://recommender", Path("/no/token"), sends_tokens_over_http=True),
            "--token-file: /no/token: ",
        ),
        (RecommenderAccess("https://recommender", Path("/no/token")), "--token-file: /no/token: "),
        (RecommenderAccess("https://localhost", None, Path("/no/ca")), "--ca-file: /no/ca: "),
    ],
)
def test_wrong_addresses_and_files(access: RecommenderAccess, sentence: str) -> None:
    """What cannot be used is told with its flag before anything is sent."""
    with pytest.raises(BadSetting, match=f"^{sentence}"):
        list(answers(access, ""))
