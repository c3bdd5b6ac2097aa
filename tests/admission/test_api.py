"""What /explain says is what /mutate would do, for those who may know, and nothing comes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import cast

import httpx
import orjson
import pytest

from app.admission.app import description
from app.admission.responses import decoded
from app.admission.review_models import AdmissionReview, ExplainedReview
from app.admission.reviews import ReviewRules
from app.kube.access_review import AccessReviews
from app.model.errors import Refused, Unavailable
from app.model.fields import Json
from app.model.quantity import Quantity
from app.model.snapshot import Snapshot
from app.model.workloads import Absent, Failed, Lookup, LookupResult
from app.ports import PODS, Cluster
from app.runtime.access import Guard
from app.runtime.answers import MEDIA_TYPE, Problem
from app.runtime.http_requests import MOST_BYTES
from tests import make
from tests.admission.test_app import JSON, of_containers, request, with_notes
from tests.cases import cases
from tests.make import ALL_GATES
from tests.reached_limits import ReachedLimits
from tests.runtime.authorities import Authorities
from tests.runtime.reviewing import WEB, Desk, Lines, Stored, desk, logged
from tests.stepped_clock import SteppedClock

POD = make.review_json(make.pod_json(cpu="100m"))
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RULES = ReviewRules(ALL_GATES, Quantity.parse("700m"))
BOOSTED = make.vpa_json(
    "boosted",
    target="Deployment/boosted",
    cpu="300m",
    memory="200Mi",
    boost=make.boost_json(factor=3),
    policies=[make.policy_json(max_allowed={"cpu": "250m"})],
)
OBJECTS = (*WEB, BOOSTED, make.workload_json("Deployment/boosted"))


class Chain:
    """Owners that no snapshot holds."""

    def find(self, lookup: Lookup, _deadline_seconds: float, /) -> LookupResult:
        """Return a replica set of a Deployment, or say what is wrong."""
        if lookup.name == "slow":
            return Failed("no answer in time")
        if lookup.name == "new":
            return make.workload("ReplicaSet/new", owner="Deployment/boosted")
        return Absent()


def asking(
    *, snapshot: Callable[[], Snapshot] | None = None, is_read: Callable[[], bool] = lambda: True
) -> Desk:
    """Return a desk that knows the objects."""
    return desk(
        *OBJECTS,
        owners=Chain(),
        rules=RULES,
        siblings=Stored((make.vpa("old"),)),
        snapshot=snapshot,
        is_read=is_read,
    )


def ask(
    at: Desk,
    *bodies: Json | bytes,
    path: str = "/explain",
    guard: Guard | None = None,
    client: str = "192.0.2.1",
    url: str = "https://webhook",
    method: str = "POST",
    headers: Mapping[str, str] = JSON,
) -> list[httpx.Response]:
    """Ask all questions at once."""

    async def exchange() -> list[httpx.Response]:
        transport = httpx.ASGITransport(at.app(guard), client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url=url, headers=headers) as caller:
            contents = [body if isinstance(body, bytes) else orjson.dumps(body) for body in bodies]
            asked = (caller.request(method, path, content=content) for content in contents)
            return await asyncio.gather(*asked)

    return asyncio.run(exchange())


def owned(owner: str, annotations: Mapping[str, str] | None = None) -> Json:
    """Return the review of a pod of some owner."""
    pod = make.pod_json(cpu="100m", memory="100Mi", owner=owner, annotations=annotations)
    return make.review_json(pod)


SAME = {
    "sized": POD,
    "boosted and capped": owned("Deployment/boosted"),
    "brings a boost along": owned("Job/x", annotations={"vpaCpuStartupBoost/app": "{}"}),
    "its owner is looked up": owned("ReplicaSet/new"),
    "its owner is not found": owned("ReplicaSet/gone"),
    "its owner is not told": owned("ReplicaSet/slow"),
    "no controller": make.review_json(make.pod_json(owner=None)),
    "another namespace": request(namespace="other"),
    "a wrong quantity": request(object=make.pod_json(cpu="much")),
    "no pod": request(object="x"),
    "another version": request(resource={"version": "v2", "resource": "pods"}),
    "an update": request(operation="UPDATE"),
    "many containers": of_containers(100),
    "large": with_notes(300_000),
    "by hand": {"request": {key: POD["request"][key] for key in ("resource", "object")}},
    "a VPA without its mode": make.review_json(make.vpa_json("new", target="Job/x")),
    "a VPA with a warning": make.review_json(make.vpa_json("new", target="Job/x", mode="Auto")),
    "a VPA with mistakes": make.review_json(make.vpa_json("new", mode="x", min_replicas=0)),
    "a VPA beside another one": make.review_json(make.vpa_json("new")),
    "a VPA that goes": make.review_json(old=make.vpa_json("new"), operation="DELETE"),
    "a VPA that is tried": make.review_json(make.vpa_json("x", target="Job/x"), dry_run=True),
    "another resource": request(resource={"group": "apps", "resource": "deployments"}),
    "no review": {"request": {"uid": "u", "kind": []}},
    "nothing": {},
}


@cases("review", {name: (review,) for name, review in SAME.items()})
def test_the_same_as_mutate(review: Json) -> None:
    """The response is that of /mutate, to the letter, but for the patch, which is decoded."""
    headers = JSON | {"traceparent": TRACE}
    (mutated,) = ask(asking(), review, path="/mutate", headers=headers)
    (explained,) = ask(asking(), review, headers=headers)
    assert explained.status_code == mutated.status_code == 200
    wanted = decoded(mutated.json())
    answer = explained.json()
    assert answer.pop("explanation")["reason"]
    assert answer == wanted
    assert explained.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("is_read", [True, False])
def test_the_same_while_not_all_is_read(is_read: bool) -> None:
    """What is not known to /mutate is not known here."""
    found = [ask(asking(is_read=lambda: is_read), POD, path=path)[0] for path in PATHS]
    assert found[0].json()["response"] == decoded(found[1].json())["response"]
    assert found[0].json()["explanation"]["reason"] == ("Sized" if is_read else "NotRead")


PATHS = ("/explain", "/mutate")


@cases(
    "review reason",
    {
        "sized": (POD, "Sized"),
        "its owner is looked up": (SAME["its owner is looked up"], "Sized"),
        "no controller": (SAME["no controller"], "NoController"),
        "a VPA": (SAME["a VPA with mistakes"], "NotAPod"),
        "another resource": (SAME["another resource"], "NotAPod"),
        "no review": (SAME["no review"], "UnreadableReview"),
    },
)
def test_nothing_comes_of_it(review: Json, reason: str) -> None:
    """A question is neither counted nor logged."""
    at, lines = asking(), Lines()
    with logged(lines):
        (answer,) = ask(at, review)
    assert answer.json()["explanation"]["reason"] == reason
    assert (at.numbers.seen, lines.records) == ([], [])


def test_a_question_claims_nothing() -> None:
    """A VPA that is asked about stands in no one's way; one that passed does, here as there."""
    one, two = (make.review_json(make.vpa_json(name, target="Job/x")) for name in ("one", "two"))
    at = asking()
    ask(at, one)
    assert at.answer(two)["allowed"]
    assert not at.answer(one)["allowed"]
    assert not ask(at, one)[0].json()["response"]["allowed"]


