"""The HTTP contract: whatever is sent, the answer is one that an API server understands."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message

from app.admission.app import Webhook, description
from app.admission.metrics import ReviewLimit, Step
from app.admission.review_models import AdmissionReview
from app.model.fields import Json
from app.model.snapshot import Snapshot
from app.model.workloads import Absent, Failed, Lookup, LookupResult
from app.runtime.http_requests import MOST_BYTES
from tests import make
from tests.cases import cases
from tests.junk import ANYTHING, objects_like
from tests.runtime.reviewing import UNREADABLE, WEB, BrokenNumbers, Counted, Desk, desk, patch_of

JSON = {"content-type": "application/json"}
POD = make.review_json(make.pod_json(cpu="100m"))
VPA = make.review_json(make.vpa_json("new", target="StatefulSet/other"))
ALLOWED = {"uid": "review-1", "allowed": True}
HEAD = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":'


def client_of(at: Desk, headers: Mapping[str, str] = JSON) -> httpx.AsyncClient:
    """Return a client of the application."""
    transport = httpx.ASGITransport(at.app())
    return httpx.AsyncClient(transport=transport, base_url="https://webhook", headers=headers)


def send(
    at: Desk,
    content: bytes | Iterable[bytes] | Json,
    *,
    path: str = "/mutate",
    method: str = "POST",
    headers: Mapping[str, str] = JSON,
) -> httpx.Response:
    """Send a request to the application; parts are sent one by one, without a length."""

    async def parts(found: Iterable[bytes]) -> AsyncIterator[bytes]:
        for part in found:
            yield part

    async def exchange() -> httpx.Response:
        async with client_of(at, headers) as client:
            return await client.request(method, path, content=body)

    body: Any = content
    if isinstance(content, dict):
        body = orjson.dumps(content)
    elif not isinstance(content, bytes):
        body = parts(content)
    return asyncio.run(exchange())


def response_of(answer: httpx.Response) -> Json:
    """Return the response inside an answer, which must be a review."""
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    review = answer.json()
    assert review.keys() == {"kind", "apiVersion", "response"}
    response: Json = review["response"]
    return response


@cases(
    "headers status",
    {
        "plain": ({"content-type": "application/json"}, 200),
        "parameters": ({"content-type": "application/json; charset=utf-8"}, 200),
        "letters": ({"content-type": "Application/JSON;q=1"}, 200),
        "text (H1)": ({"content-type": "text/plain"}, 415),
        "longer": ({"content-type": "application/json-patch+json"}, 415),
        "empty": ({"content-type": ""}, 415),
        "none": ({}, 415),
    },
)
def test_content_types(headers: Mapping[str, str], status: int) -> None:
    """A body that does not say to be JSON is not taken for a review, and is counted."""
    at = desk(*WEB)
    answer = send(at, POD, headers=headers)
    assert answer.status_code == status
    assert (("review", "error", "unknown") in at.numbers.seen) == (status != 200)
    assert (b"uid" in answer.content) == (status == 200)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/mutate", "/validate"])
def test_other_methods(method: str, path: str) -> None:
    """Reviews are posted."""
    answer = send(desk(*WEB), b"", method=method, path=path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/mutate/", "/other", "/openapi.json", "/docs", "/metrics"])
def test_other_paths(path: str) -> None:
    """There is nothing else behind the port."""
    assert send(desk(*WEB), POD, path=path).status_code == 404


@cases(
    "content headers status",
    {
        "one byte too many (H2)": (b" " * (MOST_BYTES + 1), {}, 413),
        "streamed": ([b" " * MOST_BYTES, b" "], {}, 413),
        "streamed on and on": ([b" " * MOST_BYTES, b" "] * 9, {}, 413),
        "declared": (b"{", {"content-length": "5242881"}, 413),
        "declared beyond all numbers": (b"{", {"content-length": "9" * 5000}, 413),
        "as large as may be": (b" " * MOST_BYTES, {}, 200),
        "streamed as large as may be": ([b" " * (MOST_BYTES - 1), b" "], {}, 200),
        "no length": (b"{", {"content-length": "x"}, 200),
    },
)
def test_sizes(content: bytes | list[bytes], headers: Mapping[str, str], status: int) -> None:
    """Five MiB is the most; who sends more is told so, and sends no more on this connection."""
    at = desk(*WEB)
    answer = send(at, content, headers={**JSON, **headers})
    assert answer.status_code == status
    assert at.numbers.seen == [("review", "error", "unknown")]
    assert answer.headers.get("connection") == ("close" if status == 413 else None)
    assert at.reached.counts == ({ReviewLimit.REVIEW_BYTES: 1} if status == 413 else {})


@cases(
    "body uid why",
    {
        "cut off (H3)": (b"{", "", "unexpected end of data: line 1 column 2 (char 1)"),
        "empty": (b"", "", "zero-length"),
        "text": (b"no JSON", "", "invalid literal"),
        "a cut off review": (orjson.dumps(POD)[:-1], "", "end of data"),
        "two reviews": (orjson.dumps(POD) * 2, "", "unexpected content after document"),
        "byte order mark": (b"\xef\xbb\xbf" + orjson.dumps(POD), "", "byte order mark"),
        "UTF-16": (json.dumps(POD).encode("utf-16"), "", "not valid UTF-8"),
        "not UTF-8": (b'{"request":{"uid":"\xff"}}', "", "not valid UTF-8"),
        "half a character": (b'{"request":{"uid":"\\ud800"}}', "", "surrogate"),
        "no number": (b'{"request":{"uid":NaN}}', "", "unexpected character"),
        "a number beyond all others": (b'{"request":{"uid":1e999}}', "", "number"),
        "deep": (b'{"request":' * 100_000, "", "depth limit exceeded"),
        "deeper": (b"[" * 1_000_000, "", "depth limit exceeded"),
        "deep and closed": (b"[" * 1000 + b"]" * 1000, "", "no AdmissionReview object"),
        "a list": (b"[]", "", "the body is no AdmissionReview object"),
        "a string": (b'"x"', "", "the body is no AdmissionReview object"),
        "no request": (b"{}", "", "request: is missing"),
        "a number as request": (b'{"request":7}', "", "request: expected an object"),
        "a number as uid": (b'{"request":{"uid":7}}', "", "request.uid: expected a string"),
        "a list as kind": (
            b'{"request":{"uid":"u","kind":[]}}',
            "u",
            "request.kind: expected an object",
        ),
        "a text as resource": (
            b'{"request":{"uid":"u","resource":"pods"}}',
            "u",
            "request.resource: expected an object",
        ),
        "an object as operation": (
            b'{"request":{"uid":"u","operation":{}}}',
            "u",
            "request.operation: expected a string",
        ),
        "a text as dryRun": (
            b'{"request":{"uid":"u","dryRun":"yes"}}',
            "u",
            "request.dryRun: expected a boolean",
        ),
    },
)
@pytest.mark.parametrize("path", ["/", "/mutate", "/validate"])
def test_what_is_no_review(body: bytes, uid: str, why: str, path: str) -> None:
    """What cannot be read as a review is let pass under its uid, and the answer says why."""
    at = desk(*WEB)
    response = response_of(send(at, body, path=path))
    audited, (warning,) = response["auditAnnotations"], response["warnings"]
    assert (response["uid"], response["allowed"]) == (uid, True)
    assert audited.keys() == {"reason", "message"}
    assert audited["reason"] == "UnreadableReview"
    assert why in audited["message"]
    assert warning == f"unreadable review, admitted unchanged: {audited['message']}"
    assert at.numbers.seen == [("review", "error", "unknown")]


def test_long_reasons_are_cut_off() -> None:
    """What is wrong with a review is told shortly, however long it is."""
    body = orjson.dumps({"request": {"uid": "u", "kind": {"group": {"x" * 5000: 1}}}})
    response = response_of(send(desk(), body))
    assert len(response["auditAnnotations"]["message"]) <= 200
    assert len(response["warnings"][0]) < 256


def request(**changes: object) -> Json:
    """Return the pod review with other members of its request; None takes one away."""
    found = POD["request"] | changes
    return {"request": {key: value for key, value in found.items() if value is not None}}


def of(group: str | None, version: str, resource: str) -> Json:
    """Return the pod review about another resource."""
    return request(resource={"group": group, "version": version, "resource": resource})


NO_REVIEW = [("review", "error", "unknown")]
UNREADABLE_POD = ("failed open", "UnreadablePod")
NO_CREATION = ("skipped", "NotACreation")
WRONG_LABELS = make.with_value(make.pod_json(), "metadata.labels", {"a": 1})


def unchanged(*counted: str) -> list[tuple[str, ...]]:
    """Return what is counted of a pod that passes as it is."""
    return [("pod", "False"), counted, ("review", "skipped", "Pod")]


@cases(
    "review counted",
    {
        "another resource (H4)": (of("apps", "v1", "deployments"), NO_REVIEW),
        "pods of another group": (of("autoscaling.k8s.io", "v1", "pods"), NO_REVIEW),
        "VPAs of another group": (of(None, "v1", "verticalpodautoscalers"), NO_REVIEW),
        "no resource": (request(resource=None), NO_REVIEW),
        "bare": ({"request": {"uid": "review-1"}}, NO_REVIEW),
        "another version (H5)": (of("", "v2", "pods"), unchanged("failed open", "UnknownVersion")),
        "a text as pod (H6)": (request(object="x"), unchanged(*UNREADABLE_POD)),
        "wrong labels": (request(object=WRONG_LABELS), unchanged(*UNREADABLE_POD)),
        "a wrong quantity": (request(object=make.pod_json(cpu="much")), unchanged(*UNREADABLE_POD)),
        "no pod": (request(object=None), unchanged(*UNREADABLE_POD)),
        "a deletion": (request(operation="DELETE", object=None), unchanged(*NO_CREATION)),
        "a resize": (request(operation="UPDATE", subResource="resize"), unchanged(*NO_CREATION)),
        "no VPA (P13)": (request(namespace="other"), unchanged("skipped", "NoVPAInNamespace")),
    },
)
def test_reviews_that_change_nothing(review: Json, counted: list[tuple[str, ...]]) -> None:
    """What is no business of ours passes as it is, under its uid, and is counted."""
    at = desk(*WEB)
    response = response_of(send(at, review))
    assert {key: response[key] for key in response if key != "auditAnnotations"} == ALLOWED
    assert at.numbers.seen == counted


@pytest.mark.parametrize("path", ["/", "/mutate"])
@cases(
    "review",
    {
        "as API servers send it": (POD,),
        "with requestKind": (request(requestKind=POD["request"]["kind"]),),
        "by hand": (request(kind=None, operation=None),),
    },
)
def test_a_pod_is_patched(review: Json, path: str) -> None:
    """A pod that a VPA controls gets its patch, in the order of an API server's fields."""
    at = desk(*WEB)
    answer = send(at, review, path=path)
    response = response_of(answer)
    assert answer.content.startswith(HEAD + b'{"uid":"review-1","allowed":true,"patch":"')
    assert list(response) == ["uid", "allowed", "patch", "patchType", "auditAnnotations"]
    assert response["patchType"] == "JSONPatch"
    assert patch_of(response)[1] == {
        "op": "add",
        "path": "/spec/containers/0/resources/requests/cpu",
        "value": "250m",
    }
    assert response["auditAnnotations"] == {"reason": "Sized", "vpa": "web"}
    assert at.numbers.seen == [("pod", "True"), ("review", "applied", "Pod")]


