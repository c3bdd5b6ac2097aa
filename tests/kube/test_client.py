"""The verbs of the port, over real HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson
import pytest

from app.kube.client import KubeCluster
from app.kube.transport import Deadlines
from app.model.errors import (
    ClusterError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    TooMany,
    Unavailable,
)
from app.ports import DEPLOYMENTS, NODES, PODS, VPAS, EventType, PatchKind, Ref
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import connected

POD_PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of pods, nodes and Deployments."""
    with serving(PODS, NODES, DEPLOYMENTS) as found:
        yield found


@pytest.fixture
def cluster(server: ApiServer) -> Iterator[KubeCluster]:
    """The way to it, with little patience."""
    with connected(server, Deadlines(read_seconds=0.5, silence_seconds=0.5)) as found:
        yield found


def names(items: object) -> list[str]:
    """The names of some objects."""
    assert isinstance(items, list)
    return [item["metadata"]["name"] for item in items]


def test_list_in_pages(server: ApiServer, cluster: KubeCluster) -> None:
    """Pages follow one another by token, all of one version, each object with its kind."""
    for number in range(5):
        server.put(DEPLOYMENTS, f"web-{number}")

    first = cluster.list(DEPLOYMENTS, "default", limit=3)
    server.put(DEPLOYMENTS, "later")
    second = cluster.list(DEPLOYMENTS, "default", limit=3, continue_token=first.continue_token)

    assert names(first.items) + names(second.items) == [f"web-{number}" for number in range(5)]
    assert (first.resource_version, second.resource_version) == ("105", "105")
    assert (bool(first.continue_token), second.continue_token) == (True, "")
    assert {(item["apiVersion"], item["kind"]) for item in first.items} == {
        ("apps/v1", "Deployment")
    }


def test_list_of_all_namespaces(server: ApiServer, cluster: KubeCluster) -> None:
    """No namespace means all of them, also for what has none."""
    server.put(PODS, "one", "first")
    server.put(PODS, "two", "second")
    server.put(NODES, "node")

    assert names(cluster.list(PODS).items) == ["one", "two"]
    assert names(cluster.list(PODS, "second").items) == ["two"]
    assert names(cluster.list(NODES).items) == ["node"]


def test_selectors_are_sent(server: ApiServer, cluster: KubeCluster) -> None:
    """Selectors go to the server."""
    cluster.list(PODS, label_selector="app in (a, b)", field_selector="spec.nodeName=n")

    assert server.requests[-1].query == {
        "labelSelector": "app in (a, b)",
        "fieldSelector": "spec.nodeName=n",
    }


def test_a_large_list_is_packed(server: ApiServer, cluster: KubeCluster) -> None:
    """Large answers may come compressed."""
    for number in range(300):
        server.put(PODS, f"pod-{number}", spec={"text": "x" * 1000})

    assert len(cluster.list(PODS).items) == 300
    assert "gzip" in server.requests[-1].headers["accept-encoding"]


def test_watch(server: ApiServer, cluster: KubeCluster) -> None:
    """A watch tells what came after the version, with bookmarks, until the server ends it."""
    version = server.put(PODS, "old")["metadata"]["resourceVersion"]
    server.put(PODS, "new")
    server.put(PODS, "elsewhere", "other")
    server.put(PODS, "new", status={"phase": "Running"})
    server.remove(PODS, "new")
    events = cluster.watch(PODS, "default", resource_version=version, timeout_seconds=77)
    seen = [next(events) for _ in range(3)]
    server.bookmark(PODS)
    server.order(PODS, b"\n", "end")
    seen += events

    assert [(event.change, event.object["metadata"].get("name")) for event in seen] == [
        (EventType.ADDED, "new"),
        (EventType.MODIFIED, "new"),
        (EventType.DELETED, "new"),
        (EventType.BOOKMARK, None),
    ]
    assert server.requests[-1].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": "77",
    }


ERROR_500 = b'{"type": "ERROR", "object": {"code": 500, "message": "etcd is away"}}\n'
UNKNOWN = b'{"type": "SURPRISE", "object": {}}\n'
LONG = orjson.dumps({"type": "ADDED", "object": {"spec": "x" * 300_000}})