def test_every_step_is_told() -> None:
    """Which VPA, what was recommended, what capped it, the boost and what is written."""
    explanation = ask(asking(), owned("ReplicaSet/new"))[0].json()["explanation"]
    assert explanation["vpa"]["name"] == "boosted"
    (container,) = explanation["containers"]
    assert container["cpu"] == {
        "had": {"request": "100m"},
        "recommended": "300m",
        "caps": ["capped to maxAllowed: 250m"],
        "boost": {"from": "250m", "wanted": "750m", "to": "700m"}
        | {"heldBy": "--max-allowed-cpu-boost"},
        "gets": {"request": "700m"},
        "aboutLimit": "the container has none",
    }


def broken() -> Snapshot:
    """Raise."""
    raise ZeroDivisionError("secret of an object")


def test_what_breaks() -> None:
    """What /mutate could not decide is told as such, without what went wrong."""
    (answer,) = ask(asking(snapshot=broken), POD)
    assert answer.json()["response"] == {
        "uid": "review-1",
        "allowed": True,
        "auditAnnotations": {"reason": "InternalError"},
    }
    assert answer.json()["explanation"] == {
        "reason": "InternalError",
        "message": "the log tells what went wrong",
    }


# --- who may ask


def authorities() -> Authorities:
    """Return an API server that knows some users."""
    found = Authorities(cast("Cluster", None))
    for user in ("jane", "admin", "podless", "blind"):
        found.know(f"{user}-token", user)
    for user, namespace in (("jane", "default"), ("admin", ""), ("podless", "")):
        found.grant(user, "get", namespace)
        found.grant(user, "list", namespace)
    for user, namespace in (("jane", "default"), ("admin", ""), ("blind", "")):
        found.grant(user, "list", namespace, resource=PODS)
    return found


