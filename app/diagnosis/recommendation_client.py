"""Asks a recommender over HTTP for what it recommends, page by page, and reads its answers.

Strategy: an answer has the shape that the recommender documents, and becomes the VPA that it is
about and the history of its containers, so that commands handle it like objects of a cluster.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
import orjson
from pydantic import ValidationError

from app.diagnosis.core.comparisons import ContainerKey, LearnedHistory
from app.diagnosis.gathering import ANSWER
from app.kube.files import Unreadable
from app.kube.transport import translate
from app.model.errors import BadSetting, Unavailable
from app.ports import VPAS, Json
from app.recommender.api_shapes import Recommendation

RECOMMENDER: Final = "Recommender"  # the reason of errors, so that they are told apart
_PAGE: Final = 500
_SECONDS: Final = 10.0
_AMOUNTS: Final = {"target", "lower_bound", "upper_bound", "uncapped_target"}


@dataclass(frozen=True, slots=True)
class RecommenderAccess:
    """Where a recommender is, and who we are to it."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class RecommendedVpas:
    """The VPAs of a recommender's answers, and the history of their containers."""

    items: list[Json]
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
            # A newer recommender may tell more.
            one = Recommendation.model_validate(answer, extra="ignore")
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(map(str, first["loc"]))
            found.problems.append(Unreadable(ANSWER, f"{path}: {first['msg']}"))
            continue
        found.items.append(_vpa_object(one))
        found.histories.update(_histories(one))
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


def _vpa_object(answer: Recommendation) -> Json:
    """Return the VPA that an answer is about."""
    status: Json = {
        "conditions": [one.model_dump(mode="json", by_alias=True) for one in answer.conditions]
    }
    recommended = [
        {"containerName": one.container} | one.model_dump(by_alias=True, include=_AMOUNTS)
        for one in answer.containers
        if one.target
    ]
    if recommended:
        status["recommendation"] = {"containerRecommendations": recommended}
    target = answer.target.model_dump(by_alias=True) if answer.target is not None else None
    return {
        "apiVersion": VPAS.api_version,
        "kind": VPAS.kind,
        "metadata": {"namespace": answer.namespace, "name": answer.name},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": answer.update_mode}},
        "status": status,
    }


def _histories(answer: Recommendation) -> dict[ContainerKey, LearnedHistory]:
    """Return the history behind each container, with the confidence of its weakest resource."""
    computed = answer.computed_at.astimezone(UTC) if answer.computed_at is not None else None
    return {
        (answer.namespace, answer.name, one.container): LearnedHistory(
            one.evidence.samples, computed, min(one.evidence.confidence.values(), default=0.0)
        )
        for one in answer.containers
        if one.evidence is not None
    }


def _root(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise BadSetting(f"--from: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
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
        raise BadSetting(f"--ca-file: {access.ca_file}: {error}") from None


def _headers(access: RecommenderAccess) -> dict[str, str]:
    if access.token_file is None:
        return {}
    try:
        token = access.token_file.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        raise BadSetting(f"--token-file: {access.token_file}: {error}") from None
    return {"Authorization": f"Bearer {token}"}


def _asked(client: httpx.Client, url: str, query: dict[str, str]) -> Json:
    try:
        response = client.get(url, params=query)
    except httpx.HTTPError as error:
        raise Unavailable(f"GET {url}: {error}", reason=RECOMMENDER) from error
    try:
        body = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        body = None
    if response.status_code != httpx.codes.OK:
        detail = body.get("detail") if isinstance(body, dict) else None
        told = {"message": detail or f"HTTP status {response.status_code}", "reason": RECOMMENDER}
        raise translate(f"GET {url}", response.status_code, told)
    if not isinstance(body, dict):
        raise Unavailable(f"GET {url}: the answer is no JSON object", reason=RECOMMENDER)
    return body