@cases(
    "orders expected message",
    {
        "connection dropped": (["drop"], Unavailable, "connection lost"),
        "half, silent": ([b'{"type": "ADD', "freeze"], Unavailable, "within a line"),
        "half a line": ([b'{"type": "ADD', "end"], Unavailable, "within a line"),
        "cut off": ([b'{"type": "ADD', "drop"], Unavailable, "connection lost"),
        "broken line": ([b'{"type": "ADD\n'], Unavailable, "not JSON"),
        "no object": ([b"[]\n"], Unavailable, "not a JSON object"),
        "empty event": ([b'{"type": "ADDED"}\n'], Unavailable, "without object"),
        "unknown event": ([UNKNOWN], Unavailable, "'SURPRISE'"),
        "error event": ([ERROR_500], Unavailable, "etcd is away"),
        "after a long line": ([LONG, b"\n", "drop"], Unavailable, "connection lost"),
    },
)
def test_watch_that_breaks(
    server: ApiServer,
    cluster: KubeCluster,
    orders: list[bytes | str],
    expected: type[ClusterError],
    message: str,
) -> None:
    """No broken watch looks like one that ended."""
    server.put(PODS, "first")
    events = cluster.watch(PODS, resource_version="100")
    next(events)
    server.order(PODS, *orders)

    with pytest.raises(expected, match=message):
        list(events)


def test_silent_watch(server: ApiServer, cluster: KubeCluster) -> None:
    """A watch that was silent for long is over: the next one tells whether the server is there."""
    server.put(PODS, "first")
    events = cluster.watch(PODS, resource_version="100")
    server.wait_for_watches(PODS)
    server.order(PODS, "freeze")

    assert [event.object["metadata"]["name"] for event in events] == ["first"]


def test_watch_from_too_old_a_version(server: ApiServer, cluster: KubeCluster) -> None:
    """An old version is gone, told as status or as event."""
    server.compact()
    server.fail("/pods", 410, watching=True)

    for _ in ("as status", "as event"):
        with pytest.raises(Gone):
            list(cluster.watch(PODS, resource_version="100"))


def test_close_ends_watches(server: ApiServer) -> None:
    """Closing the cluster ends a watch that waits, and refuses new ones."""
    with connected(server) as cluster:
        server.put(PODS, "first")
        events = cluster.watch(PODS, resource_version="100")
        next(events)
        cluster.close()

        with pytest.raises(Unavailable, match="closed on our side"):
            list(events)
        with pytest.raises(Unavailable, match="closed on our side"):
            list(cluster.watch(PODS, resource_version="100"))


def test_close_leaves_no_watch_open(server: ApiServer) -> None:
    """Watches that were given up unread or half read are closed as well."""
    server.put(PODS, "first")
    with connected(server) as cluster:
        watches = [cluster.watch(PODS, resource_version="100") for _ in range(2)]
        next(watches[0])
        streams = list(cluster._transport._streams)
    assert [stream.closed for stream in streams] == [True, True]


