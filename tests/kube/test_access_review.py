"""An API server tells who asks and what they may do; its answers count for some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given

from app.kube.access_review import AUDIENCE, BELIEVED_SECONDS, TOKEN_REVIEWS, AccessReviews
from app.kube.client import connect
from app.model.errors import ClusterError, Refused, Unavailable
from app.model.review import Identity
from app.ports import VPAS, Cluster, Json, LookupLimit
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.cases import cases
from tests.junk import ANYTHING
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.reached_limits import ReachedLimits
from tests.runtime.authorities import Authorities, jwt

JANE = Identity("jane", "uid-jane", ("dev", "system:authenticated"))


@pytest.fixture
def clock() -> SteppedClock:
    """A clock for what is remembered."""
    return SteppedClock()


@pytest.fixture
def authorities(clock: SteppedClock) -> Authorities:
    """An API server that knows the token of Jane, who has no rights."""
    found = Authorities(Sandbox(clock).cluster)
    found.know("token", "jane", "dev", "system:authenticated")
    return found


@pytest.fixture
def reached() -> ReachedLimits:
    """Limits that were reached."""
    return ReachedLimits()


@pytest.fixture
def access(authorities: Authorities, clock: SteppedClock, reached: ReachedLimits) -> AccessReviews:
    """What asks it."""
    return AccessReviews(cast("Cluster", authorities), clock, reached)


def test_who_it_is(access: AccessReviews) -> None:
    """A token belongs to a user, or is unknown."""
    assert access.who("token") == JANE
    assert access.who("other") is None


def test_tokens_for_us_alone(access: AccessReviews, authorities: Authorities) -> None:
    """One that is good nowhere else is accepted, one for somebody else, or a forged one, is not."""
    for audience, expected in ((AUDIENCE, JANE), ("another", None)):
        token, forged = jwt(aud=[audience]), jwt(aud=[audience], sub="forged")
        authorities.know(token, "jane", "dev", "system:authenticated", audience=audience)
        assert (access.who(token), access.who(forged)) == (expected, None)


@cases(
    "token claims_us",
    {
        "opaque": ("s3cret", False),
        "a name": (jwt(aud=AUDIENCE), True),
        "among others": (jwt(aud=["https://api", AUDIENCE]), True),
        "of others": (jwt(aud=["https://api"]), False),
        "of nobody": (jwt(), False),
        "no object": ("e30.MQ.x", False),
        "no base64": ("e30.?\xe4.x", False),
        "no JSON": ("e30.e30e.x", False),
    },
)
def test_the_audience_that_is_asked_for(
    access: AccessReviews, authorities: Authorities, token: str, claims_us: bool
) -> None:
    """The server is asked whether a token is for us when that is what the token says."""
    access.who(token)
    (body,) = authorities.asked
    assert body["spec"] == {"token": token} | ({"audiences": [AUDIENCE]} if claims_us else {})


def test_a_server_that_knows_no_audiences(server: ApiServer, real: AccessReviews) -> None:
    """Whom a token is for must be confirmed: a server that leaves that out has not looked."""
    answered(server, {"authenticated": True, "user": {"username": "jane"}})
    assert real.who(jwt(aud=AUDIENCE)) is None


@cases(
    "grant asked expected",
    {
        "in the namespace": (("jane", "get", "a"), ("get", "a"), True),
        "in another": (("jane", "get", "a"), ("get", "b"), False),
        "everywhere": (("jane", "list", ""), ("list", ""), True),
        "by group": (("dev", "get", "a"), ("get", "a", "web"), True),
        "one object": (("jane", "get", "a", "web"), ("get", "a", "web"), True),
    },
)
def test_rights(
    access: AccessReviews,
    authorities: Authorities,
    grant: tuple[str, ...],
    asked: tuple[str, ...],
    expected: bool,
) -> None:
    """A right is asked for exactly what is wanted."""
    authorities.grant(*grant)
    verb, namespace, *name = asked
    assert access.may(JANE, verb, VPAS, namespace, *name) is expected


def test_answers_count_for_a_while(
    access: AccessReviews, authorities: Authorities, clock: SteppedClock
) -> None:
    """The same question is not put twice within seconds; then what has changed is seen."""
    for _ in range(3):
        assert access.who("token") == JANE
        assert access.who("other") is None
        assert not access.may(JANE, "get", VPAS, "a")
    assert len(authorities.asked) == 3
    del authorities.users["token"]
    authorities.grant("jane", "get", "a")
    clock.advance(BELIEVED_SECONDS - 0.1)
    assert access.who("token") == JANE
    clock.advance(0.1)

    assert access.who("token") is None
    assert access.may(JANE, "get", VPAS, "a")
    assert len(authorities.asked) == 5


def test_users_of_one_name_are_told_apart(access: AccessReviews, authorities: Authorities) -> None:
    """Groups and what else is known of a user belong to the question."""
    authorities.grant("dev", "get", "a")
    assert access.may(JANE, "get", VPAS, "a")
    assert not access.may(Identity("jane", "uid-jane"), "get", VPAS, "a")
    extra = Identity("jane", "uid-jane", ("dev",), {"scopes": ("a", "b")})
    assert access.may(extra, "get", VPAS, "a")
    assert authorities.asked[-1]["spec"]["extra"] == {"scopes": ["a", "b"]}


@pytest.mark.parametrize("error", [Unavailable("down"), Refused("forbidden", status=403)])
def test_no_answer_is_not_remembered(
    access: AccessReviews, authorities: Authorities, error: ClusterError
) -> None:
    """What was answered before counts; other questions are errors, until there are answers."""
    assert access.who("token") == JANE
    authorities.error = error
    assert access.who("token") == JANE
    with pytest.raises(type(error)):
        access.who("other")
    with pytest.raises(type(error)):
        access.may(JANE, "get", VPAS, "a")
    authorities.error = None
    assert access.who("other") is None


def test_many_tokens_do_not_fill_the_memory(
    access: AccessReviews, authorities: Authorities, clock: SteppedClock, reached: ReachedLimits
) -> None:
    """The oldest answers are forgotten first, which is counted while they count."""
    access.who("over")
    clock.wait(BELIEVED_SECONDS)
    for number in range(2_001):
        access.who(f"garbage {number}")
    assert reached.counts == {LookupLimit.ACCESS_ANSWERS: 1}
    asked = len(authorities.asked)
    access.who("garbage 1")
    assert len(authorities.asked) == asked
    access.who("garbage 0")
    assert len(authorities.asked) == asked + 1


# --- over HTTP


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server that keeps reviews, but does not answer them."""
    with serving(TOKEN_REVIEWS) as found:
        yield found


@pytest.fixture
def real(server: ApiServer, tmp_path: Path) -> Iterator[AccessReviews]:
    """What asks it."""
    path = write(tmp_path / "config", kubeconfig(server.url))
    cluster = connect(str(path))
    yield AccessReviews(cluster, SteppedClock(), ReachedLimits())
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
    """Whatever is no answer is an error, and gives no access."""
    server.fail("/tokenreviews", status, body=body, times=9)
    with pytest.raises(ClusterError):
        real.who("token")


@given(status=ANYTHING, user=ANYTHING)
def test_odd_answers_give_no_access(status: object, user: object) -> None:
    """Only an answer that says so in plain words makes a token a user's."""

    class Odd:
        def create(self, *_: object, **__: object) -> Json:
            return {"status": {"authenticated": status, "allowed": status, "user": user}}

    access = AccessReviews(cast("Cluster", Odd()), SteppedClock(), ReachedLimits())
    found = access.who("token")
    named = isinstance(user, dict) and isinstance(user.get("username"), str) and user["username"]
    assert (found is not None) == (status is True and bool(named))
    assert access.may(JANE, "get", VPAS, "a") is (status is True)