def guard_by(found: Authorities) -> Guard:
    """Return a guard that asks an API server."""
    return Guard(AccessReviews(cast("Cluster", found), SteppedClock(), ReachedLimits()))


@cases(
    "token statuses",
    {
        "of one namespace": ("Bearer jane-token", (200, 403, 403, 200)),
        "of all": ("Bearer admin-token", (200, 200, 200, 200)),
        "of VPAs alone": ("Bearer podless-token", (403, 403, 403, 200)),
        "of pods alone": ("Bearer blind-token", (403, 403, 403, 200)),
        "unknown": ("Bearer x", (401, 401, 401, 401)),
        "none": ("", (401, 401, 401, 401)),
    },
)
def test_who_may_ask(token: str, statuses: tuple[int, ...]) -> None:
    """Who is told may see the VPAs and the pods of the namespace; an unknown user nothing."""
    nowhere = request(namespace=None, object={"metadata": {}})
    bodies = (POD, request(namespace="other"), nowhere, b"{")
    headers = JSON | ({"authorization": token} if token else {})
    found = ask(asking(), *bodies, guard=guard_by(authorities()), headers=headers)
    assert tuple(answer.status_code for answer in found) == statuses
    for answer in found:
        if answer.status_code != 200:
            assert answer.headers["content-type"] == MEDIA_TYPE
            assert Problem.model_validate_json(answer.content).status == answer.status_code
            assert b"web" not in answer.content


@cases(
    "token",
    {"no VPAs may be seen": ("Bearer blind-token",), "no pods may": ("Bearer podless-token",)},
)
def test_a_refusal_names_the_namespace_where_the_review_does(token: str) -> None:
    """Of a question in a body the field is named there, not in a path that it does not have."""
    headers = JSON | {"authorization": token}
    (answer,) = ask(asking(), POD, guard=guard_by(authorities()), headers=headers)
    assert Problem.model_validate_json(answer.content).field == "body.request.namespace"


@cases(
    "error hint",
    {
        "we may not ask": (Refused("no"), "system:auth-delegator"),
        "it is away": (Unavailable("no"), "gives no answer"),
    },
)
def test_access_that_cannot_be_checked(error: Unavailable | Refused, hint: str) -> None:
    """Without the API server's word nothing is told."""
    found = authorities()
    found.error = error
    headers = JSON | {"authorization": "Bearer jane-token"}
    (answer,) = ask(asking(), POD, guard=guard_by(found), headers=headers)
    assert answer.status_code == 503
    assert hint in answer.json()["detail"]


# --- what is no question


@cases(
    "body headers status",
    {
        "text": (b"{}", {"content-type": "text/plain"}, 415),
        "too large": (b" " * (MOST_BYTES + 1), JSON, 413),
    },
)
def test_what_is_no_question(body: bytes, headers: Mapping[str, str], status: int) -> None:
    """What could be no review is refused, before anything of it is read."""
    at = asking()
    (answer,) = ask(at, body, headers=headers, guard=guard_by(authorities()))
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert at.numbers.seen == []