def test_pods_are_not_judged() -> None:
    """At the later phase a pod passes unseen, whatever stands in it."""
    for review in (POD, request(object="x")):
        at = desk(*WEB)
        assert response_of(send(at, review, path="/validate")) == ALLOWED
        assert at.numbers.seen == [("review", "skipped", "Pod")]


def test_a_refusal() -> None:
    """A refusal is a Status as API servers send it, with every problem at once, to the byte."""
    at = desk(*WEB)
    bad = make.vpa_json("bad", mode="Sometimes", min_replicas=0)
    modes = '"InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate", "UpscaleOnly"'
    mode = f'Unsupported value: "Sometimes": supported values: {modes}'
    replicas = "Invalid value: 0: must be at least 1"
    mode_at, replicas_at = "spec.updatePolicy.updateMode", "spec.updatePolicy.minReplicas"
    causes = [
        {"reason": "FieldValueNotSupported", "message": mode, "field": mode_at},
        {"reason": "FieldValueInvalid", "message": replicas, "field": replicas_at},
    ]
    status = {
        "metadata": {},
        "status": "Failure",
        "message": 'VerticalPodAutoscaler.autoscaling.k8s.io "bad" is invalid: '
        f"[{mode_at}: {mode}, {replicas_at}: {replicas}]",
        "reason": "Invalid",
        "details": {
            "name": "bad",
            "group": "autoscaling.k8s.io",
            "kind": "VerticalPodAutoscaler",
            "causes": causes,
        },
        "code": 422,
    }
    response = {
        "uid": "review-1",
        "allowed": False,
        "status": status,
        "auditAnnotations": {"reason": "Invalid", "fields": f"{mode_at}, {replicas_at}"},
    }
    for path in ("/", "/mutate", "/validate"):
        answer = send(at, make.review_json(bad), path=path)
        assert answer.content == HEAD + orjson.dumps(response) + b"}"
    assert at.numbers.seen == [("refused", "Invalid"), ("review", "skipped", "VPA")] * 3


