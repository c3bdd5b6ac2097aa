"""Asks a recommender over HTTP for what it recommends, page by page, and reads its answers.

Strategy: an answer becomes the VPA that it is about and the history of its containers, so that
commands handle it like objects of a cluster. The recommender may be of another version: what is
not known here is ignored, and what is missing counts as absent.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
import orjson

from app.diagnosis.core.comparisons import ContainerKey, LearnedHistory
from app.kube.failures import cause_of
from app.kube.files import Unreadable
from app.kube.reach import is_loopback
from app.kube.transport import translate
from app.model.errors import BadObject, BadSetting, Unavailable
from app.model.fields import int64_at, object_at, objects_at, text_at, time_at
from app.model.vpa import Vpa, read_vpa
from app.ports import Json

RECOMMENDER: Final = "Recommender"  # the reason of errors, so that they are told apart
_PAGE: Final = 500
_SECONDS: Final = 10.0
_AMOUNTS: Final = ("target", "lowerBound", "upperBound", "uncappedTarget")


@dataclass(frozen=True, slots=True)
class RecommenderAccess:
    """Where a recommender is, and who we are to it."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    sends_tokens_over_http: bool = False


@dataclass(frozen=True, slots=True)
class RecommendedVpas:
    """The VPAs of a recommender's answers, and the history of their containers."""

    vpas: list[Vpa]
    histories: dict[ContainerKey, LearnedHistory]
    problems: list[Unreadable]


def recommended_vpas(access: RecommenderAccess, namespace: str) -> RecommendedVpas:
    """Return what a recommender recommends in a namespace, or in all.

    Raises:
        BadSetting: the address or a file cannot be used.
        ClusterError: the recommender cannot be reached, or refuses.
    """
    found = RecommendedVpas([], {}, [])
    for answer in answers(access, namespace):
        try:
            vpa = read_vpa(_vpa_object(answer))
        except BadObject as error:
            name = f"{answer.get('namespace', '?')}/{answer.get('name', '?')}"
            found.problems.append(Unreadable(f"the answer about {name}", str(error)))
            continue
        found.vpas.append(vpa)
        with suppress(BadObject):  # which tells no history
            found.histories.update(_histories(vpa, answer))
    return found


def answers(access: RecommenderAccess, namespace: str) -> Iterator[Json]:
    """Yield what is recommended for each VPA of a namespace, or of all.

    Raises:
        BadSetting: the address or a file cannot be used.
        ClusterError: the recommender cannot be reached, or refuses.
    """
    root = _root(access.url)
    place = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
    url = f"{root}/v1/{place}recommendations"
    with httpx.Client(verify=_trust(access), timeout=_SECONDS, headers=_headers(access)) as client:
        after = ""
        while True:
            found = _asked(client, url, {"limit": str(_PAGE), "after": after})
            items, after = found.get("items"), str(found.get("next") or "")
            yield from (item for item in items or () if isinstance(item, dict))
            if not after:
                return


def _vpa_object(answer: Json) -> Json:
    """Return the VPA that an answer is about.

    Raises:
        BadObject: something in it cannot be read.
    """
    recommended = [
        {"containerName": one["container"]} | {amounts: one.get(amounts) for amounts in _AMOUNTS}
        for one in objects_at(answer, "containers", "")
        if one.get("container") and one.get("target")
    ]
    status: Json = {"conditions": objects_at(answer, "conditions", "")}
    if recommended:
        status["recommendation"] = {"containerRecommendations": recommended}
    return {
        "metadata": {
            "namespace": text_at(answer, "namespace", "") or "default",
            "name": text_at(answer, "name", ""),
        },
        "spec": {
            "targetRef": answer.get("target"),
            "updatePolicy": {"updateMode": answer.get("updateMode")},
        },
        "status": status,
    }


def _histories(vpa: Vpa, answer: Json) -> Iterator[tuple[ContainerKey, LearnedHistory]]:
    """Yield the history behind each container, with the confidence of its weakest resource."""
    computed = time_at(answer, "computedAt", "")
    for one in objects_at(answer, "containers", ""):
        evidence = object_at(one, "evidence", "")
        if evidence:
            days = [
                value
                for value in object_at(evidence, "confidence", "").values()
                if isinstance(value, int | float)
            ]
            samples = int64_at(evidence, "samples", "") or 0
            history = LearnedHistory(samples, computed, float(min(days, default=0)))
            yield (vpa.namespace, vpa.name, text_at(one, "container", "")), history


_LAST_PORT: Final = 65535


def _root(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise BadSetting(f"--from: {error}") from None
    port = url.port or 0
    if url.scheme not in ("http", "https") or not url.host or port > _LAST_PORT:
        raise BadSetting(f'--from takes a URL such as http://localhost:8942, not "{text}"')
    return text.rstrip("/")


def _trust(access: RecommenderAccess) -> ssl.SSLContext | bool:
    if not access.url.startswith("https"):
        return False
    if access.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(access.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise BadSetting(f"--ca-file: {access.ca_file}: {cause_of(error)}") from None


def _headers(access: RecommenderAccess) -> dict[str, str]:
    if access.token_file is None:
        return {}
    url = httpx.URL(access.url)
    if url.scheme == "http" and not (access.sends_tokens_over_http or is_loopback(url.host)):
        raise BadSetting(
            f"--token-file: no token is sent to {url.host} over plain HTTP, where others can read "
            "it: use https, or kubectl port-forward; where something else encrypts, set "
            "--tokens-over-http"
        )
    try:
        token = access.token_file.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        raise BadSetting(f"--token-file: {access.token_file}: {cause_of(error)}") from None
    return {"Authorization": f"Bearer {token}"}


def _asked(client: httpx.Client, url: str, query: dict[str, str]) -> Json:
    try:
        response = client.get(url, params=query)
    except httpx.HTTPError as error:
        raise Unavailable(f"{url}: {cause_of(error)}", reason=RECOMMENDER) from error
    try:
        body = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        body = None
    if response.status_code != httpx.codes.OK:
        detail = body.get("detail") if isinstance(body, dict) else None
        told = {"message": detail or f"HTTP status {response.status_code}", "reason": RECOMMENDER}
        raise translate(f"GET {url}", response.status_code, told)
    if not isinstance(body, dict):
        raise Unavailable(f"GET {url}: the answer is not a JSON object", reason=RECOMMENDER)
    return body
