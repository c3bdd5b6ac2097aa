"""Measures what 500 Leases cost that are renewed every 2 s.

Run with `python -m bench.role_leases`. A process of its own answers as an API server does: a list,
then the renewals. What is measured is the CPU of the process that watches, with everything that
each of ours does with a Lease: connections, JSON, history and snapshot. However they are spread
over namespaces they share a watch, and then cost the same; with a watch each, as where a role
allows nothing else, they cost a multiple of that.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import orjson
import yaml

from app.kube.client import connect
from app.kube.lease_watches import LeaseWatches
from app.kube.reflector import Reflector
from app.kube.watch_cache import WatchCache
from app.kube.watch_report import WatchReport
from app.kube.watched_resources import watched_vpas
from app.ports import LEASES, Following, Sink
from app.runtime.clock import SystemClock
from app.runtime.live import GATHER_SECONDS
from tests import make

LEASES_IN_ALL: Final = 500
RENEWED_SECONDS: Final = 2.0
SECONDS: Final = 20.0
MOST: Final = 0.01  # of a core, where a watch is shared
SHARED: Final = {"all in one namespace": 1, "50 in each of 10": 10, "one in each of 500": 500}
ALONE: Final = 10  # namespaces, where no watch may be shared


def places(namespaces: int) -> list[tuple[str, str]]:
    """Return namespaces and names of all Leases."""
    return [(f"team-{n % namespaces}", f"lease-{n:03d}") for n in range(LEASES_IN_ALL)]


def lease(namespace: str, name: str, renewed: int) -> dict[str, object]:
    """Return a Lease as an API server sends it, managed fields included."""
    item = make.lease_json(f"{name}-0_4f5c", name=name, namespace=namespace, renewed=renewed)
    fields: dict[str, object] = {f"f:{key}": {} for key in item["spec"]}
    item["metadata"] |= {
        "resourceVersion": str(1000 + renewed),
        "managedFields": [
            {"manager": "db", "operation": "Update", "fieldsV1": {"f:spec": fields}},
        ],
    }
    return item


class Server:
    """Lists and renews Leases, to some only if asked for by name; has a VPA for each of them."""

    def __init__(self, namespaces: int, *, alone: bool) -> None:
        self.places = places(namespaces)
        self.alone = alone

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests on one connection; a watch is the last one."""
        while (head := await reader.readline()).strip():
            while (await reader.readline()).strip():
                pass
            url = urlsplit(head.split()[1].decode())
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            is_named = query.get("fieldSelector", "").startswith("metadata.name=")
            if self.alone and "leases" in url.path and not is_named:
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}")
                continue
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            if "watch" in query:
                writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
                await self._watch(url.path, query, writer)
                return
            items = self._vpas() if "verticalpod" in url.path else self._leases(url.path, query)
            body = orjson.dumps({"metadata": {"resourceVersion": "1000"}, "items": items})
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()

    def _named(self, path: str, query: dict[str, str]) -> list[tuple[str, str]]:
        _, _, rest = path.partition("/namespaces/")
        namespace = rest.partition("/")[0]
        name = query.get("fieldSelector", "").removeprefix("metadata.namespace!=kube-node-lease")
        name = name.removeprefix("metadata.name=")
        return [one for one in self.places if namespace in ("", one[0]) and name in ("", one[1])]

    def _leases(self, path: str, query: dict[str, str]) -> list[dict[str, object]]:
        return [lease(*place, renewed=0) for place in self._named(path, query)]

    def _vpas(self) -> list[object]:
        return [
            make.vpa_json(
                name,
                namespace=namespace,
                target=f"StatefulSet/{name}",
                selector={"matchLabels": {"role": "leader"}},
                annotations={"plumbline/role-lease": f"role={name}"},
            )
            for namespace, name in self.places
        ]

    async def _watch(self, path: str, query: dict[str, str], writer: asyncio.StreamWriter) -> None:
        named = self._named(path, query) if "leases" in path else []
        renewed = 0
        await asyncio.sleep(random.random() * RENEWED_SECONDS)  # holders do not renew in step
        while True:
            renewed += 1
            for place in named:
                line = orjson.dumps({"type": "MODIFIED", "object": lease(*place, renewed)}) + b"\n"
                writer.write(b"%x\r\n%b\r\n" % (len(line), line))
                await writer.drain()
                await asyncio.sleep(RENEWED_SECONDS / len(named))
            if not named:
                await asyncio.sleep(RENEWED_SECONDS)


def serve(namespaces: int, alone: bool, pipe: Pipe) -> None:
    """Serve until the process ends."""

    async def run() -> None:
        server = await asyncio.start_server(
            Server(namespaces, alone=alone).answer, "127.0.0.1", 0, backlog=LEASES_IN_ALL
        )
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def kubeconfig(port: int, folder: Path) -> str:
    """Write a configuration for the server; return its path."""
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    config = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "c"}
    path = folder / "config"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config"} | config), "utf-8")
    return str(path)


class Cost(NamedTuple):
    """What watching takes."""

    share: float  # of a core
    watches: int  # each with a connection and a thread


def measured(namespaces: int, *, alone: bool = False) -> Cost:
    """Watch Leases of some namespaces."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(namespaces, alone, theirs), daemon=True)
    process.start()
    with tempfile.TemporaryDirectory() as folder:
        path = kubeconfig(ours.recv(), Path(folder))
        clock = SystemClock()
        connections = [connect(path, "", 1000.0, 1000) for _ in range(2)]
        report = WatchReport(clock)
        mirror = WatchCache(
            connections[0], clock, [watched_vpas("")], jitter=random.random, report=report
        )

        def follow(namespace: str, fields: str, sink: Sink) -> Following:
            found = Reflector(
                connections[1], LEASES, namespace, fields, clock, sink, jitter=random.random
            )
            found.gather_seconds = 0.0 if fields.startswith("metadata.name=") else GATHER_SECONDS
            return found

        leases = LeaseWatches(follow, lambda: mirror.snapshot, mirror.put, clock)
        mirror.start()
        while not mirror.is_read:
            time.sleep(0.1)
        while True:
            leases.tick(clock.now())
            known = sum(len(view.leases) for view in mirror.snapshot.namespaces.values())
            if known == LEASES_IN_ALL:
                break
            time.sleep(0.5)
        time.sleep(2 * RENEWED_SECONDS)
        before, snapshot = time.process_time(), mirror.snapshot
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(leases.tick(clock.now()))
        share = (time.process_time() - before) / SECONDS
        watches = sum(thread.name == LEASES.plural for thread in threading.enumerate())
        assert mirror.snapshot is snapshot, "a renewal changed the snapshot"
        leases.close()
        mirror.stop()
        for connection in connections:
            connection.close()
    process.terminate()
    return Cost(share, watches)


def main() -> int:
    """Measure and print; return 1 if a shared watch costs too much."""
    shared = {name: measured(namespaces) for name, namespaces in SHARED.items()}
    least = min(cost.share for cost in shared.values())
    costs = shared | {"50 in each of 10, no shared watch": measured(ALONE, alone=True)}
    print(f"{LEASES_IN_ALL} Leases renewed every {RENEWED_SECONDS:.0f} s")
    for name, cost in costs.items():
        ratio = cost.share / least
        print(f"{name}: {cost.share:.2%} of a core, x {ratio:.2f}, {cost.watches} watches")
    return int(max(cost.share for cost in shared.values()) > MOST)


if __name__ == "__main__":
    sys.exit(main())