def test_only_the_earlier_phase_sets_defaults() -> None:
    """A mode that nobody wrote is written at /mutate and at /, and nowhere else."""
    patches = {
        path: "patch" in response_of(send(desk(), VPA, path=path))
        for path in ("/", "/mutate", "/validate")
    }
    assert patches == {"/": True, "/mutate": True, "/validate": False}
    response = response_of(send(desk(), VPA))
    value = {"updateMode": "Recreate"}
    assert patch_of(response) == [{"op": "add", "path": "/spec/updatePolicy", "value": value}]


def test_a_vpa_review_by_hand() -> None:
    """A review of a VPA needs no requestKind (H7), and a deletion is never refused."""
    bare = {key: VPA["request"][key] for key in ("uid", "operation", "resource", "object")}
    assert response_of(send(desk(), {"request": bare}))["allowed"]
    gone = {"uid": "u", "operation": "DELETE", "resource": bare["resource"]}
    assert response_of(send(desk(), {"request": gone}))["allowed"]


def test_warnings_come_last() -> None:
    """A warning is part of the answer that lets the object pass."""
    review = make.review_json(make.vpa_json("new", target="Job/x", mode="Auto"))
    response = response_of(send(desk(), review))
    assert list(response) == ["uid", "allowed", "auditAnnotations", "warnings"]
    assert response["warnings"][0].startswith("spec.updatePolicy: ")


