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
    Aftermath,
    after_eviction,
    after_resize,
    evicts_instead,
    refusal,
)
from tests.updater.core.scenes import NOW

CAPACITY = (("NodeCapacity", "too much"),)
BUDGET = (("DisruptionBudget", "The disruption budget web needs 2 healthy pods and has 2"),)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(Refused("no", causes=CAPACITY), Aftermath.INFEASIBLE, id="I31"),
        pytest.param(Refused("no", causes=(("Other", ""),)), Aftermath.HOPELESS, id="I32"),
        pytest.param(NotFound("no", causes=CAPACITY), Aftermath.GONE, id="I32 not found"),
        pytest.param(ClusterError("no"), Aftermath.RETRY, id="I32 plain"),
        pytest.param(Unavailable("deadline"), Aftermath.RETRY, id="I18 timeout"),
        pytest.param(TooMany("slow down"), Aftermath.RETRY, id="I18 429"),
        pytest.param(Conflict("changed"), Aftermath.RETRY, id="I18 conflict"),
        pytest.param(Invalid("Pod QOS Class may not change"), Aftermath.HOPELESS, id="invalid"),
        pytest.param(
            NotFound("the server could not find the requested resource"),
            Aftermath.HOPELESS,
            id="no resize subresource",
        ),
        pytest.param(ClusterError("no", status=405), Aftermath.HOPELESS, id="no such method"),
        pytest.param(Refused("exceeded quota: rq"), Aftermath.RETRY, id="quota"),
        pytest.param(
            Refused("maximum cpu usage per Container is 500m"), Aftermath.RETRY, id="limit range"
        ),
        pytest.param(
            Refused('User "u" cannot patch resource "pods/resize"'), Aftermath.RETRY, id="no right"
        ),
    ],
)
def test_after_resize(error: ClusterError, expected: Aftermath) -> None:
    """Only what no waiting can mend, and recreating can, leads to an eviction."""
    assert after_resize(error) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotFound("gone"), Aftermath.GONE),
        (Conflict("another uid"), Aftermath.GONE),
        (TooMany("Cannot evict pod", causes=BUDGET), Aftermath.BUDGET),
        (TooMany("DisruptionBudget is still being processed"), Aftermath.BUDGET),
        (TooMany("slow down"), Aftermath.RETRY),
        (
            Unavailable("This pod has more than one PodDisruptionBudget, which is not supported"),
            Aftermath.BUDGET,
        ),
        (Unavailable("etcd"), Aftermath.RETRY),
        (Refused("no right"), Aftermath.RETRY),
    ],
)
def test_after_eviction(error: ClusterError, expected: Aftermath) -> None:
    """A budget that holds is no failure of the pod."""
    assert after_eviction(error) is expected


@pytest.mark.parametrize(
    ("aftermath", "expected"),
    [
        (Aftermath.HOPELESS, True),
        (Aftermath.INFEASIBLE, True),
        (Aftermath.RETRY, False),
        (Aftermath.GONE, False),
    ],
)
def test_evicts_instead(aftermath: Aftermath, expected: bool) -> None:
    """Only where a resize will never do; after a timeout or a conflict it is tried again."""
    assert evicts_instead(aftermath) is expected


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
    assert refusal(action, error)[0] is reason
