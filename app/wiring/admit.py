"""Answers reviews from files, by objects from files."""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import orjson

from app.adapters.files import Document, Unreadable, documents
from app.adapters.logs import start_logging
from app.core.admission.explain import explain
from app.core.admission.validate import Phase
from app.model.errors import BadObject, BadSetting
from app.model.review import read_review
from app.settings.admission import AdmitSettings
from app.web.reviews import Pending, Reviewer, Sources
from app.wiring.clock import SystemClock
from app.wiring.knowledge import recorded_cluster
from app.wiring.rules import review_rules

log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 10.0


class Uncounted:
    """Numbers that nobody reads."""

    def review(self, status: str, resource: str, seconds: float) -> None:
        """Count nothing."""

    def pod(self, *, applied: bool) -> None:
        """Count nothing."""

    def pod_skipped(self, reason: str) -> None:
        """Count nothing."""

    def pod_failed_open(self, reason: str) -> None:
        """Count nothing."""

    def vpa_refused(self, reason: str) -> None:
        """Count nothing."""


def answers(settings: AdmitSettings) -> Iterator[bytes]:
    """Yield the answer to each review, in their order, as lines of JSON."""
    start_logging(settings.logging.verbosity)
    objects, reviews = _sorted(settings)
    if not reviews:
        raise BadSetting("no review given: name files with AdmissionReviews, or - to read them")
    rules = review_rules(settings.decisions)
    recorded = recorded_cluster(objects)
    sources = Sources(lambda: recorded.snapshot, recorded, recorded, SystemClock())
    reviewer = Reviewer(sources, rules, Uncounted())
    for review in reviews:
        answer = _answer(reviewer, review)
        if settings.answering.decode and (patch := answer["response"].get("patch")):
            answer["response"]["patch"] = orjson.loads(b64decode(patch))
        if settings.answering.explain:
            answer["explanation"] = _explanation(reviewer, review)
        yield orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)


def _sorted(
    settings: AdmitSettings,
) -> tuple[list[Document | Unreadable], list[Document | Unreadable]]:
    """Tell objects from reviews; a review is known by its looks wherever it was named."""
    objects: list[Document | Unreadable] = []
    reviews: list[Document | Unreadable] = []
    for found in documents([str(path) for path in settings.offline.objects]):
        (reviews if _is_review(found) else objects).append(found)
    reviews.extend(documents(settings.reviews))
    return objects, reviews


def _is_review(found: Document | Unreadable) -> bool:
    if not isinstance(found, Document):
        return False
    kind = found.item.get("kind")
    return kind == "AdmissionReview" or (not kind and "request" in found.item)


def _answer(reviewer: Reviewer, review: Document | Unreadable) -> dict[str, Any]:
    if isinstance(review, Unreadable):
        log.warning("review not readable", extra={"place": review.place, "error": review.message})
        body = b""
    else:
        body = orjson.dumps(review.item)
    found = reviewer.begin(body, Phase.MUTATING)
    if isinstance(found, Pending):
        found = reviewer.finish(found, _PATIENCE_SECONDS)
    answer: dict[str, Any] = orjson.loads(found)
    return answer


def _explanation(reviewer: Reviewer, review: Document | Unreadable) -> dict[str, Any]:
    if isinstance(review, Unreadable):
        return {"reason": "UnreadableReview", "message": review.message}
    try:
        request = read_review(review.item)
    except BadObject as error:
        return {"reason": "UnreadableReview", "message": str(error)}
    if request.resource.word != "pods":
        return {"reason": "NotAPod", "message": "warnings and status tell all about this review"}
    return explain(reviewer.judge_pod(request, _PATIENCE_SECONDS))
