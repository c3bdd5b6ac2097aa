"""Versions, who is told of changes, and owners."""

from __future__ import annotations

import pytest

from app.ports import Json
from app.sandbox.store import Stale, Store, StoredChange


def thing(name: str, uid: str = "", **spec: object) -> Json:
    """An object of no kind."""
    return {"metadata": {"name": name, "namespace": "ns", "uid": uid or name}, "spec": spec}


def test_each_change_has_a_version_of_its_own() -> None:
    """The counter is one for all collections, and every change is told to listeners."""
    store = Store()
    told: list[tuple[str, StoredChange]] = []
    store.listen(lambda collection, change: told.append((collection, change)))
    first = store.insert("a", thing("x"))
    second = store.insert("b", thing("y"))
    changed = store.replace("a", first, thing("x", size=1))
    store.remove("b", second)

    versions = [change.version for _, change in told]
    assert versions == list(range(versions[0], versions[0] + 4))
    assert [collection for collection, _ in told] == ["a", "b", "a", "b"]
    assert (told[2][1].before, told[2][1].after) == (first, changed)
    assert store.version == versions[-1]


def test_nobody_writes_over_what_they_did_not_read() -> None:
    """An object that changed or went since it was read is stale, and so is a name taken."""
    store = Store()
    first = store.insert("a", thing("x"))
    store.replace("a", first, thing("x", size=1))

    with pytest.raises(Stale):
        store.replace("a", first, thing("x", size=2))
    with pytest.raises(Stale):
        store.remove("a", first)
    with pytest.raises(Stale):
        store.insert("a", thing("x"))


def test_owners_are_indexed() -> None:
    """Dependents are found by the uid of their owner, as long as they name it."""
    store = Store()
    owned = thing("x")
    owned["metadata"]["ownerReferences"] = [{"uid": "o1"}, {"uid": "o2"}]
    item = store.insert("a", owned)
    other = thing("x")
    other["metadata"]["ownerReferences"] = [{"uid": "o2"}]
    assert store.owned_by("o1") == [("a", item)]
    item = store.replace("a", item, other)

    assert (store.owned_by("o1"), store.owned_by("o2")) == ([], [("a", item)])
    assert store.exists("x")
    store.remove("a", item)
    assert store.owned_by("o2") == []
    assert not store.exists("x")
