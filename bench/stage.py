"""An API server with its etcd, filled within seconds, and the programs that are measured there.

Strategy: nothing else runs, so that what is spent is spent on the programs. Objects are written
into etcd as an API server writes them, because creating tens of thousands one by one takes longer
than all that is measured.
"""

from __future__ import annotations

import base64
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import httpx
import orjson

from app.model.fields import Json
from app.ports import Resource
from app.runtime.clock import SystemClock
from bench import upstream
from tests.acceptance.definitions import install, ours
from tests.cluster.api import Api, Refusal, place
from tests.cluster.control_plane import HOST, ControlPlane
from tests.cluster.numbers import total
from tests.cluster.parts import parts
from tests.cluster.programs import Program, eventually

_ROOT: Final = Path(__file__).parents[1]
_AT_ONCE: Final = 100  # objects a transaction; etcd takes 128
_PROGRAMS: Final = {"admission": "admission-controller"}
_WRITES: Final = ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")
# A path in etcd has no group where Kubernetes itself defines the kind.
_GROUPED: Final = "autoscaling.k8s.io"
_OWN_LEASES: Final = "leases/kube-system/apiserver-"
LIFTED: Final = ("--kube-api-qps=100000", "--kube-api-burst=100000")


class Stage(ControlPlane):
    """An API server and its etcd alone."""

    def start(self) -> None:
        """Begin; return when VPAs can be stored."""
        self.etcd.start()
        self.etcd.wait_until(self._etcd_answers)
        self.start_api_server()
        install(self.admin, ours())

    @cached_property
    def admin(self) -> Api:
        """A client that may do everything."""
        return self.access.api(self.admin_token)

    @cached_property
    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._etcd_url, timeout=60)

    def _etcd_answers(self) -> bool:
        try:
            return self._client.get("/health").is_success
        except httpx.HTTPError:
            return False

    # --- what is there

    def put(self, items: Iterable[Json]) -> None:
        """Store objects, whatever was in their place."""
        left = iter(items)
        while batch := list(islice(left, _AT_ONCE)):
            puts = [
                {"requestPut": {"key": _coded(_key(item)), "value": _coded(orjson.dumps(item))}}
                for item in batch
            ]
            self._etcd("kv/txn", {"success": puts})

    def wait_listed(self, resource: Resource, count: int) -> None:
        """Return when the API server lists so many objects; it follows etcd by a watch."""

        def look() -> bool:
            try:  # from what it watches, not from etcd
                found = self.admin.call("GET", resource.path(), query={"resourceVersion": "0"})
            except Refusal:  # it has just begun to watch
                return False
            return len(found.body["items"]) == count

        eventually(look, f"{count} {resource.plural} are listed", every=0.5)

    def remove(self, prefix: str) -> None:
        """Remove all objects whose path in etcd begins so, such as `pods/here/`."""
        self._etcd("kv/deleterange", _range(prefix))

    def count(self, prefix: str) -> int:
        """Return how many objects there are."""
        found = self._etcd("kv/range", {**_range(prefix), "count_only": True})
        return int(found.get("count", 0))

    def revision(self) -> int:
        """Return the newest revision of all."""
        return int(self._etcd("kv/range", {"key": _coded(b"/"), "limit": 1})["header"]["revision"])

    def changed_since(self, revision: int, prefix: str) -> int:
        """Return how many objects were written after a revision."""
        asked = {**_range(prefix), "keys_only": True, "min_mod_revision": revision + 1}
        return len(self._etcd("kv/range", asked).get("kvs", ()))

    def holding(self, text: str, revision: int, prefix: str, most: int = 0) -> int:
        """Return how many of the objects written after a revision hold a text."""
        asked = {**_range(prefix), "min_mod_revision": revision + 1, "limit": most}
        found = self._etcd("kv/range", asked).get("kvs", ())
        return sum(text.encode() in base64.b64decode(each["value"]) for each in found)

    def _etcd(self, path: str, body: Json) -> Json:
        answer = self._client.post(f"/v3/{path}", content=orjson.dumps(body))
        found: Json = orjson.loads(answer.raise_for_status().content)
        return found

    def writes(self) -> float:
        """Return how often anybody but the API server itself has asked it to write so far."""
        page = self.admin.text("/metrics")
        groups = ("", "apps", "autoscaling.k8s.io", "coordination.k8s.io", "events.k8s.io")
        name = "apiserver_request_total"
        asked = sum(
            total(page, name, verb=verb, group=group) for verb in _WRITES for group in groups
        )
        return asked - self._own_writes()

    def _own_writes(self) -> int:
        """Return how often the API server has written the Lease by which it tells that it lives."""
        found = self._etcd("kv/range", {**_range(_OWN_LEASES), "keys_only": True})
        return sum(int(each["version"]) for each in found.get("kvs", ()))

    # --- who works there

    def program(self, side: str, verb: str, flags: Sequence[str], name: str = "") -> Program:
        """Return one of the programs that are compared, not started yet."""
        name = name or f"{side}-{verb}"
        common = [f"--kubeconfig={self.kubeconfig}", *LIFTED, *flags]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_ROOT)}
        return Program(
            name, [*command(side, verb), *common], self.folder / f"{name}.log", environment
        )


def command(side: str, verb: str) -> list[str]:
    """Return how one side's program is called."""
    if side == "upstream":
        return [str(upstream.folder() / _PROGRAMS.get(verb, verb))]
    return [sys.executable, "-m", "app", verb]


def shown(side: str, verb: str, flags: Sequence[str]) -> str:
    """Return the command line of one side's program for people, without places of this run."""
    name = _PROGRAMS.get(verb, verb) if side == "upstream" else f"plumbline {verb}"
    return " ".join([name, "--kubeconfig=...", *LIFTED, *flags])


def _key(item: Json) -> bytes:
    resource, namespace, name = place(item)
    group = f"{_GROUPED}/" if resource.group == _GROUPED else ""
    where = f"{namespace}/" if namespace else ""
    plural = "minions" if resource.plural == "nodes" else resource.plural
    return f"/registry/{group}{plural}/{where}{name}".encode()


def _range(prefix: str) -> Json:
    first = f"/registry/{prefix}".encode()
    return {"key": _coded(first), "range_end": _coded(first[:-1] + bytes([first[-1] + 1]))}


def _coded(text: bytes) -> str:
    return base64.b64encode(text).decode()


@contextmanager
def stage() -> Iterator[Stage]:
    """Run an API server in a folder that goes when it ends."""
    with tempfile.TemporaryDirectory(prefix="plumbline-bench-") as name:
        plane = Stage(parts(), Path(name), SystemClock().now())
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()


@contextmanager
def running(program: Program) -> Iterator[Program]:
    """Run a program while the block lasts."""
    program.start()
    try:
        yield program
    finally:
        program.kill()


def page(port: int, path: str = "/metrics") -> str:
    """Return a page of a program; empty while it does not answer."""
    try:  # not httpx: it reads all authorities of the system before each call
        with urlopen(f"http://{HOST}:{port}{path}", timeout=5) as answer:
            found: bytes = answer.read()
    except OSError:
        return ""
    return found.decode()
