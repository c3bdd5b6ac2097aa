"""What the audit log and the log tell of a pod."""

from __future__ import annotations

from app.admission.core.incoming import IncomingPod, read_incoming_pod
from app.admission.core.mutate import PodReason, PodVerdict
from app.admission.responses import Arrival, pod_log_keys, pod_response
from app.sizing.matching import Match, MatchReason
from tests import make
from tests.cases import cases

CALL = Arrival(began=0.0)
MATCH = Match(MatchReason.CONTROLLED, "m", make.vpa())


def incoming(**metadata: str) -> IncomingPod:
    """Return a pod as it comes to admission."""
    return read_incoming_pod({"metadata": metadata}, "default")


def unreadable(found: IncomingPod | None = None) -> PodVerdict:
    """Return the verdict on a pod that could not be read."""
    return PodVerdict(PodReason.UNREADABLE, "m", found)


@cases(
    "verdict told",
    {
        "the VPA that sized it": (
            PodVerdict(PodReason.SIZED, "m", match=MATCH),
            {"reason": "Sized", "vpa": "web"},
        ),
        "a reason": (PodVerdict(MatchReason.NO_CONTROLLER, "m"), {"reason": "NoController"}),
        "what went wrong, shortly": (
            PodVerdict(PodReason.UNREADABLE, "m" * 5000),
            {"reason": "UnreadablePod", "message": "m" * 200},
        ),
    },
)
def test_the_audit_log(verdict: PodVerdict, told: dict[str, str]) -> None:
    """What decided about a pod is told shortly."""
    assert pod_response("u", verdict)["auditAnnotations"] == told


@cases(
    "verdict name",
    {
        "its name": (unreadable(incoming(name="p")), "p"),
        "no name yet": (unreadable(incoming(generateName="p-")), "p-%"),
        "the name in the review": (unreadable(), "asked-for"),
    },
)
def test_pods_are_named(verdict: PodVerdict, name: str) -> None:
    """A pod is called as people will find it."""
    told = pod_log_keys(make.review(name="asked-for"), verdict, CALL)
    assert told == {"namespace": "default", "pod": name, "reason": "UnreadablePod", "why": "m"}


def test_unreadable_pods_are_named() -> None:
    """A pod that could not be read and has no name yet is called as it will begin."""
    bad = {"metadata": {"generateName": "p-"}, "spec": {"containers": "x"}}
    request = make.review()._replace(name="", new=bad)
    assert pod_log_keys(request, unreadable(), CALL)["pod"] == "p-%"
    assert pod_log_keys(request._replace(new=[]), unreadable(), CALL)["pod"] == ""
