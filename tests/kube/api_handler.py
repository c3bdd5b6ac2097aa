"""Answers the requests that reach the API server of the tests: routes, verbs, watches."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socket import SHUT_RDWR, socket
from typing import ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

from app.model import patches
from app.ports import Json, PatchKind, Resource
from tests.kube.api_state import ApiState, Fault, Request, Watch, line_of

_PATH = re.compile(
    r"^/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?$"
)
_GZIP_BYTES = 128 * 1024


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, reason: str, message: str, **details: str) -> None:
        super().__init__(message)
        self.status = status
        head = {"kind": "Status", "status": "Failure", "code": status, "reason": reason}
        self.body = {**head, "message": message, "details": details}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    api: ClassVar[ApiState]
    open_ones: ClassVar[set[socket]]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Serve until the client leaves, in whatever way it does."""
        self.open_ones.add(self.connection)
        try:
            super().handle()
        except OSError:
            self.close_connection = True
        finally:
            self.open_ones.discard(self.connection)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _serve(self) -> None:
        self._asked = self._read()
        with self.api.changed:
            self.api.requests.append(self._asked)
            fault = self._fault()
            self.api.changed.notify_all()
        if fault and not fault.status and not fault.gate:
            self.close_connection = True
            return
        if fault and not fault.gate:
            self._send(fault.status, fault.body, fault.headers)
            return
        if fault and fault.gate:
            fault.gate.wait()
        try:
            with self.api.changed:
                found = self._answer()
        except Refusal as refusal:
            self._send(refusal.status, orjson.dumps(refusal.body), {})
            return
        if isinstance(found, Watch):
            self._stream(found)
        else:
            self._send(200, orjson.dumps(found), {})

    def _read(self) -> Request:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {key.lower(): value for key, value in self.headers.items()}
        return Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the time that the server believes it is."""
        return self.api.date or super().date_time_string(timestamp)

    def _fault(self) -> Fault | None:
        fault = next((one for one in self.api.faults if one.hits(self._asked)), None)
        if fault and not fault.gate:
            self.api.faults.remove(fault)
        return fault

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if len(body) > _GZIP_BYTES and "gzip" in self._asked.headers.get("accept-encoding", ""):
            body, headers = gzip.compress(body, 1), {**headers, "Content-Encoding": "gzip"}
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # Routes

    def _answer(self) -> Json | Watch:
        asked = self._asked
        if self.api.token and asked.headers.get("authorization") != f"Bearer {self.api.token}":
            raise Refusal(401, "Unauthorized", "Unauthorized")
        if asked.path == "/version":
            return {"gitVersion": "v1.36.3"}
        if found := self._discovery(asked.path):
            return found
        if not (match := _PATH.match(asked.path)):
            raise self._no_such_path()
        parts = {name: unquote(text or "") for name, text in match.groupdict().items()}
        for resource in self.api.served:
            place = (resource.group, resource.version, resource.plural)
            if place == (parts["group"], parts["version"], parts["plural"]):
                return self._verb(resource, parts)
        raise self._no_such_path()

    def _no_such_path(self) -> Refusal:
        return Refusal(404, "NotFound", "the server could not find the requested resource")

    def _discovery(self, path: str) -> Json | None:
        versions = {(one.group, one.version) for one in self.api.served}
        for group, version in versions:
            head = f"/apis/{group}" if group else "/api"
            if path == head:
                known = sorted(version for found, version in versions if found == group)
                named = [{"groupVersion": f"{group}/{one}", "version": one} for one in known]
                return {"kind": "APIGroup", "name": group, "versions": named}
            if path == f"{head}/{version}":
                return {"kind": "APIResourceList", "resources": self._resources(group, version)}
        return None

    def _resources(self, group: str, version: str) -> list[Json]:
        scaled = {resource for resource, _, _ in self.api.scales}
        found = []
        for one in self.api.served:
            if (one.group, one.version) == (group, version):
                entry = {"name": one.plural, "kind": one.kind, "namespaced": one.namespaced}
                found.append(entry)
                if one in scaled:
                    found.append({**entry, "name": f"{one.plural}/scale", "kind": "Scale"})
        return found

    def _verb(self, resource: Resource, parts: dict[str, str]) -> Json | Watch:
        namespace, name = parts["namespace"], parts["name"]
        match self._asked.method:
            case "GET" if not name and self._asked.watching:
                return self._open_watch(resource, namespace)
            case "GET" if not name:
                return self._list(resource, namespace)
            case "POST" if parts["subresource"] == "eviction":
                return self._delete(resource, namespace, name, self._asked.json["deleteOptions"])
            case "POST":
                return self._create(resource)
            case "GET" if parts["subresource"] == "scale":
                if (resource, namespace, name) not in self.api.scales:
                    raise self._not_found(resource, name)
                return self.api.scales[resource, namespace, name]
            case "DELETE":
                return self._delete(resource, namespace, name, self._asked.json)
            case "PUT" | "PATCH":
                return self._change(resource, namespace, name)
            case _:
                return self._one(resource, namespace, name)

    def _not_found(self, resource: Resource, name: str) -> Refusal:
        return Refusal(404, "NotFound", f'{resource.plural} "{name}" not found', name=name)

    def _one(self, resource: Resource, namespace: str, name: str) -> Json:
        found = self.api.objects[resource].get((namespace, name))
        if found is None:
            raise self._not_found(resource, name)
        return found

    # Reading

    def _list(self, resource: Resource, namespace: str) -> Json:
        query = self._asked.query
        version = str(self.api.version)
        if token := query.get("continue"):
            if token not in self.api.rests:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
            version, items = self.api.rests.pop(token)
        else:
            found = sorted(self.api.objects[resource].items())
            field, _, value = query.get("fieldSelector", "").partition("=")
            names = {value} if field == "metadata.name" else {name for (_, name), _ in found}
            items = [
                item for (place, name), item in found if namespace in {"", place} and name in names
            ]
        limit = int(query.get("limit", 0)) or len(items)
        metadata = {"resourceVersion": version}
        if items[limit:]:
            token = f"token-{resource.kind}-{len(self.api.requests)}"
            self.api.rests[token] = (version, items[limit:])
            metadata["continue"] = token
        page = [
            {k: v for k, v in item.items() if k not in {"kind", "apiVersion"}}
            for item in items[:limit]
        ]
        return {"kind": f"{resource.kind}List", "metadata": metadata, "items": page}

    def _open_watch(self, resource: Resource, namespace: str) -> Watch:
        since = int(self._asked.query["resourceVersion"])
        watch = Watch(resource, namespace)
        if since < self.api.compacted:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            watch.orders += [line_of("ERROR", status), "end"]
        for version, found, change, item in self.api.history:
            place = item["metadata"].get("namespace", "")
            if version > since and found == resource and namespace in {"", place}:
                watch.orders.append(line_of(change, item))
        self.api.watches.append(watch)
        self.api.changed.notify_all()
        return watch

    def _stream(self, watch: Watch) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while isinstance(order := self._next_order(watch), bytes):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(order), order))
            if order == "end":
                self.wfile.write(b"0\r\n\r\n")
                return
            self.close_connection = True
            if order == "freeze":
                with self.api.changed:
                    self.api.changed.wait_for(lambda: self.api.stopping)
            self.connection.shutdown(SHUT_RDWR)
        finally:
            with self.api.changed:
                if watch in self.api.watches:
                    self.api.watches.remove(watch)
                self.api.changed.notify_all()

    def _next_order(self, watch: Watch) -> bytes | str:
        with self.api.changed:
            self.api.changed.wait_for(lambda: watch.orders or self.api.stopping)
            order = "drop" if self.api.stopping else watch.orders.popleft()
            if order == "freeze":
                self.api.watches.remove(watch)
                self.api.changed.notify_all()
            return order

    # Writing

    def _create(self, resource: Resource) -> Json:
        body = self._asked.json
        name = body["metadata"].get("name") or f"{body['metadata']['generateName']}x"
        if (body["metadata"].get("namespace", ""), name) in self.api.objects[resource]:
            message = f'{resource.plural} "{name}" already exists'
            raise Refusal(409, "AlreadyExists", message)
        return body if "dryRun" in self._asked.query else self.api.store(resource, body)

    def _change(self, resource: Resource, namespace: str, name: str) -> Json:
        before = self._one(resource, namespace, name)
        body = self._asked.json
        if self._asked.headers["content-type"] == PatchKind.JSON:
            after = before
        elif self._asked.method == "PATCH":
            after = patches.merge(before, body)
        else:
            after = body
        version = after["metadata"].get("resourceVersion", "")
        if version not in {"", before["metadata"]["resourceVersion"]}:
            raise Refusal(409, "Conflict", "the object has been modified")
        return after if "dryRun" in self._asked.query else self.api.store(resource, after)

    def _delete(self, resource: Resource, namespace: str, name: str, options: Json) -> Json:
        found = self._one(resource, namespace, name)
        wanted = options.get("preconditions", {}).get("uid")
        if wanted and wanted != found["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID in precondition")
        if "dryRun" not in self._asked.query:
            self.api.remove(resource, name, namespace)
        return {"kind": "Status", "status": "Success"}