def client_app(client: httpx.AsyncClient) -> Webhook:
    """Return the application behind a client."""
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    assert isinstance(transport.app, Webhook)
    return transport.app


async def leave(app: Webhook, body: bytes) -> None:
    """Send a review, and go before it is answered."""
    messages: list[Message] = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0)

    async def send_(_message: Message) -> None:
        """Go nowhere."""

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": b""}
    await app(scope | {"path": "/mutate"}, receive, send_)


class Patient:
    """Owners that note how long somebody would wait for them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def find(self, _lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Find nothing."""
        self.seconds.append(deadline_seconds)
        return Absent()


@cases(
    "query seconds",
    {
        "five seconds": ("?timeout=5s", 4.0),
        "half a second more": ("?timeout=20.5s", 16.4),
        "beside others": ("?a=b&timeout=30s", 24.0),
        "more than API servers wait": ("?timeout=9000s", 24.0),
        "none": ("", 8.0),
        "no number": ("?timeout=nans", 8.0),
        "for ever": ("?timeout=infs", 8.0),
        "less than nothing": ("?timeout=-5s", 8.0),
        "no unit": ("?timeout=5", 8.0),
        "noise": ("?timeout=%FF%00s&&==", 8.0),
    },
)
def test_look_ups_end_before_the_api_server_gives_up(query: str, seconds: float) -> None:
    """Of the time that an API server waits a part is left for the way."""
    owners = Patient()
    at = desk(make.vpa_json(), owners=owners)
    response = response_of(send(at, POD, path=f"/mutate{query}"))
    assert response["auditAnnotations"]["reason"] == "OwnerUnknown"
    assert owners.seconds == [pytest.approx(seconds)]


