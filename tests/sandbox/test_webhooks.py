"""What the sandbox knows of its webhooks beyond what they do to objects."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread

import pytest

from app.model.errors import TooMany, Unavailable
from app.ports import (
    MUTATING_WEBHOOKS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    Json,
    PatchKind,
    Ref,
    Resource,
)
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from app.sandbox.webhook_client import CallFailed, Endpoint, Service, WebhookClient
from tests.contract.building import add, container, pod, resources
from tests.contract.reviewer import Reviewer, patch, reviewing
from tests.sandbox.in_process import InProcess
from tests.sandbox.worlds import deployment
from tests.sandbox_objects import events_in

SERVICE = {"namespace": "contract", "name": "reviewer", "path": "/mutate"}
NAME = "reviewer.example.com"


def registered(webhook_client: WebhookClient, client: Json, resource: str = "secrets") -> Sandbox:
    """Return a sandbox that asks one webhook about new and changed objects."""
    sandbox = Sandbox(SteppedClock(), webhook_client=webhook_client)
    rule = {
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": [resource],
    }
    webhook = {
        "name": NAME,
        "clientConfig": client,
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {"metadata": {"name": "it"}, "webhooks": [webhook]}
    sandbox.cluster.create(Ref(MUTATING_WEBHOOKS), body)
    return sandbox


def make(sandbox: Sandbox, name: str, resource: Resource = SECRETS) -> Json:
    """Create an object."""
    return sandbox.cluster.create(Ref(resource, "default"), {"metadata": {"name": name}})


def service_client(reviewer: Reviewer) -> Json:
    """A client configuration that names a service, not an address."""
    return {"service": SERVICE, "caBundle": reviewer.client("/")["caBundle"]}


def test_services_are_found_where_they_listen() -> None:
    """The certificate is for the service, though it listens elsewhere; connections are reused."""
    with reviewing() as reviewer:
        where = {Service("contract", "reviewer"): Endpoint("127.0.0.1", reviewer.port)}
        webhook_client = WebhookClient(where)
        sandbox = registered(webhook_client, service_client(reviewer))
        for number in range(3):
            make(sandbox, f"s-{number}")
        sandbox.close()

        assert len(reviewer.asked("/mutate")) == 3
        assert reviewer.connections == 1


def test_a_connection_that_went_away_is_no_failure() -> None:
    """Where the server closed what was kept open, a new connection is made."""
    with reviewing() as reviewer:
        reviewer.answers["/mutate"] = reviewer.hang_up_after
        where = {Service("contract", "reviewer"): Endpoint("127.0.0.1", reviewer.port)}
        sandbox = registered(WebhookClient(where), service_client(reviewer))
        for number in range(3):
            make(sandbox, f"s-{number}")
        sandbox.close()

        assert reviewer.connections == 3


def test_closing_while_others_call() -> None:
    """Calls to what was never called before do not disturb the closing."""
    nowhere = Endpoint("127.0.0.1", 0)
    client = WebhookClient({Service("contract", "reviewer"): nowhere})

    def call_all() -> None:
        for number in range(500):
            with suppress(CallFailed):
                client.call({"service": SERVICE | {"path": f"/{number}"}}, {}, 1)

    caller = Thread(target=call_all)
    caller.start()
    while caller.is_alive():
        client.close()
    caller.join()


def test_unknown_services() -> None:
    """A service without an address is a failure to call."""
    with reviewing() as reviewer:
        sandbox = registered(WebhookClient(), service_client(reviewer))
    with pytest.raises(Unavailable, match='service "reviewer" not found'):
        make(sandbox, "first")
    sandbox.close()


def test_a_function_may_be_the_webhook() -> None:
    """Flow tests need no server: a function takes the review and returns one."""
    reviewer = Reviewer()
    reviewer.answers["/mutate"] = patch(add("/metadata/labels", {"from": "afar"}))

    def review(asked: Json) -> Json:
        _, answer = reviewer.reviewed("/mutate", asked)
        assert isinstance(answer, dict)
        return answer

    sandbox = registered(InProcess({"/mutate": review}), {"service": SERVICE})
    made = make(sandbox, "first")

    assert made["metadata"]["labels"] == {"from": "afar"}


def test_a_refusal_of_a_pod_is_told_of_its_owner() -> None:
    """A pod that a webhook denies is not there; the events of its controller say why."""

    def review(asked: Json) -> Json:
        response = {
            "uid": asked["request"]["uid"],
            "allowed": False,
            "status": {"message": "no"},
            "warnings": ["mind this"],
            "auditAnnotations": {"why": "because"},
        }
        return {**asked, "request": None, "response": response}

    sandbox = registered(InProcess({"/mutate": review}), {"service": SERVICE}, "pods")
    sandbox.apply(deployment("web"))
    sandbox.advance(0.5)

    assert not sandbox.cluster.list(PODS).items
    (event,) = events_in(sandbox, reason="FailedCreate")
    assert "denied the request: no" in event["message"]


def test_a_spared_pod_that_changes_meanwhile_is_held() -> None:
    """A pod that is not Ready goes for nothing only as it was when its budget was asked."""
    status = Ref(PODS, "default", "pod", subresource="status")
    asked = []

    def review(found: Json) -> Json:
        asked.append(found)
        if len(asked) == 2:  # the first was the one before the eviction
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            sandbox.cluster.patch(status, ready, kind=PatchKind.MERGE)
        return {**found, "response": {"uid": found["request"]["uid"], "allowed": True}}

    sandbox = registered(InProcess({"/mutate": review}), {"service": SERVICE}, "pods/status")
    sandbox.cluster.create(Ref(PODS, "default"), pod())
    sandbox.cluster.patch(status, {"status": {"phase": "Running"}}, kind=PatchKind.MERGE)
    spec = {
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "minAvailable": 1,
        "selector": {"matchLabels": {"app": "contract"}},
    }
    budget = {"metadata": {"name": "budget"}, "spec": spec}
    sandbox.cluster.create(Ref(POD_DISRUPTION_BUDGETS, "default"), budget)

    with pytest.raises(TooMany, match="disruption budget"):
        sandbox.cluster.evict("default", "pod")

    assert "deletionTimestamp" not in sandbox.cluster.get(status)["metadata"]


def test_the_scheduler_looks_again_where_room_was_left() -> None:
    """A pod that waits is tried again when another one shrinks, not whenever it changes."""
    tried = []

    def review(found: Json) -> Json:
        tried.append(found["request"]["name"])
        return {**found, "response": {"uid": found["request"]["uid"], "allowed": True}}

    sandbox = registered(InProcess({"/mutate": review}), {"service": SERVICE}, "pods/status")
    for name, cpu in (("small", "1"), ("big", "100")):
        asked = container(resources=resources({"cpu": cpu}))
        body = pod(name, asked, schedulerName="default-scheduler")
        sandbox.cluster.create(Ref(PODS, "default"), body)
    sandbox.advance(5)
    counts = [tried.count("big")]
    small = Ref(PODS, "default", "small")
    sandbox.cluster.patch(small, [add("/metadata/labels/a", "b")])
    sandbox.advance(1)
    counts.append(tried.count("big"))
    sandbox.cluster.delete(small)
    sandbox.advance(5)
    counts.append(tried.count("big"))

    assert counts == [1, 1, 2]
