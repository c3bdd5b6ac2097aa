"""OOM kills: what is seen, and what would have been enough."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.model.pods import Pod, read_pod
from app.recommender.core.moments import EARLIEST, nanoseconds
from app.recommender.core.oom import (
    OomRecord,
    evicted,
    memory_request,
    needed_memory,
    new_kills,
)
from tests import make

MI = 2**20
KILLED_AT = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("request_mi", "peak_mi", "ratio", "bump", "expected"),
    [
        pytest.param(1000, 0, 1.2, 100, 1200, id="W39: by ratio"),
        pytest.param(1, 0, 1.2, 100, 101, id="W40: at least so much more"),
        pytest.param(500, 0, 1.2, 100, 600, id="W41: both alike"),
        pytest.param(1000, 3000, 1.2, 100, 3600, id="W42: from the peak"),
        pytest.param(1024, 0, 3.0, 100, 3072, id="W43: own ratio"),
        pytest.param(0, 0, 1.2, 100, 100, id="W44: nothing known"),
        pytest.param(512, 0, 1.0, 0, 512, id="W45: no bump at all"),
        pytest.param(512, 0, 1.0, 10**24, 512 + 10**14 / MI, id="no end of a bump"),
    ],
)
def test_needed_memory(
    request_mi: int, peak_mi: int, ratio: float, bump: int, expected: int
) -> None:
    """More than was there, by ratio and at least by the smallest bump."""
    found = needed_memory(request_mi * MI, peak_mi * MI, ratio=ratio, bump_bytes=float(bump * MI))

    assert found == expected * MI


def status(
    state: str,
    *,
    restarts: int = 0,
    reason: str = "OOMKilled",
    last: str | None = None,
    finished: datetime | None = KILLED_AT,
) -> dict[str, Any]:
    """Return a container status in a state; `last` is the reason of the end before."""
    ended = {"finishedAt": make.time(finished)} if finished else {}
    states: dict[str, Any] = {
        "running": {"running": {}},
        "waiting": {"waiting": {"reason": "CrashLoopBackOff"}},
        "terminated": {"terminated": {"reason": reason, **ended}},
    }
    return {
        "name": "app",
        "restartCount": restarts,
        "state": states[state],
        "lastState": {"terminated": {"reason": last, **ended}} if last else {},
    }


def pod(state: dict[str, Any], memory: str = "1024") -> Pod:
    """Return a pod whose container has a status and a request."""
    return make.pod(memory=memory, status={"phase": "Running", "containerStatuses": [state]})


TRANSITIONS = [
    pytest.param(
        status("running"), status("terminated"), "2048", [1024], id="W52e: killed, request of then"
    ),
    pytest.param(
        status("running"),
        status("running", restarts=1, last="OOMKilled"),
        "4096",
        [2048],
        id="W52f: killed and started again unseen",
    ),
    pytest.param(
        status("terminated", reason="Error", finished=KILLED_AT - timedelta(minutes=1)),
        status("terminated", restarts=1),
        "2048",
        [1024],
        id="W52g: another end after another",
    ),
    pytest.param(
        status("waiting", last="OOMKilled"),
        status("running", restarts=1, last="OOMKilled"),
        "2048",
        [],
        id="W52h: out of the crash loop",
    ),
    pytest.param(
        status("terminated"), status("terminated"), "2048", [], id="W52h: nothing has changed"
    ),
    pytest.param(
        status("running", restarts=1, last="OOMKilled"),
        status("running", restarts=1, last="OOMKilled"),
        "2048",
        [],
        id="W52h: told again",
    ),
    pytest.param(
        status("running"),
        status("running", restarts=1, last="Error"),
        "2048",
        [],
        id="W52h: another reason",
    ),
]


@pytest.mark.parametrize(("before", "after", "other", "expected"), TRANSITIONS)
def test_kills(
    before: dict[str, Any], after: dict[str, Any], other: str, expected: list[int]
) -> None:
    """A transition tells of kills."""
    old, new = transition(before, after, other, expected)

    assert [record.memory_bytes for record in new_kills(old, new)] == expected


def transition(
    before: dict[str, Any], after: dict[str, Any], other: str, expected: list[int]
) -> tuple[Pod, Pod]:
    """Return two states of a pod, of which the one that counts requests what is expected."""
    memories = ("1024", other) if expected != [2048] else ("2048", other)
    old, new = pod(before, memories[0]), pod(after, memories[1])
    if expected == [1024]:
        old, new = pod(before, other), pod(after, "1024")

    return old, new


def test_record() -> None:
    """A record names the container and when it ended."""
    after = pod(status("terminated"))
    expected = OomRecord("default", "web-0", "app", nanoseconds(KILLED_AT), 1024, "uid-web-0")

    assert new_kills(None, after) == [expected]


def test_first_sight() -> None:
    """A pod that tells of kills when it is first seen counts."""
    after = pod(status("terminated", restarts=1, last="OOMKilled", finished=None))

    assert [record.time_ns for record in new_kills(None, after)] == [EARLIEST, EARLIEST]


def test_kills_without_time_are_told_apart_by_restarts() -> None:
    """Where the kubelet gives no time, the number of restarts tells kills apart."""
    before = pod(status("running", restarts=1, last="OOMKilled", finished=None))
    same = pod(status("running", restarts=1, last="OOMKilled", finished=None))
    again = pod(status("running", restarts=2, last="OOMKilled", finished=None))

    assert (len(new_kills(before, same)), len(new_kills(before, again))) == (0, 1)


def test_containers_that_were_not_there_before() -> None:
    """A status that appears tells of its kills."""
    before = make.pod(status={"phase": "Running"})
    after = pod(status("terminated"))

    assert len(new_kills(before, after)) == 1


@pytest.mark.parametrize(
    ("resources", "memory", "expected"),
    [
        pytest.param({"requests": {"memory": "250Mi"}}, "1Mi", 250 * MI, id="W98: the kubelet's"),
        pytest.param(None, "1Mi", MI, id="the spec's"),
        pytest.param({}, "1Mi", 0, id="the kubelet knows of none"),
        pytest.param(None, None, 0, id="none"),
        pytest.param(None, "-1Mi", 0, id="garbage"),
    ],
)
def test_memory_request(resources: object, memory: str | None, expected: int) -> None:
    """The kubelet's word goes before the spec's."""
    item = make.pod_json(memory=memory)
    item["status"] = {"containerStatuses": [{"name": "app", "resources": resources}]}

    assert memory_request(read_pod(item), "app") == expected


def test_memory_request_of_an_unknown_container() -> None:
    """What is in no spec requests nothing."""
    assert memory_request(make.pod(memory="1Mi"), "other") == 0


def event(containers: str, usage: str, starved: str, **more: object) -> dict[str, Any]:
    """Return an eviction event of the kubelet."""
    annotations = {
        "offending_containers": containers,
        "offending_containers_usage": usage,
        "starved_resource": starved,
    }
    return {
        "reason": "Evicted",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-0", "uid": "u"},
        "metadata": {"creationTimestamp": make.time(KILLED_AT), "annotations": annotations},
    } | more


@pytest.mark.parametrize(
    ("blamed", "share", "expected"),
    [
        pytest.param(
            event("c1", "1024Ki", "memory"), False, [("c1", MI)], id="W52a: one container"
        ),
        pytest.param(
            event("c1,c2", "1024Ki,2048Ki", "memory,memory"),
            False,
            [("c1", MI), ("c2", 2 * MI)],
            id="W52b: two",
        ),
        pytest.param(
            event("c1,c2", "1024Ki,2048Ki", "memory,evictable"),
            False,
            [("c1", MI)],
            id="W52c: only one for memory",
        ),
        pytest.param(
            event("c1,c2", "1024Ki,2048Ki", "memory"), False, [], id="W52d: one word, as upstream"
        ),
        pytest.param(
            event("c1,c2", "1024Ki,2048Ki", "memory"),
            True,
            [("c1", MI), ("c2", 2 * MI)],
            id="one word stands for all",
        ),
        pytest.param(event("c1,c2", "many,1", "memory"), True, [("c2", 1)], id="no quantity"),
        pytest.param(event("c1,c2", "1e30,1", "memory"), True, [("c2", 1)], id="too much"),
        pytest.param(event("c1", "1", "memory", reason="Killing"), True, [], id="another event"),
        pytest.param(
            event("c1", "1", "memory", involvedObject={"kind": "Node"}), True, [], id="no pod"
        ),
        pytest.param({"reason": "Evicted", "involvedObject": {"kind": "Pod"}}, True, [], id="bare"),
        pytest.param(event("c1", "1", "memory", metadata=7), True, [], id="garbage"),
    ],
)
def test_evicted(blamed: dict[str, Any], share: bool, expected: list[tuple[str, int]]) -> None:
    """An eviction tells which containers used how much of what was short."""
    found = evicted(blamed, share_resource=share)

    assert [(record.container, record.memory_bytes) for record in found] == expected


def test_eviction_record() -> None:
    """An eviction is dated by its event, if it has a date."""
    dated = evicted(event("c1", "1", "memory"), share_resource=True)
    metadata = {"annotations": event("c1", "1", "memory")["metadata"]["annotations"]}
    undated = evicted(event("c1", "1", "memory", metadata=metadata), share_resource=True)

    assert dated == [OomRecord("default", "web-0", "c1", nanoseconds(KILLED_AT), 1, "u")]
    assert undated[0].time_ns == EARLIEST