class Timed(Counted):
    """Numbers that keep the times of steps, and of whole reviews, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.reviews: list[float] = []
        self.steps: dict[str, list[float]] = {}

    def review(self, status: str, resource: str, seconds: float) -> None:
        """Keep the time of a review."""
        super().review(status, resource, seconds)
        self.reviews.append(seconds)

    def timer(self, step: str) -> Callable[[float], object]:
        """Return what keeps the times of a step."""
        return self.steps.setdefault(step, []).append


def test_the_wait_for_a_turn_counts_against_look_ups() -> None:
    """What a large review waits for its turn is missing for look-ups, and no time of deciding."""
    is_inside, is_read = threading.Event(), threading.Event()

    def snapshot() -> Snapshot:
        if not is_inside.is_set():
            is_inside.set()
            assert is_read.wait(30)
            at.clock.wait(3.0)
        return make.snapshot(make.vpa_json())

    owners, numbers = Patient(), Timed()
    at = desk(owners=owners, numbers=numbers, snapshot=snapshot)
    second = make.with_value(POD, "request.object.metadata.annotations", {"a": "x" * 300_000})
    first = make.with_value(second, "request.namespace", "other")

    async def parts() -> AsyncIterator[bytes]:
        yield orjson.dumps(second)
        is_read.set()

    async def both() -> None:
        async with client_of(at) as client:
            before = asyncio.create_task(client.post("/mutate", content=orjson.dumps(first)))
            await asyncio.to_thread(is_inside.wait, 30)
            await client.post("/mutate?timeout=30s", content=parts())
            await before

    asyncio.run(both())
    assert owners.seconds == [pytest.approx(21.0)]
    assert numbers.reviews == numbers.steps[Step.ADMIT] == [3.0, 0.0]
    assert numbers.steps[Step.TOTAL] == [3.0, 3.0]


class Held:
    """Owners that answer when they are told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.told = threading.Event()

    def find(self, _lookup: Lookup, _deadline_seconds: float, /) -> LookupResult:
        """Wait."""
        self.asked.set()
        assert self.told.wait(30)
        return Failed("too late")


def test_a_look_up_holds_nobody_else_up() -> None:
    """While one review waits for an owner, others are answered."""
    owners = Held()
    at = desk(make.vpa_json("hit", target="StatefulSet/web", cpu="1"), owners=owners)
    small = orjson.dumps(request(operation="UPDATE"))

    async def both() -> tuple[httpx.Response, httpx.Response]:
        async with client_of(at) as client:
            slow = asyncio.create_task(client.post("/mutate", content=orjson.dumps(POD)))
            await asyncio.to_thread(owners.asked.wait, 30)
            fast = await client.post("/mutate", content=small)
            assert not slow.done()
            owners.told.set()
            return await slow, fast

    slow, fast = asyncio.run(both())
    assert response_of(fast)["auditAnnotations"] == {"reason": "NotACreation"}
    assert response_of(slow)["auditAnnotations"] == {
        "reason": "OwnerUnknown",
        "message": "StatefulSet/web: too late",
    }


def with_notes(size: int) -> Json:
    """Return the pod review with so many bytes that nobody looks at."""
    return make.with_value(POD, "request.object.metadata.annotations", {"a": "x" * size})


def of_containers(count: int, namespace: str = "default") -> Json:
    """Return the review of a pod with so many containers."""
    names = ["app", *(f"c{index}" for index in range(count - 1))]
    pod = make.pod_json(*(make.container_json(name, cpu="100m") for name in names))
    return make.with_value(make.review_json(pod), "request.namespace", namespace)