def test_write_and_read(cluster: KubeCluster) -> None:
    """Objects are created, read, replaced, patched and deleted."""
    body = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 1}}
    created = cluster.create(Ref(DEPLOYMENTS, "default"), body)
    replaced = cluster.replace(
        Ref(DEPLOYMENTS, "default", "web"), {**created, "spec": {"replicas": 2}}
    )
    with pytest.raises(Conflict):
        cluster.replace(Ref(DEPLOYMENTS, "default", "web"), created)
    with pytest.raises(Conflict, match="already exists"):
        cluster.create(Ref(DEPLOYMENTS, "default"), body)
    merge = {"spec": {"replicas": 3}}
    patched = cluster.patch(Ref(DEPLOYMENTS, "default", "web"), merge, kind=PatchKind.MERGE)

    assert (replaced["spec"], patched["spec"]) == ({"replicas": 2}, {"replicas": 3})
    assert cluster.get(Ref(DEPLOYMENTS, "default", "web")) == patched

    with pytest.raises(Conflict):
        cluster.delete(Ref(DEPLOYMENTS, "default", "web"), uid="another")
    cluster.delete(Ref(DEPLOYMENTS, "default", "web"), uid=patched["metadata"]["uid"])
    with pytest.raises(NotFound, match="GET /apis/apps/v1/namespaces/default/deployments/web"):
        cluster.get(Ref(DEPLOYMENTS, "default", "web"))


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        (PatchKind.JSON, {"fieldManager": "plumbline"}),
        (PatchKind.MERGE, {"fieldManager": "plumbline"}),
        (PatchKind.APPLY, {"fieldManager": "plumbline", "force": "true"}),
    ],
)
def test_patch_kinds(
    server: ApiServer, cluster: KubeCluster, kind: PatchKind, query: dict[str, str]
) -> None:
    """Each kind of patch goes out as what it is; what is applied is taken over from others."""
    server.put(PODS, "web-0")
    server.fail("/resize", 200, body={"spec": {}})
    body: object = [{"op": "add"}] if kind is PatchKind.JSON else {"spec": {}}
    cluster.patch(Ref(PODS, "default", "web-0", subresource="resize"), body, kind=kind)
    sent = server.requests[-1]

    assert (sent.method, sent.path) == ("PATCH", f"{POD_PATH}/web-0/resize")
    assert (sent.headers["content-type"], sent.query) == (kind.value, query)
    assert orjson.loads(sent.body) == body


def test_evict(server: ApiServer, cluster: KubeCluster) -> None:
    """An eviction names the pod it means by uid, and a dry run changes nothing."""
    uid = server.put(PODS, "web-0")["metadata"]["uid"]
    budget = {"reason": "TooManyRequests", "details": {"causes": [{"reason": "DisruptionBudget"}]}}
    server.fail("/eviction", 429, body=budget)

    with pytest.raises(TooMany) as held:
        cluster.evict("default", "web-0", uid=uid)
    with pytest.raises(Conflict):
        cluster.evict("default", "web-0", uid="another")
    cluster.evict("default", "web-0", uid=uid, dry_run=True)
    still = cluster.get(Ref(PODS, "default", "web-0"))
    cluster.evict("default", "web-0", uid=uid)

    assert held.value.causes == (("DisruptionBudget", ""),)
    assert still["metadata"]["uid"] == uid
    assert not server.objects[PODS]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb", "../secrets/x"])
@cases(
    "call",
    {
        "get": (lambda cluster, name: cluster.get(Ref(PODS, "default", name)),),
        "namespace": (lambda cluster, name: cluster.get(Ref(PODS, name, "x")),),
        "delete": (lambda cluster, name: cluster.delete(Ref(PODS, "default", name)),),
        "evict": (lambda cluster, name: cluster.evict("default", name),),
        "replace": (lambda cluster, name: cluster.replace(Ref(PODS, "default", name), {}),),
    },
)
def test_names_stay_in_their_place(
    server: ApiServer, cluster: KubeCluster, name: str, call: Callable[[KubeCluster, str], object]
) -> None:
    """A name that would change the path is refused before anything is sent."""
    with pytest.raises(Invalid):
        call(cluster, name)

    assert not server.requests


def test_odd_names_are_quoted(server: ApiServer, cluster: KubeCluster) -> None:
    """A name with odd letters is looked for as it is."""
    with pytest.raises(NotFound):
        cluster.get(Ref(PODS, "default", "a b?c#d"))

    assert server.requests[-1].path == f"{POD_PATH}/a%20b%3Fc%23d"


def test_plain_request(cluster: KubeCluster) -> None:
    """Paths that are no resource can be asked for as well."""
    assert cluster.request("GET", "/version") == {"gitVersion": "v1.36.3"}
    with pytest.raises(NotFound):
        cluster.list(VPAS)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"items": []}', b'{"metadata": {}, "items": 5}']
)
def test_lists_that_are_none(server: ApiServer, cluster: KubeCluster, body: bytes) -> None:
    """Success with nonsense is no success."""
    server.fail("/pods", 200, body=body)

    with pytest.raises(Unavailable):
        cluster.list(PODS)
