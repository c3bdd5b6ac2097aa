"""Objects: made, read, changed, deleted, and refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.model.errors import ClusterError, Conflict, Invalid, NotFound
from app.ports import (
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    Cluster,
    Json,
    PatchKind,
    Ref,
    Resource,
)
from tests.cases import cases
from tests.contract.building import add, pod, secret, workload
from tests.contract.space import Space
from tests.contract.waiting import Eventually

MERGE = PatchKind.MERGE


def version(item: Json) -> int:
    """The version of an object; API servers of this century count."""
    return int(item["metadata"]["resourceVersion"])


def test_created_objects_carry_what_the_server_sets(space: Space) -> None:
    """A new object has a uid, a version, a time; what a caller says of these does not count."""
    body = secret(uid="mine", creationTimestamp="2001-01-01T00:00:00Z")
    metadata = space.create(SECRETS, body)["metadata"]

    assert (metadata["name"], metadata["namespace"]) == ("first", space.namespace)
    assert metadata["uid"] not in ("", "mine")
    assert not metadata["creationTimestamp"].startswith("2001")
    assert metadata["resourceVersion"].isdecimal()


def test_objects_are_read_as_they_were_written(space: Space) -> None:
    """What create returned is what get and list return, with kind and apiVersion."""
    created = space.create(SECRETS, secret())
    found = space.get(SECRETS, "first")

    assert found == created
    assert list(space.items(SECRETS)) == [created]
    assert (found["apiVersion"], found["kind"]) == ("v1", "Secret")


def test_what_is_returned_belongs_to_the_caller(space: Space) -> None:
    """A change of what a call returned or took changes nothing else."""
    body = secret()
    created = space.create(SECRETS, body)
    body["data"]["key"] = created["data"]["key"] = "b3RoZXI="

    assert space.get(SECRETS, "first")["data"] == {"key": "dmFsdWU="}


def test_generated_names(space: Space) -> None:
    """A name is made of `generateName` and five letters, another one each time."""
    body = {"metadata": {"generateName": "some-"}}
    names = {space.create(SECRETS, body)["metadata"]["name"] for _ in range(5)}

    assert len(names) == 5
    assert all(name.startswith("some-") and len(name) == len("some-") + 5 for name in names)


@cases(
    "body status reason message",
    {
        "no DNS name": (secret("No Name"), 422, "Invalid", "metadata.name"),
        "nameless": ({"data": {}}, 422, "Invalid", "name or generateName"),
        "label": (secret(labels={"a b": "c"}), 422, "Invalid", "metadata.labels"),
        "label of a wrong type": (secret(labels={"a": 5}), 400, "BadRequest", "."),
        "elsewhere": (secret(namespace="other"), 400, "BadRequest", "namespace"),
        "another kind": (secret() | {"kind": "Pod"}, 400, "BadRequest", "."),
    },
)
def test_bad_objects(space: Space, body: Json, status: int, reason: str, message: str) -> None:
    """What can never be accepted is `Invalid` and says where."""
    with pytest.raises(Invalid, match=message) as refused:
        space.create(SECRETS, body)

    assert (refused.value.status, refused.value.reason) == (status, reason)


def test_causes_are_told_one_by_one(space: Space) -> None:
    """Each wrong field is a cause of its own."""
    body = workload()
    body["spec"]["template"]["spec"]["containers"] = [{"name": "a"}, {"name": "a", "image": "b"}]

    with pytest.raises(Invalid) as refused:
        space.create(DEPLOYMENTS, body)

    reasons = sorted(reason for reason, _ in refused.value.causes)
    assert reasons == ["FieldValueDuplicate", "FieldValueRequired"]


def test_names_are_taken_once(space: Space) -> None:
    """A second object of a name is a conflict that says so."""
    space.create(SECRETS, secret())

    with pytest.raises(Conflict, match='secrets "first" already exists') as refused:
        space.create(SECRETS, secret())

    assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")


def elsewhere(space: Space) -> object:
    """Create an object where no namespace is."""
    return space.cluster.create(Ref(SECRETS, f"{space.namespace}-no"), secret())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda space: space.get(SECRETS, "no"), 'secrets "no" not found'),
        (lambda space: space.delete(DEPLOYMENTS, "no"), 'deployments.apps "no" not found'),
        (lambda space: space.merge(SECRETS, "no", {}), 'secrets "no" not found'),
        (elsewhere, "namespaces .* not found"),
        (lambda space: space.items(Resource("apps", "v1", "nothings", "N")), "could not find"),
        (lambda space: space.items(Resource("apps", "v9", "deployments", "D")), "could not find"),
    ],
    ids=["get", "delete", "patch", "no namespace", "no kind", "no version"],
)
def test_what_is_not_there(space: Space, call: Callable[[Space], object], message: str) -> None:
    """An object, a namespace or a kind that does not exist is `NotFound`."""
    with pytest.raises(NotFound, match=message) as refused:
        call(space)

    assert (refused.value.status, refused.value.reason) == (404, "NotFound")


def test_groups_that_are_not_there(space: Space) -> None:
    """A group that is not served is `NotFound` too."""
    with pytest.raises(NotFound) as refused:
        space.items(Resource("contract.example.com", "v1", "nothings", "Nothing"))

    assert refused.value.status == 404


def test_a_missing_namespace_lists_as_empty(cluster: Cluster, namespace: str) -> None:
    """There is nothing in a namespace that does not exist."""
    assert not cluster.list(SECRETS, f"{namespace}-no").items


def test_replace(space: Space) -> None:
    """A put object takes the place of the old one, whose identity it keeps."""
    created = space.create(SECRETS, secret(labels={"a": "b"}))
    replaced = space.replace(SECRETS, "first", secret() | {"data": {}})

    assert "labels" not in replaced["metadata"]
    assert not replaced.get("data")
    assert replaced["metadata"]["uid"] == created["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]
    assert version(replaced) > version(created)


def test_replace_at_a_version(space: Space) -> None:
    """A put object that carries a version goes in only if no other write came between."""
    created = space.create(SECRETS, secret())
    newer = space.replace(SECRETS, "first", created | {"data": {}})

    with pytest.raises(Conflict, match="has been modified") as refused:
        space.replace(SECRETS, "first", created)

    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert space.get(SECRETS, "first") == newer


def test_replace_of_another_object(space: Space) -> None:
    """A put object that carries another uid is a conflict; another name makes no sense."""
    created = space.create(SECRETS, secret())

    with pytest.raises(Conflict, match="UID in precondition"):
        space.replace(SECRETS, "first", secret(uid="another"))
    with pytest.raises(Invalid, match="does not match the name on the URL"):
        space.replace(SECRETS, "first", secret("second"))

    assert space.get(SECRETS, "first") == created


def test_json_patch(space: Space) -> None:
    """The operations of a JSON patch are carried out in order."""
    space.create(SECRETS, secret(labels={"old": "1"}))
    operations = [
        {"op": "test", "path": "/metadata/labels/old", "value": "1"},
        {"op": "move", "from": "/metadata/labels/old", "path": "/metadata/labels/new"},
        add("/metadata/labels/a~1b", "2"),
        {"op": "replace", "path": "/data/key", "value": ""},
    ]
    patched = space.patch(SECRETS, "first", operations)

    assert patched["metadata"]["labels"] == {"new": "1", "a/b": "2"}
    assert patched["data"] == {"key": ""}
    assert space.get(SECRETS, "first") == patched


@cases(
    "operations status",
    {
        "test fails": ([{"op": "test", "path": "/data/key", "value": "x"}], 422),
        "other uid": ([{"op": "test", "path": "/metadata/uid", "value": ""}], 422),
        "nothing to remove": ([{"op": "remove", "path": "/data/no"}], 422),
        "nowhere to add": ([add("/no/where", 1)], 422),
        "uid is not to be changed": ([add("/metadata/uid", "other")], 422),
        "name is not to be changed": ([add("/metadata/name", "other")], 400),
        "no list of operations": ({"data": {}}, 400),
    },
)
def test_json_patch_that_fails(space: Space, operations: object, status: int) -> None:
    """A patch applies as a whole or not at all."""
    created = space.create(SECRETS, secret())
    if isinstance(operations, list):
        operations = [add("/metadata/labels", {"half": "done"}), *operations]

    with pytest.raises(Invalid) as refused:
        space.patch(SECRETS, "first", operations)

    assert refused.value.status == status
    assert space.get(SECRETS, "first") == created


def test_merge_patch(space: Space) -> None:
    """Members are set, null takes them out, all others stay."""
    space.create(SECRETS, secret(labels={"a": "1", "b": "2"}))
    patch = {"metadata": {"labels": {"a": None, "c": "3"}}, "data": {"more": "bW9yZQ=="}}
    patched = space.merge(SECRETS, "first", patch)

    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert patched["data"] == {"key": "dmFsdWU=", "more": "bW9yZQ=="}


def test_merge_patch_of_another_object(space: Space) -> None:
    """A merge patch that names a uid applies to the object of that uid alone, as it is now."""
    created = space.create(SECRETS, secret(annotations={"others": "stay"}))
    mine = {"metadata": {"uid": created["metadata"]["uid"], "annotations": {"mine": "1"}}}
    other = {"metadata": {"uid": "another", "annotations": {"others": None}}}
    patched = space.merge(SECRETS, "first", mine)

    assert patched["metadata"]["annotations"] == {"others": "stay", "mine": "1"}
    with pytest.raises(Invalid, match=r"metadata\.uid.*immutable"):
        space.merge(SECRETS, "first", other)
    assert space.get(SECRETS, "first") == patched


def test_patch_at_a_version(space: Space) -> None:
    """A patch that names a version applies to that version alone."""
    created = space.create(SECRETS, secret())
    patch = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {}}
    space.merge(SECRETS, "first", patch | {"data": {"key": ""}})

    with pytest.raises(Conflict, match="has been modified"):
        space.merge(SECRETS, "first", patch | {"data": {"key": "Kg=="}})


def test_a_change_of_nothing_is_none(space: Space) -> None:
    """What leaves an object as it was leaves its version too."""
    created = space.create(SECRETS, secret(labels={"a": "b"}))
    patched = space.patch(SECRETS, "first", [add("/metadata/labels/a", "b")])

    assert patched == created
    assert space.replace(SECRETS, "first", created) == created


def test_dry_run(space: Space) -> None:
    """A dry run answers as if, checks all, and changes nothing."""
    planned = space.create(SECRETS, secret("second"), dry_run=True)
    created = space.create(SECRETS, secret())
    patched = space.cluster.patch(
        space.ref(SECRETS, "first"), {"data": {"key": ""}}, kind=MERGE, dry_run=True
    )

    assert planned["metadata"]["uid"]
    assert patched["data"] == {"key": ""}
    assert list(space.items(SECRETS)) == [created]
    with pytest.raises(Conflict):
        space.create(SECRETS, secret(), dry_run=True)


def test_delete(space: Space) -> None:
    """A deleted object is gone, and its name is free for another one."""
    created = space.create(SECRETS, secret())
    space.delete(SECRETS, "first", uid=created["metadata"]["uid"])
    with pytest.raises(NotFound):
        space.get(SECRETS, "first")
    again = space.create(SECRETS, secret())

    assert again["metadata"]["uid"] != created["metadata"]["uid"]


def test_delete_of_another_object(space: Space) -> None:
    """An object that has not the uid asked for stays."""
    created = space.create(SECRETS, secret())

    with pytest.raises(Conflict, match=r"UID in the precondition \(another\)"):
        space.delete(SECRETS, "first", uid="another")

    assert space.get(SECRETS, "first") == created


def test_finalizers_hold(space: Space) -> None:
    """An object with a finalizer is marked, and goes when the last finalizer does."""
    space.create(SECRETS, secret(finalizers=["example.com/hold"]))
    space.delete(SECRETS, "first")
    held = space.get(SECRETS, "first")
    space.delete(SECRETS, "first")
    space.merge(SECRETS, "first", {"metadata": {"finalizers": None}})

    assert held["metadata"]["deletionTimestamp"]
    with pytest.raises(NotFound):
        space.get(SECRETS, "first")


def test_finalizers_come_before_the_deletion(space: Space) -> None:
    """An object that is being deleted gets no more finalizers; those that are there may stay."""
    first, more = "example.com/hold", {"metadata": {"finalizers": ["example.com/more"]}}
    space.create(SECRETS, secret(finalizers=[first]))
    space.delete(SECRETS, "first")

    with pytest.raises(Invalid, match="no new finalizers can be added") as refused:
        space.merge(SECRETS, "first", more)
    same = space.merge(SECRETS, "first", {"metadata": {"finalizers": [first]}})
    space.merge(SECRETS, "first", {"metadata": {"finalizers": None}})

    assert refused.value.status == 422
    assert same["metadata"]["finalizers"] == [first]


def test_status_and_spec_do_not_touch_one_another(space: Space) -> None:
    """Each has its own door, and only the spec's counts generations."""
    body = workload(replicas=0) | {"status": {"replicas": 5}}
    created = space.create(DEPLOYMENTS, body)
    both = {"spec": {"minReadySeconds": 7}, "status": {"collisionCount": 8}}
    after_spec = space.merge(DEPLOYMENTS, "web", both)
    both = {"spec": {"minReadySeconds": 9}, "status": {"collisionCount": 10}}
    after_status = space.merge(DEPLOYMENTS, "web", both, "status")

    assert not created["status"].get("replicas")
    assert "collisionCount" not in after_spec["status"]
    assert after_status["spec"]["minReadySeconds"] == 7
    assert after_status["status"]["collisionCount"] == 10
    generations = [item["metadata"]["generation"] for item in (created, after_spec, after_status)]
    assert generations == [1, 2, 2]


