"""Lists: pages, order, selectors, versions."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from app.model.errors import Invalid
from app.ports import LEASES, PODS, SECRETS, Cluster, Json, ListPage
from tests.cases import cases
from tests.contract.building import lease, pod, secret
from tests.contract.space import Space


def names(items: Iterable[Json]) -> list[str]:
    """The names of some objects."""
    return [item["metadata"]["name"] for item in items]


def all_pages(cluster: Cluster, namespace: str, first: ListPage, limit: int) -> list[ListPage]:
    """The first page and all that follow it."""
    pages = [first]
    while pages[-1].continue_token:
        token = pages[-1].continue_token
        pages.append(cluster.list(SECRETS, namespace, limit=limit, continue_token=token))
    return pages


def test_lists_are_in_order_of_names(space: Space) -> None:
    """Order of creation does not matter, and other namespaces are left out."""
    for name in ("b", "c", "a", "b-0"):
        space.create(SECRETS, secret(name))

    assert names(space.items(SECRETS)) == ["a", "b", "b-0", "c"]


def test_lists_of_all_namespaces(space: Space) -> None:
    """No namespace means all of them."""
    created = space.create(SECRETS, secret())

    assert created in space.cluster.list(SECRETS).items


def test_pages_show_one_moment(space: Space) -> None:
    """What changes while a list is read page by page does not show on later pages."""
    for number in range(5):
        space.create(SECRETS, secret(f"s-{number}"))
    first = space.cluster.list(SECRETS, space.namespace, limit=2)
    space.create(SECRETS, secret("s-3-later"))
    space.delete(SECRETS, "s-4")
    space.merge(SECRETS, "s-3", {"data": {"new": ""}})
    pages = all_pages(space.cluster, space.namespace, first, 2)

    assert [names(page.items) for page in pages] == [["s-0", "s-1"], ["s-2", "s-3"], ["s-4"]]
    assert "new" not in pages[1].items[1]["data"]
    assert {page.resource_version for page in pages} == {first.resource_version}


def test_pages_of_a_selection(space: Space) -> None:
    """A page counts what is selected."""
    for number in range(6):
        labels = {"odd": str(number % 2)}
        space.create(SECRETS, secret(f"s-{number}", labels=labels))
    first = space.cluster.list(SECRETS, space.namespace, label_selector="odd=1", limit=2)
    second = space.cluster.list(
        SECRETS,
        space.namespace,
        label_selector="odd=1",
        limit=2,
        continue_token=first.continue_token,
    )

    assert (names(first.items), names(second.items)) == (["s-1", "s-3"], ["s-5"])
    assert not second.continue_token


def test_nonsense_tokens(cluster: Cluster, namespace: str) -> None:
    """A token that the server did not make is refused."""
    with pytest.raises(Invalid) as refused:
        cluster.list(SECRETS, namespace, limit=1, continue_token="nonsense")

    assert refused.value.status == 400


@cases(
    "selector expected",
    {
        "equal": ("tier=web", ["a"]),
        "equal, as programmers write it": ("tier==web", ["a"]),
        "not equal holds for those without": ("tier!=web", ["b", "c"]),
        "in": ("tier in (web, data)", ["a", "b"]),
        "not in": ("tier notin (web)", ["b", "c"]),
        "exists": ("tier", ["a", "b"]),
        "does not exist": ("!tier", ["c"]),
        "all must hold": ("tier,tier!=web", ["b"]),
        "none asked": ("", ["a", "b", "c"]),
    },
)
def test_label_selectors(space: Space, selector: str, expected: list[str]) -> None:
    """Objects are chosen by their labels."""
    space.create(SECRETS, secret("a", labels={"tier": "web"}))
    space.create(SECRETS, secret("b", labels={"tier": "data"}))
    space.create(SECRETS, secret("c"))
    page = space.cluster.list(
        SECRETS, space.namespace, label_selector=selector, field_selector="type=Opaque"
    )

    assert names(page.items) == expected


@cases(
    "selector expected",
    {
        "by name": ("metadata.name=b", ["b"]),
        "by another name": ("metadata.name!=b", ["a"]),
        "without a node": ("spec.nodeName=", ["a", "b"]),
        "with a node": ("spec.nodeName!=", []),
        "by phase": ("status.phase=Running", ["b"]),
        "several": ("status.phase!=Running,metadata.name=a", ["a"]),
        "by scheduler": ("spec.schedulerName=nobody", ["a", "b"]),
    },
)
def test_field_selectors(space: Space, selector: str, expected: list[str]) -> None:
    """Pods are chosen by the few fields that a server selects by."""
    for name in ("a", "b"):
        space.create(PODS, pod(name))
    running = {"status": {"phase": "Running"}}
    space.merge(PODS, "b", running, "status")

    assert names(space.items(PODS, fields=selector)) == expected


def test_namespaces_are_fields(space: Space) -> None:
    """Of all Leases those of one namespace can be left out."""
    space.create(LEASES, lease(space.namespace))
    listed = {
        operator: names(
            space.cluster.list(
                LEASES, field_selector=f"metadata.namespace{operator}{space.namespace}"
            ).items
        )
        for operator in ("=", "!=")
    }

    assert listed["="] == [space.namespace]
    assert space.namespace not in listed["!="]


@cases(
    "labels fields",
    {
        "broken label selector": ("a in", ""),
        "broken field selector": ("", "spec.nodeName"),
        "field that is not selected by": ("", "spec.hostname=x"),
    },
)
def test_bad_selectors(cluster: Cluster, namespace: str, labels: str, fields: str) -> None:
    """A selector that cannot be read selects nothing, not everything."""
    with pytest.raises(Invalid) as refused:
        cluster.list(PODS, namespace, label_selector=labels, field_selector=fields)

    assert refused.value.status == 400
