"""Pods created through the API server as fast as it takes them, with and without a webhook."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

import httpx
import orjson

from app.ports import MUTATING_WEBHOOKS
from bench.circumstances import Options, result
from bench.figures import SIDES, Found, Result
from bench.reviews import new_pod
from bench.seeds import Json
from bench.stage import Stage, shown, stage
from bench.webhooks import NAMESPACE, Called, certificates, fill, flags_of, webhook
from bench.wrk import Load, Seen, load
from tests.cluster.api import Refusal
from tests.cluster.programs import eventually

PODS: Final = 500
VPAS: Final = 200
CONNECTIONS: Final = 8
TIMES: Final = 5  # that they are created in a turn; once takes less than a second
_NAME: Final = "vpa-webhook-config"
_LONGEST_SECONDS: Final = 120


def bench(options: Options) -> Result:
    """Create pods without a webhook, with upstream and with us, by turns."""
    found = Found()
    with stage() as on:
        certificates(on.folder)
        fill(on, VPAS, VPAS)
        bodies = on.folder / "pods.jsonl"
        items = (new_pod(NAMESPACE, f"app-{number % VPAS}", number) for number in range(PODS))
        bodies.write_bytes(b"".join(orjson.dumps(item) + b"\n" for item in items))
        _created(on, bodies)  # what is done first is slower
        for number, side in options.turns():
            alone = _created_often(on, bodies)
            with webhook(on, side) as called:
                _register(on, called)
                seen = _created_often(on, bodies)
                _unregister(on)
            found.add("ours", "p50 alone", alone.p50_ms)
            found.add("ours", "p99 alone", alone.p99_ms)
            found.add(side, "p50", seen.p50_ms - alone.p50_ms)
            found.add(side, "p99", seen.p99_ms - alone.p99_ms)
            found.add(side, "rate", seen.rate)
            found.add(side, "failed", seen.failed)
            text = f"p50 {seen.p50_ms:.1f}, p99 {seen.p99_ms:.1f} ms, alone {alone.p50_ms:.1f}"
            print(f"  round {number}, {side}: {text}", flush=True)
    rows = [
        found.row("p50 alone", "no webhook on either side: p50 of a creation", "ms"),
        found.row("p99 alone", "no webhook on either side: p99 of a creation", "ms"),
        found.row("p50", "added to p50", "ms"),
        found.row("p99", "added to p99", "ms"),
        found.row("rate", "pods created", "1/s"),
        found.row("failed", "creations that failed", ""),
    ]
    notes = [
        f"{PODS} pods of {VPAS} workloads with a VPA each, {CONNECTIONS} connections; the API "
        f"server runs on the same cores. Each round creates them {TIMES} times; its medians count.",
        "The added time is measured against creations without a webhook right before.",
    ]
    commands = [shown(side, "admission", flags_of(side)) for side in SIDES]
    return result("creation", "Pods through the API server", options, rows, commands, notes)


def _created_often(on: Stage, bodies: Path) -> Seen:
    """Create the pods some times; return what is usual."""
    seen = [_created(on, bodies) for _ in range(TIMES)]
    usual = {
        name: median(getattr(one, name) for one in seen) for name in ("rate", "p50_ms", "p99_ms")
    }
    return replace(seen[0], failed=sum(one.failed for one in seen), **usual)


def _created(on: Stage, bodies: Path) -> Seen:
    """Create the pods, and take them away again."""
    headers = {"Authorization": f"Bearer {on.admin_token}"}
    url = f"{on.access.url}/api/v1/namespaces/{NAMESPACE}/pods"
    asked = Load(
        url, bodies, _LONGEST_SECONDS, CONNECTIONS, most=PODS, headers=headers,
        is_over=lambda: on.count(f"pods/{NAMESPACE}/") >= PODS,
    )  # fmt: skip
    seen = load(on.folder, asked, on.api_server.pid)
    on.remove(f"pods/{NAMESPACE}/")
    return seen


def _register(on: Stage, called: Called) -> None:
    """Let the API server ask a webhook about new pods; return when it does."""
    authority = (on.folder / "certs" / "caCert.pem").read_bytes()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    client = {
        "url": called.url.partition("?")[0].replace("127.0.0.1", "localhost"),
        "caBundle": base64.b64encode(authority).decode(),
    }
    hook = {
        "name": "vpa.k8s.io",
        "clientConfig": client,
        "rules": [{**rule, "resources": ["pods"], "scope": "*"}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
    }
    metadata = {"name": _NAME}
    kind = {"apiVersion": MUTATING_WEBHOOKS.api_version, "kind": MUTATING_WEBHOOKS.kind}
    on.admin.create({**kind, "metadata": metadata, "webhooks": [hook]})
    eventually(lambda: _is_sized(on), "the API server asks the webhook")


def _unregister(on: Stage) -> None:
    on.admin.delete(MUTATING_WEBHOOKS, "", _NAME)
    eventually(lambda: not _is_sized(on), "the API server asks no webhook")


def _is_sized(on: Stage) -> bool:
    item: Json = new_pod(NAMESPACE, "app-0", 0)
    item["metadata"]["namespace"] = NAMESPACE
    try:
        made = on.admin.create(item, dry_run=True)
    except (Refusal, httpx.HTTPError):
        return False
    return "vpaUpdates" in made["metadata"].get("annotations", {})