def test_subresources_that_are_not_there(space: Space) -> None:
    """A subresource that a kind has not is `NotFound`."""
    space.create(SECRETS, secret())

    with pytest.raises(NotFound):
        space.get(SECRETS, "first", "status")
    with pytest.raises(NotFound):
        space.merge(SECRETS, "first", {}, "resize")


def test_subresources_without_a_verb(space: Space) -> None:
    """A subresource that is only written to, or only patched, says so."""
    space.create(PODS, pod())

    with pytest.raises(Invalid) as not_read:
        space.get(PODS, "pod", "eviction")
    with pytest.raises(Invalid) as not_patched:
        space.merge(PODS, "pod", {}, "eviction")
    with pytest.raises(Invalid) as not_posted:
        space.cluster.create(space.ref(PODS, "pod", "resize"), pod())

    assert {found.value.status for found in (not_read, not_patched, not_posted)} == {405}


def test_namespaces_end_with_all_in_them(
    cluster: Cluster, namespace: str, eventually: Eventually
) -> None:
    """A deleted namespace takes in nothing more, loses all in it, and then goes."""
    inner = cluster.create(Ref(NAMESPACES), {"metadata": {"generateName": f"{namespace}-"}})
    name = inner["metadata"]["name"]
    assert inner["metadata"]["labels"]["kubernetes.io/metadata.name"] == name

    cluster.create(Ref(SECRETS, name), secret(finalizers=["example.com/hold"]))
    cluster.delete(Ref(NAMESPACES, "", name))
    eventually(
        lambda: cluster.get(Ref(SECRETS, name, "first"))["metadata"].get("deletionTimestamp")
    )
    with pytest.raises(ClusterError, match="is being terminated") as refused:
        cluster.create(Ref(SECRETS, name), secret("second"))
    cluster.patch(Ref(SECRETS, name, "first"), {"metadata": {"finalizers": None}}, kind=MERGE)

    assert refused.value.status == 403
    assert [reason for reason, _ in refused.value.causes] == ["NamespaceTerminating"]
    eventually(lambda: name not in names_of(cluster))


def names_of(cluster: Cluster) -> list[str]:
    """The names of all namespaces."""
    return [found["metadata"]["name"] for found in cluster.list(NAMESPACES).items]
