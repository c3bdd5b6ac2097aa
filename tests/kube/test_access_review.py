"""An API server tells who asks and what they may do; its answers count for some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given

from app.kube.access_review import BELIEVED_SECONDS, TOKEN_REVIEWS, AccessReviews
from app.kube.client import connect
from app.model.errors import ClusterError, Refused, Unavailable
from app.model.review import Identity
from app.ports import VPAS, Cluster, Json
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from tests.junk import ANYTHING
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.runtime.authorities import Authorities

JANE = Identity("jane", "uid-jane", ("dev", "system:authenticated"))


class Scene:
    """Somebody who knows, and somebody who asks."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.authorities = Authorities(Sandbox(self.clock).cluster)
        self.authorities.know("token", "jane", "dev", "system:authenticated")
        self.access = AccessReviews(cast("Cluster", self.authorities), self.clock)


@pytest.fixture
def scene() -> Scene:
    """Jane has a token and no rights."""
    return Scene()


def test_who_it_is(scene: Scene) -> None:
    """A token is somebody's or nobody's."""
    assert scene.access.who("token") == JANE
    assert scene.access.who("other") is None


@pytest.mark.parametrize(
    ("grant", "asked", "expected"),
    [
        pytest.param(("jane", "get", "a"), ("get", "a"), True, id="in the namespace"),
        pytest.param(("jane", "get", "a"), ("get", "b"), False, id="in another"),
        pytest.param(("jane", "get", "a"), ("list", ""), False, id="another verb"),
        pytest.param(("jane", "list", ""), ("list", ""), True, id="everywhere"),
        pytest.param(("dev", "get", "a"), ("get", "a", "web"), True, id="by group"),
        pytest.param(("jane", "get", "a", "web"), ("get", "a", "web"), True, id="one object"),
        pytest.param(("jane", "get", "a", "web"), ("get", "a"), False, id="only one object"),
    ],
)
def test_rights(
    scene: Scene, grant: tuple[str, ...], asked: tuple[str, ...], expected: bool
) -> None:
    """Whether somebody may is asked for exactly what is wanted."""
    scene.authorities.grant(*grant)
    verb, namespace, *name = asked
    assert scene.access.may(JANE, verb, VPAS, namespace, *name) is expected


def test_answers_count_for_a_while(scene: Scene) -> None:
    """The same question is not put twice within seconds; then what has changed is seen."""
    authorities, access = scene.authorities, scene.access
    for _ in range(3):
        assert access.who("token") == JANE
        assert access.who("other") is None
        assert not access.may(JANE, "get", VPAS, "a")
    assert len(authorities.asked) == 3
    del authorities.users["token"]
    authorities.grant("jane", "get", "a")
    scene.clock.advance(BELIEVED_SECONDS - 0.1)
    assert access.who("token") == JANE
    scene.clock.advance(0.1)

    assert access.who("token") is None
    assert access.may(JANE, "get", VPAS, "a")
    assert len(authorities.asked) == 5


def test_users_of_one_name_are_told_apart(scene: Scene) -> None:
    """Groups and what else is known of a user belong to the question."""
    scene.authorities.grant("dev", "get", "a")
    assert scene.access.may(JANE, "get", VPAS, "a")
    assert not scene.access.may(Identity("jane", "uid-jane"), "get", VPAS, "a")
    extra = Identity("jane", "uid-jane", ("dev",), {"scopes": ("a", "b")})
    assert scene.access.may(extra, "get", VPAS, "a")
    assert scene.authorities.asked[-1]["spec"]["extra"] == {"scopes": ["a", "b"]}


@pytest.mark.parametrize("error", [Unavailable("down"), Refused("forbidden", status=403)])
def test_no_answer_is_not_remembered(scene: Scene, error: ClusterError) -> None:
    """Who knew before is still believed; of others nobody can tell, until somebody can."""
    assert scene.access.who("token") == JANE
    scene.authorities.error = error
    assert scene.access.who("token") == JANE
    with pytest.raises(type(error)):
        scene.access.who("other")
    with pytest.raises(type(error)):
        scene.access.may(JANE, "get", VPAS, "a")
    scene.authorities.error = None
    assert scene.access.who("other") is None


def test_many_tokens_do_not_fill_the_memory(scene: Scene) -> None:
    """The oldest answers are forgotten first."""
    for number in range(2_001):
        scene.access.who(f"garbage {number}")
    asked = len(scene.authorities.asked)
    scene.access.who("garbage 1")
    assert len(scene.authorities.asked) == asked
    scene.access.who("garbage 0")
    assert len(scene.authorities.asked) == asked + 1


# --- over HTTP


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server that keeps reviews, but does not answer them."""
    with serving(TOKEN_REVIEWS) as found:
        yield found


@pytest.fixture
def real(server: ApiServer, tmp_path: Path) -> Iterator[AccessReviews]:
    """Somebody who asks it."""
    path = write(tmp_path / "config", kubeconfig(server.url))
    cluster = connect(str(path))
    yield AccessReviews(cluster, SteppedClock())
    cluster.close()


def answered(server: ApiServer, status: object) -> None:
    """Let the next review be answered with a status."""
    server.fail("/tokenreviews", 201, body={"kind": "TokenReview", "status": status})


def test_the_request(server: ApiServer, real: AccessReviews) -> None:
    """A review goes where API servers take it, with the token in its body alone."""
    answered(server, {"authenticated": True, "user": {"username": "jane"}})
    assert real.who("s3cret") == Identity("jane")
    (request,) = server.asked("/apis/authentication.k8s.io/v1/tokenreviews")
    assert (request.method, request.json["spec"]) == ("POST", {"token": "s3cret"})
    assert "s3cret" not in str((request.path, request.query, request.headers))


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (429, b""), (200, b"not JSON"), (200, b'{"half": '), (200, b"{}"), (200, b"[1]")],
)
def test_a_server_in_trouble(
    server: ApiServer, real: AccessReviews, status: int, body: bytes
) -> None:
    """Whatever is no answer is an error, and nobody is let in by it."""
    server.fail("/tokenreviews", status, body=body, times=9)
    with pytest.raises(ClusterError):
        real.who("token")


@given(status=ANYTHING, user=ANYTHING)
def test_odd_answers_let_nobody_in(status: object, user: object) -> None:
    """Only an answer that says so in plain words makes a token somebody's."""

    class Odd:
        def create(self, *_: object, **__: object) -> Json:
            return {"status": {"authenticated": status, "allowed": status, "user": user}}

    access = AccessReviews(cast("Cluster", Odd()), SteppedClock())
    found = access.who("token")
    named = isinstance(user, dict) and isinstance(user.get("username"), str) and user["username"]
    assert (found is not None) == (status is True and bool(named))
    assert access.may(JANE, "get", VPAS, "a") is (status is True)
