"""Admission webhooks: who is asked what, and what comes of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.admission.core.registration import align
from app.commands.flags import ManifestsSettings
from app.commands.manifests import webhooks_report
from app.flags.command_line import parse
from app.model.errors import ClusterError, Invalid, NotFound, Refused, Unavailable
from app.ports import (
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PODS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    VPAS,
    Json,
    Ref,
    Resource,
)
from tests.cases import cases
from tests.contract.building import add, container, pod, secret, vpa, workload
from tests.contract.crowds import Pods, idle
from tests.contract.reviewer import CA, OTHER_CA, Answer, Reviewer, patch, reviewing
from tests.contract.space import Space

RULE: Json = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["secrets"],
}
CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
PROBE = {"probe": "yes"}
NO_PROBE: Json = {"key": "probe", "operator": "DoesNotExist"}


def when(*expressions: str) -> Json:
    """The match conditions of a webhook."""
    named = [{"name": f"at-{at}", "expression": text} for at, text in enumerate(expressions)]
    return {"matchConditions": named}


@dataclass(frozen=True)
class Registrar(Space):
    """Registers webhooks for one namespace; all but one leave the probes alone."""

    reviewer: Reviewer
    made: list[tuple[Resource, str]] = field(default_factory=list)

    def webhook(self, path: str = "/case", **more: object) -> Json:
        """Return a webhook that is asked about new secrets of the namespace."""
        here = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        return {
            "name": f"{path.strip('/')}.contract.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 5,
            "failurePolicy": "Fail",
            "clientConfig": self.reviewer.client(path),
            "namespaceSelector": here,
            "objectSelector": {"matchExpressions": [NO_PROBE]},
            "rules": [RULE],
            **more,
        }

    def register(self, resource: Resource, *webhooks: Json) -> None:
        """Register webhooks and wait until they are in force, all at once."""
        probed = self.webhook("/probe", objectSelector={"matchLabels": PROBE})
        body = {"metadata": {"generateName": "contract-"}, "webhooks": [*webhooks, probed]}
        created = self.cluster.create(Ref(resource), body)
        self.made.append((resource, created["metadata"]["name"]))
        before = len(self.reviewer.asked("/probe"))

        def is_in_force() -> bool:
            self.make("probe", dry_run=True, labels=PROBE)
            return len(self.reviewer.asked("/probe")) > before

        self.eventually(is_in_force)

    def make(self, name: str = "first", *, dry_run: bool = False, **metadata: object) -> Json:
        """Create a secret."""
        return self.create(SECRETS, secret(name, **metadata), dry_run=dry_run)

    def dismiss(self) -> None:
        """Take all configurations away."""
        for resource, name in self.made:
            self.cluster.delete(Ref(resource, "", name))


@pytest.fixture
def registrar(space: Space) -> Iterator[Registrar]:
    """Nothing registered yet."""
    with reviewing() as reviewer:
        found = Registrar(space.cluster, space.namespace, space.eventually, reviewer)
        yield found
        found.dismiss()


def test_a_webhook_is_told_what_is_tried(registrar: Registrar) -> None:
    """The review says who does what to which object, and how long an answer may take."""
    registrar.register(MUTATING_WEBHOOKS, registrar.webhook(timeoutSeconds=7))
    registrar.make(labels={"a": "b"})
    (request,) = registrar.reviewer.asked("/case")

    assert request["uid"]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Secret"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "secrets"}
    assert request["requestKind"] == request["kind"]
    assert (request["operation"], request["dryRun"]) == ("CREATE", False)
    assert (request["namespace"], request["name"]) == (registrar.namespace, "first")
    assert request["object"]["metadata"]["labels"] == {"a": "b"}
    assert request["object"]["kind"] == "Secret"
    assert request["oldObject"] is None
    assert request["userInfo"]["username"]
    assert "timeout=7s" in registrar.reviewer.queries
    assert registrar.reviewer.asked("/probe")[0]["dryRun"] is True


def apply_printed(registrar: Registrar, *flags: str) -> None:
    """Create what `plumbline manifests webhooks` prints; a server adds nothing to it."""
    name = registrar.namespace
    ours = (f"--webhook-config-name={name}", f"--vpa-object-namespace={name}")
    settings = parse(ManifestsSettings, ["webhooks", *ours, *flags], {})
    for resource, item in zip(CONFIGURATIONS, webhooks_report(settings).items, strict=True):
        created = registrar.cluster.create(Ref(resource), item)
        registrar.made.append((resource, name))
        assert align(created, item).differences == ()
        assert created["metadata"].get("annotations") == item["metadata"].get("annotations")


@pytest.mark.usefixtures("customs")
def test_printed_configurations_bring_reviews(registrar: Registrar, tmp_path: Path) -> None:
    """Applied as they are, by URL, they have pods and VPAs reviewed, the latter twice."""
    (tmp_path / "ca.pem").write_text(CA.pem)
    apply_printed(
        registrar,
        "--register-by-url",
        "--webhook-address=https://localhost",
        f"--webhook-port={registrar.reviewer.port}",
        f"--client-ca-file={tmp_path}/ca.pem",
    )

    def asked(path: str) -> set[str]:
        return {request["kind"]["kind"] for request in registrar.reviewer.asked(path)}

    def are_both_in_force() -> bool:
        registrar.create(PODS, pod("probe"), dry_run=True)
        registrar.create(VPAS, vpa("probe"), dry_run=True)
        return bool(asked("/mutate") and asked("/validate"))

    registrar.eventually(are_both_in_force)
    kind = "VerticalPodAutoscaler"
    assert (asked("/mutate"), asked("/validate")) == ({"Pod", kind}, {kind})


@pytest.mark.parametrize("flag", ["-n=kube-system", "--inject-ca-from=kube-system/plumbline"])
def test_printed_configurations_are_complete(registrar: Registrar, flag: str) -> None:
    """They are taken as they are by service, too, and with cert-manager's annotation."""
    apply_printed(registrar, flag)