def test_a_parameter_that_does_not_exist() -> None:
    """A typing error in the question is answered as such; only API servers' `timeout` is known."""
    (refused,) = ask(asking(), POD, path="/explain?timeot=1s")
    (answered,) = ask(asking(), POD, path="/explain?timeout=1s")
    assert (refused.status_code, refused.json()["field"]) == (422, "query.timeot")
    assert refused.json()["detail"] == (
        'there is no parameter "timeot", there are timeout; did you mean "timeout"?'
    )
    assert answered.status_code == 200


def test_other_methods() -> None:
    """Questions are posted, too."""
    (answer,) = ask(asking(), b"", method="GET")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_no_time_left() -> None:
    """A question whose turn comes when its caller waits no more is not worked on."""
    (answer,) = ask(asking(snapshot=broken), POD, path="/explain?timeout=0s")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


class Slow:
    """Owners that answer when they are told to; notes how many were asked for at a time."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.told = threading.Event()
        self.inside = self.most_inside = 0

    def find(self, _lookup: Lookup, _deadline_seconds: float, /) -> LookupResult:
        """Wait."""
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        self.asked.set()
        assert self.told.wait(30)
        self.inside -= 1
        return Absent()


def test_questions_hold_no_review_up() -> None:
    """While a question is worked on, and others wait for it, reviews are answered."""
    owners = Slow()
    at = desk(*WEB, owners=owners)
    slow = orjson.dumps(owned("Job/x"))

    async def all_of_them() -> tuple[httpx.Response, list[httpx.Response]]:
        transport = httpx.ASGITransport(at.app())
        async with httpx.AsyncClient(
            transport=transport, base_url="https://webhook", headers=JSON
        ) as client:
            asked = [asyncio.create_task(client.post("/explain", content=slow)) for _ in range(5)]
            await asyncio.to_thread(owners.asked.wait, 30)
            review = await client.post("/mutate", content=orjson.dumps(POD))
            assert not asked[0].done()
            owners.told.set()
            return review, await asyncio.gather(*asked)

    review, answers = asyncio.run(all_of_them())
    assert "patch" in review.json()["response"]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert owners.most_inside == 1


# --- as it is documented


def example(model: type[AdmissionReview | ExplainedReview]) -> Json:
    """Return the example that a page shows."""
    found: Json = model.model_json_schema(by_alias=True)["examples"][0]
    return found


EXAMPLE_OBJECTS = (
    make.vpa_json(
        namespace="shop",
        mode="Recreate",
        created=datetime(2026, 1, 5, tzinfo=UTC),
        policies=[make.policy_json(max_allowed={"cpu": "250m"})],
        recommendations=[make.recommendation_json("server", cpu="300m")],
    ),
    make.workload_json(namespace="shop"),
)


def test_the_example_is_what_is_answered() -> None:
    """The question that the page shows has the answer that it shows."""
    (answer,) = ask(desk(*EXAMPLE_OBJECTS), example(AdmissionReview))
    assert answer.json() == example(ExplainedReview)


@cases("review", {name: (review,) for name, review in SAME.items()})
def test_answers_are_as_described(review: Json) -> None:
    """The model that is documented has every member that is answered, and no other is taken."""
    (answer,) = ask(asking(), review)
    found = ExplainedReview.model_validate_json(answer.content)
    assert found.model_dump(by_alias=True, exclude_unset=True) == answer.json()


def test_the_operation_is_described() -> None:
    """The page of the second port names the question, its answers and the token."""
    page = description().openapi()
    operation = page["paths"]["/explain"]["post"]
    ref = "#/components/schemas/"
    body, answers = operation["requestBody"], operation["responses"]
    assert body["content"]["application/json"]["schema"] == {"$ref": f"{ref}AdmissionReview"}
    answer = answers["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": f"{ref}ExplainedReview"}
    assert answers.keys() == {"200", "401", "403", "413", "415", "422", "503"}
    assert operation["security"] == [{"HTTPBearer": []}]
    assert page["components"]["schemas"]["ExplainedReview"]["examples"]
