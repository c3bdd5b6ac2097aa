"""What a refusal by the API server means."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.model.errors import (
    ClusterError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import longer
from app.updater.core.outcomes import (
    RefusalKind,
    eviction_refusal,
    evicts_instead,
    refusal_reason,
    resize_refusal,
)
from tests.updater.core.scenes import NOW

CAPACITY = (("NodeCapacity", "too much"),)
BUDGET = (("DisruptionBudget", "The disruption budget web needs 2 healthy pods and has 2"),)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            Refused("no", causes=CAPACITY), RefusalKind.INFEASIBLE, id="too much for the node"
        ),
        pytest.param(
            Refused("no", causes=(("Other", ""),)),
            RefusalKind.HOPELESS,
            id="refused for another cause",
        ),
        pytest.param(NotFound("no", causes=CAPACITY), RefusalKind.GONE, id="not found"),
        pytest.param(ClusterError("no"), RefusalKind.RETRY, id="plain"),
        pytest.param(Unavailable("deadline"), RefusalKind.RETRY, id="timeout"),
        pytest.param(TooMany("slow down"), RefusalKind.RETRY, id="429"),
        pytest.param(Conflict("changed"), RefusalKind.RETRY, id="conflict"),
        pytest.param(Invalid("Pod QOS Class may not change"), RefusalKind.HOPELESS, id="invalid"),
        pytest.param(
            NotFound("the server could not find the requested resource"),
            RefusalKind.HOPELESS,
            id="no resize subresource",
        ),
        pytest.param(ClusterError("no", status=405), RefusalKind.HOPELESS, id="no such method"),
        pytest.param(Refused("exceeded quota: rq"), RefusalKind.RETRY, id="quota"),
        pytest.param(
            Refused("maximum cpu usage per Container is 500m"), RefusalKind.RETRY, id="limit range"
        ),
        pytest.param(
            Refused('User "u" cannot patch resource "pods/resize"'),
            RefusalKind.RETRY,
            id="no right",
        ),
    ],
)
def test_after_resize(error: ClusterError, expected: RefusalKind) -> None:
    """Only what no waiting can mend, and recreating can, leads to an eviction."""
    assert resize_refusal(error) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotFound("gone"), RefusalKind.GONE),
        (Conflict("another uid"), RefusalKind.GONE),
        (TooMany("Cannot evict pod", causes=BUDGET), RefusalKind.BUDGET),
        (TooMany("DisruptionBudget is still being processed"), RefusalKind.BUDGET),
        (TooMany("slow down"), RefusalKind.RETRY),
        (
            Unavailable("This pod has more than one PodDisruptionBudget, which is not supported"),
            RefusalKind.BUDGET,
        ),
        (Unavailable("etcd"), RefusalKind.RETRY),
        (Refused("no right"), RefusalKind.RETRY),
    ],
)
def test_after_eviction(error: ClusterError, expected: RefusalKind) -> None:
    """A budget that holds is no failure of the pod."""
    assert eviction_refusal(error) is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (RefusalKind.HOPELESS, True),
        (RefusalKind.INFEASIBLE, True),
        (RefusalKind.RETRY, False),
        (RefusalKind.GONE, False),
    ],
)
def test_evicts_instead(kind: RefusalKind, expected: bool) -> None:
    """Only where a resize will never do; after a timeout or a conflict it is tried again."""
    assert evicts_instead(kind) is expected


def test_pauses_double_up_to_a_limit() -> None:
    """Ten seconds, twenty, forty, and never more than ten minutes."""
    pause, seconds = None, []
    for _ in range(9):
        pause = longer(pause, Reason.EVICTION_ERROR, "no", NOW)
        seconds.append((pause.until - NOW).total_seconds())
    assert seconds == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert pause is not None
    assert not pause.is_over(NOW + timedelta(seconds=599))
    assert pause.is_over(NOW + timedelta(seconds=600))


def test_pauses_are_no_shorter_than_asked() -> None:
    """A server may ask for more, but not for ever."""
    for asked, given in ((33, 33), (1e300, 3600)):
        pause = longer(None, Reason.EVICTION_ERROR, "no", NOW, retry_after_seconds=asked)
        assert pause.until == NOW + timedelta(seconds=given)


@pytest.mark.parametrize(
    ("action", "error", "reason"),
    [
        (Action.EVICT, TooMany("no", causes=BUDGET), Reason.PDB_BLOCKED),
        (Action.EVICT, NotFound("gone"), Reason.POD_TERMINATING),
        (Action.EVICT, Unavailable("etcd"), Reason.EVICTION_ERROR),
        (Action.RESIZE, Refused("no", causes=CAPACITY), Reason.RESIZE_INFEASIBLE),
        (Action.UNBOOST, Conflict("changed"), Reason.RESIZE_ERROR),
    ],
)
def test_what_is_told_of_a_refusal(action: Action, error: ClusterError, reason: Reason) -> None:
    """The reason of a pod for which a call was refused, in the words of its decisions."""
    assert refusal_reason(action, error)[0] is reason