def test_generated_names_come_later(registrar: Registrar) -> None:
    """A webhook that changes is asked before the name is made, and gets none."""
    registrar.register(MUTATING_WEBHOOKS, registrar.webhook())
    registrar.create(SECRETS, {"metadata": {"generateName": "some-"}})
    (request,) = registrar.reviewer.asked("/case")

    assert not request.get("name")
    assert request["object"]["metadata"]["generateName"] == "some-"
    assert "name" not in request["object"]["metadata"]


def test_patches_are_applied_in_order(registrar: Registrar) -> None:
    """Each webhook sees what the one before made of the object; checkers see it all."""
    registrar.reviewer.answers |= {
        "/one": patch(add("/metadata/labels", {"one": "1"})),
        "/two": patch(add("/metadata/labels/two", "2")),
    }
    registrar.register(MUTATING_WEBHOOKS, registrar.webhook("/one"), registrar.webhook("/two"))
    registrar.register(VALIDATING_WEBHOOKS, registrar.webhook("/check"))
    created = registrar.make()
    (second,), (checked,) = registrar.reviewer.asked("/two"), registrar.reviewer.asked("/check")

    assert created["metadata"]["labels"] == {"one": "1", "two": "2"}
    assert second["object"]["metadata"]["labels"] == {"one": "1"}
    assert checked["object"]["metadata"]["labels"] == {"one": "1", "two": "2"}


def test_changes_show_the_old_object(registrar: Registrar) -> None:
    """An update is told with what was before."""
    rule = RULE | {"operations": ["UPDATE"]}
    registrar.register(VALIDATING_WEBHOOKS, registrar.webhook(rules=[rule]))
    registrar.make()
    registrar.patch(SECRETS, "first", [add("/metadata/labels", {"new": "label"})])
    (request,) = registrar.reviewer.asked("/case")

    assert request["operation"] == "UPDATE"
    assert "labels" not in request["oldObject"]["metadata"]
    assert request["object"]["metadata"]["labels"] == {"new": "label"}


