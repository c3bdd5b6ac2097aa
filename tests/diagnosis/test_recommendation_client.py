"""Asking a recommender over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.diagnosis.recommendation_client import RECOMMENDER, RecommenderAccess, answers
from app.model.errors import BadSetting, ClusterError, Refused, Unavailable
from tests.kube.recommender_server import RecommenderServer, answer_json, recommending

NAMES = ["a", "b", "c", "d", "e"]


def names(
    server: RecommenderServer, namespace: str = "", token_file: Path | None = None
) -> list[str]:
    """Return the names of the VPAs that are told of."""
    access = RecommenderAccess(server.url, token_file)
    return [item["name"] for item in answers(access, namespace)]


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
        (200, b"<html>", Unavailable, "the answer is no JSON object"),
        (200, b"[]", Unavailable, "the answer is no JSON object"),
        (404, b"{}", ClusterError, "HTTP status 404"),
    ],
)
def test_refusals(status: int, body: bytes, kind: type[ClusterError], sentence: str) -> None:
    """Whatever comes instead of an answer is told in a sentence that names the address."""
    with recommending() as server:
        server.refusal = status, body
        with pytest.raises(kind, match=f"^GET {server.url}.*{sentence}$"):
            names(server)


def test_nobody_there() -> None:
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
        (RecommenderAccess("https://localhost", None, Path("/no/ca")), "--ca-file: /no/ca: "),
    ],
)
def test_wrong_addresses_and_files(access: RecommenderAccess, sentence: str) -> None:
    """What cannot be used is told with its flag before anything is sent."""
    with pytest.raises(BadSetting, match=f"^{sentence}"):
        list(answers(access, ""))
