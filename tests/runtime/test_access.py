"""Only users that may see VPAs are answered; an unknown user and a missing right differ."""

from __future__ import annotations

from typing import cast

import pytest

from app.flags.shared import PortAccess
from app.kube.access_review import AUDIENCE, AccessReviews
from app.model.errors import ClusterError, Refused, TooMany, Unavailable
from app.ports import PODS, Cluster
from app.runtime.access import Caller, Guard, guard_of
from app.runtime.answers import MEDIA_TYPE, Refusal
from tests.cases import cases
from tests.cluster_in_memory import ClusterInMemory, outage
from tests.reached_limits import ReachedLimits
from tests.runtime.asking import Desk
from tests.runtime.authorities import jwt
from tests.stepped_clock import SteppedClock

ALL = "/v1/recommendations"
HERE = "/v1/namespaces/default/recommendations"
WEB = f"{HERE}/web"
GHOST = f"{HERE}/ghost"
POD = "/v1/namespaces/default/pods/ghost"
OTHER = "/v1/namespaces/other/recommendations"
NUMBERS = "/metrics/recommendations"
OUR_TOKEN, ANOTHERS_TOKEN = (jwt(aud=[audience]) for audience in (AUDIENCE, "another"))


@pytest.fixture(scope="module")
def asked() -> Desk:
    """A recommender that asks for tokens, after a round."""
    found = Desk(is_guarded=True)
    found.rounds(1)
    known, grant = found.authorities.know, found.authorities.grant
    known("jane-token", "jane", "dev")
    known("admin-token", "admin")
    known("one-token", "one")
    known("lister-token", "lister")
    grant("dev", "get", "default")
    grant("admin", "get")
    grant("admin", "list")
    grant("one", "get", "default", "web")
    grant("lister", "list", "default")
    for who, place in (("jane", "default"), ("admin", "")):
        grant(who, "get", place, resource=PODS)
    known("podless-token", "podless", "dev")
    known(OUR_TOKEN, "jane", "dev", audience=AUDIENCE)
    known(ANOTHERS_TOKEN, "jane", "dev", audience="another")
    return found


def status(desk: Desk, path: str, token: str) -> int:
    """Return the status of an answer."""
    return desk.ask(path, authorization=f"Bearer {token}").status_code


@cases(
    "token statuses",
    {
        "of a namespace": ("jane-token", (403, 200, 200, 404, 404, 403)),
        "of all": ("admin-token", (200, 200, 200, 404, 404, 200)),
        "of one VPA": ("one-token", (403, 403, 200, 403, 403, 403)),
        "of another verb": ("lister-token", (403, 403, 403, 403, 403, 403)),
        "of no pods": ("podless-token", (403, 200, 200, 404, 403, 403)),
        "for us alone": (OUR_TOKEN, (403, 200, 200, 404, 404, 403)),
        "for somebody else": (ANOTHERS_TOKEN, (401, 401, 401, 401, 401, 401)),
        "of no user": ("wrong-token", (401, 401, 401, 401, 401, 401)),
    },
)
def test_who_may_see_what(asked: Desk, token: str, statuses: tuple[int, ...]) -> None:
    """Rights are those over VPAs, and pods; without one not even what is missing is told."""
    found = tuple(status(asked, path, token) for path in (ALL, HERE, WEB, GHOST, POD, OTHER))
    assert found == statuses


def test_a_refusal_says_what_is_missing(asked: Desk) -> None:
    """A known user is named, with the right that is missing."""
    answer = asked.ask(ALL, authorization="Bearer jane-token")
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json()["detail"] == (
        "user 'jane' may not list verticalpodautoscalers.autoscaling.k8s.io in all namespaces"
    )
    answer = asked.ask(OTHER, authorization="Bearer jane-token")
    assert answer.json()["detail"].endswith("in namespace other")
    answer = asked.ask("/v1/namespaces/other/recommendations/x", authorization="Bearer jane-token")
    assert answer.json()["object"] == "VerticalPodAutoscaler other/x"
    answer = asked.ask(POD, authorization="Bearer podless-token").json()
    told = "user 'podless' may not get pods in namespace default"
    assert (answer["object"], answer["detail"]) == ("Pod default/ghost", told)


@cases(
    "header",
    {
        "none": ("",),
        "no token": ("Bearer",),
        "blank": ("Bearer   ",),
        "another scheme": ("Basic amFuZTpqYW5l",),
        "no scheme": ("jane-token",),
        "a space": ("Bearer jane token",),
        "control character": ("Bearer jane-token\x7f",),
        "not ASCII": ("Bearer j\xe4ne",),
        "huge": ("Bearer " + "x" * 20_000,),
        "garbage": ("Bearer \\0{}[]'\"; DROP TABLE",),
    },
)
def test_what_is_no_token(asked: Desk, header: str) -> None:
    """It is refused without a review, and the answer says what to send."""
    before = len(asked.authorities.asked)
    answer = asked.ask(WEB, authorization=header)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="plumbline"'
    assert answer.json()["field"] == "header.authorization"
    assert len(asked.authorities.asked) == before