def test_deletions_show_only_the_old_object(registrar: Registrar) -> None:
    """A deletion has no object."""
    rule = RULE | {"operations": ["DELETE"]}
    registrar.register(VALIDATING_WEBHOOKS, registrar.webhook(rules=[rule]))
    registrar.make()
    registrar.delete(SECRETS, "first")
    (request,) = registrar.reviewer.asked("/case")

    assert (request["operation"], request["object"]) == ("DELETE", None)
    assert request["oldObject"]["metadata"]["name"] == "first"


def no(code: int, reason: str) -> Json:
    """The status of a refusal."""
    return {"message": "not so", "code": code, "reason": reason}


@pytest.mark.parametrize("resource", [MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS], ids=["m", "v"])
@cases(
    "status code kind message",
    {
        "forbidden": (no(403, "Forbidden"), 403, Refused, ": not so"),
        "invalid": (no(422, "Invalid"), 422, Invalid, ": not so"),
        "a reason": ({"reason": "Just so"}, 400, Invalid, ": Just so"),
        "no word": (None, 400, Invalid, " without explanation"),
    },
)
def test_refusals(
    registrar: Registrar,
    resource: Resource,
    status: Json | None,
    code: int,
    kind: type[ClusterError],
    message: str,
) -> None:
    """A refusal is handed on with its code and words, whatever the failure policy."""
    answer = {"allowed": False} | ({"status": status} if status else {})
    registrar.reviewer.answers["/case"] = lambda _request: answer
    registrar.register(resource, registrar.webhook(failurePolicy="Ignore"))

    with pytest.raises(kind, match=f"denied the request{message}") as refused:
        registrar.make()

    assert refused.value.status == code
    assert 'admission webhook "case.contract.example.com"' in refused.value.message
    with pytest.raises(NotFound):
        registrar.get(SECRETS, "first")


def wrong_uid(_request: Json) -> Json:
    """An answer to another question."""
    return {"allowed": True, "uid": "another"}


def patch_without_type(_request: Json) -> Json:
    """A patch of no kind."""
    return {"allowed": True, "patch": "W10="}


FAILURES = [
    pytest.param(lambda _request: 500, id="status 500"),
    pytest.param(lambda _request: 404, id="status 404"),
    pytest.param(lambda _request: b"no json", id="no JSON"),
    pytest.param(lambda _request: b'{"kind": "AdmissionReview"}', id="no response"),
    pytest.param(wrong_uid, id="another uid"),
    pytest.param(patch_without_type, id="a patch of no type"),
]


@pytest.mark.parametrize("answer", FAILURES)
def test_answers_that_are_none(registrar: Registrar, answer: Answer) -> None:
    """Without an answer the failure policy decides."""
    registrar.reviewer.answers["/case"] = answer
    registrar.register(MUTATING_WEBHOOKS, registrar.webhook())
    with pytest.raises(
        Unavailable, match=r'failed calling webhook "case\.contract\.example\.com"'
    ) as refused:
        registrar.make()

    assert (refused.value.status, refused.value.reason) == (500, "InternalError")
    registrar.dismiss()
    registrar.made.clear()
    registrar.register(MUTATING_WEBHOOKS, registrar.webhook(failurePolicy="Ignore"))
    assert registrar.make()["metadata"]["uid"]


def test_no_server(registrar: Registrar) -> None:
    """A connection that is refused is a failure like any other."""
    with reviewing() as other:
        closed = other.port
    client = registrar.reviewer.client("/case", port=closed)
    closed_webhook = registrar.webhook(clientConfig=client, failurePolicy="Ignore")
    registrar.register(VALIDATING_WEBHOOKS, closed_webhook)
    assert registrar.make()["metadata"]["uid"]

    registrar.register(VALIDATING_WEBHOOKS, closed_webhook | {"failurePolicy": "Fail"})
    with pytest.raises(Unavailable, match=r"[Cc]onnection refused"):
        registrar.make("second")