@cases(
    "review is_beside",
    {
        "a usual one": (POD, False),
        "much that is not looked at": (with_notes(100_000), False),
        "much to read": (with_notes(300_000), True),
        "few containers": (of_containers(50), False),
        "many containers": (of_containers(100), True),
    },
)
def test_costly_reviews_leave_the_event_loop(review: Json, is_beside: bool) -> None:
    """What takes long is done beside the reviews of others, whatever its bytes."""
    threads: set[str] = set()

    def snapshot() -> Snapshot:
        threads.add(threading.current_thread().name)
        return make.snapshot(*WEB)

    assert "patch" in response_of(send(desk(snapshot=snapshot), review))
    assert (threads != {"MainThread"}) is is_beside


LATE = {"reason": "TimeOver", "message": "the review had no turn in time"}
LATE_POD = [("pod", "False"), ("failed open", "TimeOver"), ("review", "skipped", "Pod")]


@cases(
    "review path audited counted",
    {
        "a look-up": (POD, "/mutate", LATE, LATE_POD),
        "many containers": (of_containers(100), "/mutate", LATE, LATE_POD),
        "large": (with_notes(300_000), "/mutate", LATE, LATE_POD),
        "large, and not changed": (with_notes(300_000), "/validate", {"reason": "TimeOver"}, []),
        "a VPA": (VPA, "/mutate", {"reason": "TimeOver"}, []),
    },
)
def test_a_review_without_time_is_dropped(
    review: Json, path: str, audited: Json, counted: list[tuple[str, ...]]
) -> None:
    """When the time of the API server is over, nothing is done; a pod is let pass with a reason."""
    owners = Patient()
    at = desk(make.vpa_json(), owners=owners)
    response = response_of(send(at, review, path=f"{path}?timeout=0s"))
    assert response == {**ALLOWED, "auditAnnotations": audited}
    assert at.numbers.seen == [("dropped", "TimeOver"), *counted]
    assert not owners.seconds


def test_a_client_that_leaves_while_it_waits() -> None:
    """A review that waits for its turn is dropped when its client has gone."""
    is_inside, may_leave = threading.Event(), threading.Event()
    namespaces = []

    def snapshot() -> Snapshot:
        is_inside.set()
        assert may_leave.wait(30)
        namespaces.append("")
        return make.snapshot(*WEB)

    at = desk(snapshot=snapshot)

    async def exchange() -> None:
        async with client_of(at) as client:
            body = orjson.dumps(of_containers(100))
            first = asyncio.create_task(client.post("/mutate", content=body))
            await asyncio.to_thread(is_inside.wait, 30)
            await leave(client_app(client), body)
            may_leave.set()
            await first

    asyncio.run(exchange())
    assert len(namespaces) == 1
    assert ("dropped", "ClientGone") in at.numbers.seen


@pytest.mark.parametrize("review", [of_containers(100), with_notes(300_000)])
def test_what_takes_long_comes_one_after_the_other(review: Json) -> None:
    """Neither what a few MB grow to while they are read is there twice, nor more than one core."""
    inside, arrived, most = 0, threading.Semaphore(0), []

    def snapshot() -> Snapshot:
        nonlocal inside
        inside += 1
        most.append(inside)
        arrived.release()
        arrived.acquire()
        arrived.acquire(timeout=0.2)  # a second one would not let us wait
        inside -= 1
        return make.snapshot(*WEB)

    at = desk(snapshot=snapshot)

    async def exchange() -> list[httpx.Response]:
        async with client_of(at) as client:
            asked = (client.post("/mutate", content=orjson.dumps(review)) for _ in "ab")
            return await asyncio.gather(*asked)

    assert all("patch" in response_of(answer) for answer in asyncio.run(exchange()))
    assert most == [1, 1]


@pytest.mark.parametrize("sent", [0, 1, 2])
def test_a_client_that_leaves(sent: int) -> None:
    """Who leaves before everything is sent counts as nothing, and gets no review."""
    at = desk(*WEB)
    messages: list[Message] = [{"type": "http.request", "body": b"{", "more_body": True}] * sent
    messages.append({"type": "http.disconnect"})
    answers: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def answer(message: Message) -> None:
        answers.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": b""}
    asyncio.run(at.app()(scope | {"path": "/mutate"}, receive, answer))
    assert not b"".join(message.get("body", b"") for message in answers)
    assert not at.numbers.seen