def test_the_scheme_may_be_written_in_any_way(asked: Desk) -> None:
    """Schemes know no case."""
    assert asked.ask(WEB, authorization="bearer jane-token").status_code == 200


@cases(
    "error word",
    {
        "down": (Unavailable("10.0.0.1 down"), "gives no answer"),
        "busy": (TooMany("10.0.0.1 busy"), "gives no answer"),
        "we may not ask": (Refused("10.0.0.1"), "system:auth-delegator"),
    },
)
def test_no_answer(asked: Desk, error: ClusterError, word: str) -> None:
    """Without an answer about a token there is no access, and it is not the token's fault."""
    asked.authorities.error = error
    try:
        answer = asked.ask(WEB, authorization="Bearer unknown")
    finally:
        asked.authorities.error = None
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert word in answer.json()["detail"]
    assert "10.0.0.1" not in answer.text  # it is not known yet who reads it


def test_what_needs_no_token(asked: Desk) -> None:
    """Probes, numbers and the documentation are open; they tell of no VPA."""
    for path in ("/health-check", "/livez", "/readyz", "/metrics", "/openapi.json", "/docs"):
        assert asked.ask(path).status_code == 200, path


def test_tags_are_no_way_in(asked: Desk) -> None:
    """With the tag of an answer the right to it is needed all the same."""
    tag = asked.ask(WEB, authorization="Bearer jane-token").headers["etag"]
    assert asked.ask(WEB, if_none_match=tag).status_code == 401
    answer = asked.ask(WEB, if_none_match=tag, authorization="Bearer lister-token")
    assert answer.status_code == 403


def test_the_numbers_of_all_vpas(asked: Desk) -> None:
    """Who scrapes what is recommended may list VPAs everywhere, as who reads it."""
    assert asked.ask(NUMBERS).status_code == 401
    assert status(asked, NUMBERS, "jane-token") == 403
    answer = asked.ask(NUMBERS, authorization="Bearer admin-token")
    assert 'plumbline_recommendation{namespace="default"' in answer.text


@cases(
    "flags url client code",
    {
        "over the network": ((), "http://vpa", "10.0.0.1", 403),
        "over the network, as told": (("--tokens-over-http",), "http://vpa", "10.0.0.1", 200),
        "without an address": ((), "http://vpa", "", 403),
        "from this machine": ((), "http://vpa", "127.0.0.1", 200),
        "from this machine, by a socket for both": ((), "http://vpa", "::ffff:127.0.0.1", 200),
        "by TLS": ((), "https://vpa", "10.0.0.1", 200),
    },
)
def test_tokens_that_others_can_read(
    asked: Desk, flags: tuple[str, ...], url: str, client: str, code: int
) -> None:
    """They are refused unless a flag takes them; so is a request that might send one next."""
    access = PortAccess(None, None, tokens_over_http=bool(flags))
    cluster = cast("Cluster", asked.authorities)
    desk_app, asked.app = (
        asked.app,
        asked.application(guard_of("", access, cluster, asked.sandbox.clock, ReachedLimits())),
    )
    before = len(asked.authorities.asked)
    try:
        answers = [
            asked.ask(path, url=url, client=client, authorization=token)
            for path in (WEB, NUMBERS)
            for token in ("Bearer admin-token", "")
        ]
    finally:
        asked.app = desk_app
    assert [answer.status_code for answer in answers] == [code, 403 if code == 403 else 401] * 2
    if code == 403:
        assert "--tls-cert-file" in answers[0].json()["detail"]
        assert len(asked.authorities.asked) == before


def test_questions_that_cannot_be_checked_are_one_line_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However many ask while the API server is away, the log has a line that counts them."""
    clock = SteppedClock()
    cluster = ClusterInMemory(clock.now)
    guard = Guard(AccessReviews(cluster, clock, ReachedLimits()), seconds=clock.monotonic)
    for number in range(100):
        cluster.failures = outage(1)
        with pytest.raises(Refusal):
            guard.identify(Caller(f"Bearer token-{number}"))
        clock.wait(1)

    lines = [vars(record) for record in caplog.records]
    assert [(line["message"], line["times"]) for line in lines] == [
        ("access cannot be checked", 1),
        ("access cannot be checked", 60),
    ]