def test_the_certificate_is_verified(registrar: Registrar) -> None:
    """A webhook that the CA bundle does not vouch for is never asked."""
    client = registrar.reviewer.client("/case", ca=OTHER_CA.pem)
    registrar.register(VALIDATING_WEBHOOKS, registrar.webhook(clientConfig=client))

    with pytest.raises(Unavailable, match="certificate"):
        registrar.make()
    assert not registrar.reviewer.asked("/case")


def test_an_answer_that_comes_too_late(registrar: Registrar) -> None:
    """After its time a webhook is given up."""
    registrar.reviewer.answers["/case"] = registrar.reviewer.dawdle
    registrar.register(VALIDATING_WEBHOOKS, registrar.webhook(timeoutSeconds=1))

    with pytest.raises(Unavailable, match="context deadline exceeded"):
        registrar.make()


def test_a_patch_that_does_not_apply(registrar: Registrar) -> None:
    """That is no failure to answer, so no policy helps."""
    registrar.reviewer.answers["/case"] = patch({"op": "remove", "path": "/no/where"})
    registrar.register(MUTATING_WEBHOOKS, registrar.webhook(failurePolicy="Ignore"))

    with pytest.raises(Unavailable) as refused:
        registrar.make()
    assert refused.value.status == 500


@cases(
    "more is_asked",
    {
        "as it is": ({}, True),
        "other namespaces": ({"namespaceSelector": {"matchLabels": {"no": "such"}}}, False),
        "objects with a label": ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        "with another label": ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        "all operations": ({"rules": [RULE | {"operations": ["*"]}]}, True),
        "other operation": ({"rules": [RULE | {"operations": ["DELETE"]}]}, False),
        "other group": ({"rules": [RULE | {"apiGroups": ["apps"]}]}, False),
        "other resource": ({"rules": [RULE | {"resources": ["pods"]}]}, False),
        "all resources": ({"rules": [RULE | {"resources": ["*"]}]}, True),
        "and subresources": ({"rules": [RULE | {"resources": ["*/*"]}]}, True),
        "its own": ({"rules": [RULE | {"resources": ["secrets/*"]}]}, True),
        "only status": ({"rules": [RULE | {"resources": ["*/status"]}]}, False),
        "other scope": ({"rules": [RULE | {"scope": "Cluster"}]}, False),
        "right scope": ({"rules": [RULE | {"scope": "Namespaced"}]}, True),
        "a condition holds": (when("request.operation == 'CREATE'"), True),
        "it does not": (when("object.metadata.name == 'other'"), False),
        "all must": (when("true", "!has(object.metadata.labels)"), False),
        "labels": (
            when("'a' in object.metadata.labels && object.metadata.labels['a'] in ['b', 'c']"),
            True,
        ),
        "what is false outweighs what has no value": (
            when("object.metadata.no == 1", "request.resource.resource == 'pods'"),
            False,
        ),
    },
)
def test_who_is_asked(registrar: Registrar, more: Json, is_asked: bool) -> None:
    """Rules, selectors and conditions choose what a webhook is asked about."""
    registrar.register(VALIDATING_WEBHOOKS, registrar.webhook(**more))
    registrar.make(labels={"a": "b"})

    assert bool(registrar.reviewer.asked("/case")) is is_asked


def test_match_conditions_without_a_value(registrar: Registrar) -> None:
    """A condition that cannot be told is a failure to call."""
    webhook = registrar.webhook(**when("object.metadata.no == 1"))
    registrar.register(VALIDATING_WEBHOOKS, webhook | {"failurePolicy": "Ignore"})
    registrar.make()
    assert not registrar.reviewer.asked("/case")

    registrar.register(VALIDATING_WEBHOOKS, webhook)
    with pytest.raises(ClusterError):
        registrar.make("second")