def test_broken_numbers() -> None:
    """An answer goes out whole though it can be neither counted nor timed."""
    at = desk(*WEB, numbers=BrokenNumbers())
    assert send(at, b"{").content == UNREADABLE
    assert response_of(send(at, POD))["auditAnnotations"] == {"reason": "InternalError"}


def test_ten_thousand_containers() -> None:
    """A pod may have any number of containers, also several of the same name."""
    containers = [make.container_json(f"c{i // 2}", cpu="1") for i in range(10_000)]
    review = make.review_json(make.pod_json(*containers))
    response = response_of(send(desk(*WEB), review))
    assert [operation["path"] for operation in patch_of(response)] == [
        "/metadata/annotations",
        "/metadata/annotations/vpaObservedContainers",
    ]


def test_both_operations_are_described() -> None:
    """Request and answer are an AdmissionReview, with the fields that Kubernetes gives it."""
    found = description().openapi()
    assert found["paths"].keys() == {"/mutate", "/validate", "/explain"}
    ref = {"$ref": "#/components/schemas/AdmissionReview"}
    for path in ("/mutate", "/validate"):
        operation = found["paths"][path]["post"]
        assert operation["requestBody"]["content"]["application/json"]["schema"] == ref
        assert operation["responses"]["200"]["content"]["application/json"]["schema"] == ref
        assert operation["responses"].keys() == {"200", "413", "415"}
    fields = found["components"]["schemas"]["ReviewRequest"]["properties"]
    assert {"uid", "subResource", "requestKind", "dryRun", "oldObject"} <= fields.keys()


@cases(
    "content path",
    {
        "a pod": (POD, "/mutate"),
        "a VPA": (VPA, "/validate"),
        "a VPA without its mode": (VPA, "/mutate"),
    },
)
def test_reviews_and_answers_are_as_described(content: Json, path: str) -> None:
    """The model that is documented takes what is asked and what is answered."""
    answer = send(desk(*WEB), content, path=path)
    assert AdmissionReview.model_validate(content).request is not None
    assert AdmissionReview.model_validate_json(answer.content).response is not None


BODIES = (
    ANYTHING.map(lambda value: json.dumps(value).encode())
    | st.builds(lambda value: json.dumps({"request": value}).encode(), ANYTHING)
    | st.binary(max_size=50)
)


@settings(max_examples=200)
@given(BODIES, st.sampled_from(["/", "/mutate", "/validate"]))
def test_any_body_is_answered(body: bytes, path: str) -> None:
    """Whatever is posted, the answer lets it pass."""
    response = response_of(send(desk(*WEB), body, path=path))
    assert response["allowed"]


REVIEWS = (
    POD,
    make.review_json(make.pod_json(make.container_json(cpu="1", cpu_limit="2"), owner="Job/x")),
    VPA,
    make.review_json(
        make.vpa_json(
            policies=[make.policy_json("app", min_allowed={"cpu": "1"})],
            boost=make.boost_json(factor=2),
            selector={"matchLabels": {"a": "b"}},
        ),
        old=make.vpa_json(selector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
        operation="UPDATE",
    ),
)


@settings(max_examples=300)
@given(st.sampled_from(REVIEWS).flatmap(objects_like), st.sampled_from(["/", "/validate"]))
def test_any_review_is_answered(review: Json, path: str) -> None:
    """Whatever stands in a review, nothing breaks, and only VPAs are refused."""
    at = desk(*WEB)
    response = response_of(send(at, json.dumps(review).encode(), path=path))
    assert isinstance(response["uid"], str)
    assert ("failed open", "InternalError") not in at.numbers.seen
    assert response.get("auditAnnotations") != {"reason": "InternalError"}
    if not response["allowed"]:
        assert ("review", "skipped", "VPA") in at.numbers.seen
