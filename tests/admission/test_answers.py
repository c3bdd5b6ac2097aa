"""Answers have the fields of an API server's AdmissionResponse, in its order."""

from __future__ import annotations

import pytest

from app.admission.answers import pod_audit, pod_log_keys, review_json
from app.admission.core.incoming import IncomingPod, read_incoming_pod
from app.admission.core.mutate import PodVerdict
from app.model.review import AdmissionResponse
from app.sizing.matching import Match, MatchReason
from tests import make
from tests.runtime.reviewing import UNREADABLE

MATCH = Match(MatchReason.CONTROLLED, "m", make.vpa())
OPERATION = {"op": "add", "path": "/spec/x", "value": "1"}


def incoming(**metadata: str) -> IncomingPod:
    """Return a pod as it comes to admission."""
    return read_incoming_pod({"metadata": metadata}, "default")


@pytest.mark.parametrize(
    ("uid", "answer", "response"),
    [
        pytest.param("u", AdmissionResponse(), b'{"uid":"u","allowed":true}', id="plain"),
        pytest.param(
            "u",
            AdmissionResponse(False, status={"code": 422}, warnings=("w",), audit={"reason": "r"}),
            b'{"uid":"u","allowed":false,"status":{"code":422},'
            b'"auditAnnotations":{"reason":"r"},"warnings":["w"]}',
            id="refusal",
        ),
        pytest.param(
            "u",
            AdmissionResponse(patch=[OPERATION]),
            b'{"uid":"u","allowed":true,'
            b'"patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMveCIsInZhbHVlIjoiMSJ9XQ==",'
            b'"patchType":"JSONPatch"}',
            id="patch",
        ),
    ],
)
def test_reviews(uid: str, answer: AdmissionResponse, response: bytes) -> None:
    """What is empty is left out."""
    head = UNREADABLE[: UNREADABLE.index(b'{"uid"')]
    assert review_json(uid, answer) == head + response + b"}"
    assert review_json("", AdmissionResponse()) == UNREADABLE


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        pytest.param(
            PodVerdict("Sized", "m", match=MATCH),
            {"reason": "Sized", "vpa": "web"},
            id="the VPA that sized it",
        ),
        pytest.param(PodVerdict("NoController", "m"), {"reason": "NoController"}, id="a reason"),
        pytest.param(
            PodVerdict("UnreadablePod", "m" * 5000),
            {"reason": "UnreadablePod", "message": "m" * 200},
            id="what went wrong, shortly",
        ),
    ],
)
def test_the_audit_log(verdict: PodVerdict, told: dict[str, str]) -> None:
    """What decided about a pod is told shortly."""
    assert pod_audit(verdict) == told


@pytest.mark.parametrize(
    ("verdict", "name"),
    [
        pytest.param(PodVerdict("r", "m", incoming(name="p")), "p", id="its name"),
        pytest.param(
            PodVerdict("r", "m", incoming(generateName="p-")),
            "p-%",
            id="a name that is not made yet",
        ),
        pytest.param(PodVerdict("r", "m"), "asked-for", id="the name in the review"),
    ],
)
def test_pods_are_named(verdict: PodVerdict, name: str) -> None:
    """A pod is called as people will find it."""
    told = pod_log_keys(make.review(name="asked-for"), verdict)
    assert told == {"namespace": "default", "pod": name, "reason": "r", "why": "m"}