def test_bad_match_conditions(registrar: Registrar) -> None:
    """What is no condition is refused when it is registered."""
    webhook = registrar.webhook(**when("object.metadata.name =="))
    body = {"metadata": {"generateName": "contract-"}, "webhooks": [webhook]}

    with pytest.raises(Invalid, match=r"webhooks\[0\].matchConditions\[0\].expression"):
        registrar.cluster.create(Ref(VALIDATING_WEBHOOKS), body)


def test_pods_of_controllers_are_asked_about(registrar: Registrar, pods: Pods) -> None:
    """What a controller makes goes the same way as what people make."""
    rule = RULE | {"resources": ["pods"]}
    registrar.reviewer.answers["/case"] = patch(add("/metadata/labels/patched", "yes"))
    registrar.register(MUTATING_WEBHOOKS, registrar.webhook(rules=[rule]))
    registrar.create(DEPLOYMENTS, workload(replicas=2, template=idle()))
    found = pods.await_count(2)

    assert [item["metadata"]["labels"]["patched"] for item in found] == ["yes", "yes"]


@cases(
    "resources subresources",
    {
        "one": (["pods/resize"], ["resize"]),
        "of any resource": (["*/status"], ["status"]),
        "all of one": (["pods/*"], ["resize", "status"]),
        "none": (["pods"], []),
    },
)
def test_subresources_are_asked_about(
    registrar: Registrar, resources: list[str], subresources: list[str]
) -> None:
    """A rule may name subresources, and the request says which one it is about.

    An API server asks again when what it had read was already old: that is no other question.
    """
    registrar.create(PODS, pod("pod", container(resources={"requests": {"cpu": "1"}})))
    rule = RULE | {"operations": ["UPDATE"], "resources": resources}
    registrar.register(VALIDATING_WEBHOOKS, registrar.webhook(rules=[rule]))
    cpu = add("/spec/containers/0/resources/requests/cpu", "2")
    registrar.patch(PODS, "pod", [cpu], "resize")
    phase = add("/status/phase", "Running")
    registrar.patch(PODS, "pod", [phase], "status")
    asked = {request["subResource"]: None for request in registrar.reviewer.asked("/case")}

    assert [*asked] == subresources


def test_who_is_asked_again(registrar: Registrar) -> None:
    """A webhook that wants so is asked again if another changed the object after it."""
    registrar.reviewer.answers["/two"] = patch(add("/metadata/labels", {"two": "2"}))
    first = registrar.webhook("/one", reinvocationPolicy="IfNeeded")
    registrar.register(
        MUTATING_WEBHOOKS, first, registrar.webhook("/two"), registrar.webhook("/three")
    )
    registrar.make()
    asked = [len(registrar.reviewer.asked(path)) for path in ("/one", "/two", "/three")]
    again = registrar.reviewer.asked("/one")[-1]

    assert asked == [2, 1, 1]
    assert again["object"]["metadata"]["labels"] == {"two": "2"}


def test_defaults_of_a_configuration(registrar: Registrar) -> None:
    """What a configuration leaves out is filled in."""
    webhook = registrar.webhook()
    for key in ("timeoutSeconds", "failurePolicy", "objectSelector"):
        del webhook[key]
    registrar.reviewer.answers["/case"] = lambda _request: {"allowed": True}
    body = {"metadata": {"generateName": "contract-"}, "webhooks": [webhook]}
    created = registrar.cluster.create(Ref(MUTATING_WEBHOOKS), body)
    registrar.made.append((MUTATING_WEBHOOKS, created["metadata"]["name"]))
    (found,) = created["webhooks"]

    assert (found["timeoutSeconds"], found["failurePolicy"]) == (10, "Fail")
    assert (found["objectSelector"], found["matchPolicy"]) == ({}, "Equivalent")
    assert found["reinvocationPolicy"] == "Never"
    assert found["rules"][0]["scope"] == "*"
