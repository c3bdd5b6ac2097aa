"""LimitRanges: what they fill into pods, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from app.model.errors import Refused
from app.ports import LIMIT_RANGES, PODS, Json, Ref
from tests.contract.building import add, container, pod, resources
from tests.contract.space import Space


def limit_range(**item: object) -> Json:
    """A LimitRange of one item."""
    return {"metadata": {"name": "limits"}, "spec": {"limits": [item]}}


def test_defaults_of_a_limit_range(space: Space) -> None:
    """What a maximum or a default says of containers follows on to what they say nothing of."""
    item = limit_range(type="Container", max={"cpu": "1"}, default={"memory": "1Gi"})
    created = space.create(LIMIT_RANGES, item)["spec"]["limits"][0]

    assert created["default"] == {"cpu": "1", "memory": "1Gi"}
    assert created["defaultRequest"] == {"cpu": "1", "memory": "1Gi"}


def test_pods_get_defaults(space: Space) -> None:
    """Containers get what they leave out, and the pod tells so."""
    item = limit_range(
        type="Container", default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "100m"}
    )
    space.create(LIMIT_RANGES, item)
    body = pod("pod", container("a"), container("b", resources=resources({"cpu": "200m"})))

    def planned() -> Json | None:
        found = space.create(PODS, body, dry_run=True)
        return found if found["metadata"].get("annotations") else None

    found = space.eventually(planned)
    one, other = (entry["resources"] for entry in found["spec"]["containers"])

    assert one == {
        "requests": {"cpu": "100m", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    assert other["requests"] == {"cpu": "200m", "memory": "1Gi"}
    told = found["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert "memory request for container b" in told
    assert "cpu, memory limit for container a" in told


# What a LimitRange says of a kind of thing, what two containers ask for, and what is told.
CASES = [
    ("Container", {"max": {"cpu": "500m"}}, {"limits": {"cpu": "1"}},
        "maximum cpu usage per Container is 500m, but limit is 1"),
    ("Container", {"min": {"memory": "1Gi"}}, {"requests": {"memory": "512Mi"}},
        "minimum memory usage per Container is 1Gi, but request is 512Mi"),
    ("Pod", {"max": {"cpu": "500m"}}, {"requests": {"cpu": "100m"}},
        "maximum cpu usage per Pod is 500m.  No limit is specified"),
    ("Pod", {"max": {"cpu": "500m"}}, {"limits": {"cpu": "300m"}},
        "maximum cpu usage per Pod is 500m, but limit is 600m"),
    ("Container", {"maxLimitRequestRatio": {"cpu": "2"}},
        {"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}},
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
    ("Pod", {"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "100m"}},
        "cpu max limit to request ratio per Pod is 2, but no limit is specified or limit is 0"),
    ("Pod", {"maxLimitRequestRatio": {"cpu": "2"}}, {},
        "cpu max limit to request ratio per Pod is 2, but no request is specified"),
    ("Pod", {"min": {"cpu": "1"}}, {}, "minimum cpu usage per Pod is 1.  No request is specified"),
    ("Container", {"min": {"cpu": "200m"}, "max": {"memory": "1Gi"}},  # several at once
        {"requests": {"cpu": "100m"}, "limits": {"memory": "2Gi"}},
        "minimum cpu usage per Container is 200m, but request is 100m"),
]  # fmt: skip


def refusal(call: Callable[[], object]) -> Refused | None:
    """Return how a call is refused, None if it is not."""
    try:
        call()
    except Refused as error:
        return error
    return None


@pytest.mark.parametrize(("kind", "item", "asked", "message"), CASES)
def test_pods_are_refused(space: Space, kind: str, item: Json, asked: Json, message: str) -> None:
    """A pod that does not keep to the limits is forbidden, and told why."""
    space.create(LIMIT_RANGES, limit_range(type=kind, **item))
    body = pod("pod", container("a", resources=asked), container("b", resources=asked))

    ref = Ref(PODS, space.namespace)
    refused = space.eventually(
        partial(refusal, lambda: space.cluster.create(ref, body, dry_run=True))
    )
    assert refused.status == 403
    assert 'pods "pod" is forbidden' in refused.message
    assert message in refused.message
    assert refused.causes == ()


@pytest.mark.parametrize(
    ("names", "told"),
    [(("proxy", "setup"), "limit is 700m"), (("setup", "proxy"), "limit is 500m")],
)
def test_sums_with_init_containers(space: Space, names: tuple[str, str], told: str) -> None:
    """An init container runs beside the sidecars in front of it, and before those behind it."""
    small, large = (resources(limits={"cpu": amount}) for amount in ("300m", "400m"))
    found = {
        "proxy": container("proxy", resources=small, restartPolicy="Always"),
        "setup": container("setup", resources=large),
    }
    init = [found[name] for name in names]
    main = container(resources=resources(limits={"cpu": "200m"}))
    space.create(LIMIT_RANGES, limit_range(type="Pod", max={"cpu": "450m"}))

    body = pod("pod", main, initContainers=init)
    ref = Ref(PODS, space.namespace)
    refused = space.eventually(
        partial(refusal, lambda: space.cluster.create(ref, body, dry_run=True))
    )
    assert f"maximum cpu usage per Pod is 450m, but {told}" in refused.message


def test_resizes_are_refused(space: Space) -> None:
    """The limits hold for resizes too, without a cause by which to tell them."""
    asked = resources({"cpu": "100m"}, {"cpu": "200m"})
    space.create(PODS, pod("pod", container(resources=asked)))
    space.create(LIMIT_RANGES, limit_range(type="Container", max={"cpu": "500m"}))

    ref = Ref(PODS, space.namespace, "pod", subresource="resize")
    more = [add("/spec/containers/0/resources/limits/cpu", "1")]
    refused = space.eventually(
        partial(refusal, lambda: space.cluster.patch(ref, more, dry_run=True))
    )
    assert "maximum cpu usage per Container is 500m, but limit is 1" in refused.message
    assert (refused.status, refused.causes) == (403, ())
