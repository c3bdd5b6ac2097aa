"""Answers reviews from files, by objects from files.

Strategy: the same reviewer as behind the server, and the same sources as without a cluster; every
review is a question of its own. A flag for several paths takes all words up to the next flag, so
reviews may stand among the objects: a review is known by its looks wherever it was named.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import orjson
from prometheus_client import CollectorRegistry

from app.admission.knowledge import recorded_sources, review_rules
from app.admission.metrics import AdmissionMetrics
from app.admission.responses import (
    Call,
    decoded,
    explained_unreadable,
)
from app.admission.reviews import Reviewer
from app.commands.flags import AdmitSettings, AnswerFlags
from app.kube.files import Document, Unreadable, documents
from app.model.errors import BadObject, BadSetting
from app.model.fields import Json
from app.model.quantity import Quantity
from app.model.review import AdmissionRequest, read_review, uid_of
from app.model.text import amount
from app.output import Line, Piece, Report, Table, Tone
from app.runtime.clock import SystemClock
from app.runtime.logs import start_logging

log = logging.getLogger("commands.admit")

_PATIENCE_SECONDS = 10.0
_REVIEW = "AdmissionReview"

_COLUMNS: Final = ("REVIEW", "NAMESPACE", "OBJECT", "ANSWER", "REQUESTS", "WHY")
_UNNAMED: Final = "-"

ReviewDocument = Document | Unreadable


def answer_lines(settings: AdmitSettings) -> Iterator[bytes]:
    """Yield the answer to each review as a line of JSON, those among the objects first."""
    reviewer, reviews = _prepare(settings)
    for review in reviews:
        yield _line(reviewer, review, settings.answering)


def answer_report(settings: AdmitSettings) -> Report:
    """Return the answers as a report: a row for each review, and its line as an object."""
    reviewer, reviews = _prepare(settings)
    requests = list(map(_request, reviews))
    answers = [_explained(reviewer, review) for review in reviews]
    rows = list(map(review_row, requests, answers))
    items = [_as_asked(answer, settings.answering) for answer in answers]
    return Report(Table(_COLUMNS, rows), items, list(map(_object_name, requests)))


def _prepare(settings: AdmitSettings) -> tuple[Reviewer, list[ReviewDocument]]:
    """Return the reviewer, and the reviews, those among the objects first.

    Raises:
        BadSetting: there is no review.
    """
    start_logging(settings.logging.verbosity)
    logging.getLogger("admission.reviews").setLevel(
        logging.ERROR
    )  # the answers tell what was decided
    named = list(chain.from_iterable(map(documents, settings.reviews)))
    reviews: list[ReviewDocument] = []
    paths = [str(path) for path in settings.offline.objects]
    sources = recorded_sources(_without_reviews(paths, reviews, are_all=not named))
    reviews += named
    if not reviews:
        raise BadSetting("no review given: name files with AdmissionReviews, or - to read them")
    metrics = AdmissionMetrics(CollectorRegistry())  # which are not shown
    rules = review_rules(settings.decisions)
    return Reviewer(sources, rules, metrics, SystemClock()), reviews


def _without_reviews(
    paths: Sequence[str], reviews: list[ReviewDocument], *, are_all: bool
) -> Iterator[ReviewDocument]:
    """Yield the objects of files, and put the reviews among them into a list.

    What cannot be read, or does not say what it is, was meant as a review from the first file on
    that holds one, or in the last of several files if otherwise there would be no review at all.
    """
    for index, path in enumerate(paths):
        kept: list[ReviewDocument] = []
        for found in documents(path):
            if isinstance(found, Unreadable) or _may_be_review(found):
                kept.append(found)
            else:
                yield found
        is_last = are_all and 0 < index == len(paths) - 1
        if reviews or is_last or any(map(_is_review, kept)):
            reviews += kept
        else:
            yield from kept


def _may_be_review(found: Document) -> bool:
    return found.item.get("kind") in (_REVIEW, None, "")


def _is_review(found: ReviewDocument) -> bool:
    if isinstance(found, Unreadable):
        return False
    return found.item.get("kind") == _REVIEW or "request" in found.item


def _line(reviewer: Reviewer, review: ReviewDocument, shown: AnswerFlags) -> bytes:
    if not shown.decode and not shown.explain:
        return _answer(reviewer, review) + b"\n"
    answer = _as_asked(_explained(reviewer, review), shown)
    return orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)


def _answer(reviewer: Reviewer, review: ReviewDocument) -> bytes:
    request = _request(review)
    if isinstance(request, str):
        return orjson.dumps(_without_explanation(_unreadable(review, request)))
    return reviewer.answer(request, _PATIENCE_SECONDS)


def _explained(reviewer: Reviewer, review: ReviewDocument) -> Json:
    request, now = _request(review), reviewer.now()
    if isinstance(request, str):
        return _unreadable(review, request)
    return reviewer.explain(request, Call(now), now + _PATIENCE_SECONDS)


def _unreadable(review: ReviewDocument, why: str) -> Json:
    log.warning("review not readable", extra={"place": review.place, "problem": why})
    uid = "" if isinstance(review, Unreadable) else uid_of(review.item)
    return explained_unreadable(uid, why, Call(0.0))


def _as_asked(answer: Json, shown: AnswerFlags) -> Json:
    """Return an answer with its explanation as it is to be shown."""
    found = decoded(answer) if shown.decode else answer
    return found if shown.explain else _without_explanation(found)


def _without_explanation(answer: Json) -> Json:
    return {key: value for key, value in answer.items() if key != "explanation"}


def _request(review: ReviewDocument) -> AdmissionRequest | str:
    """Return what a review asks, or why it cannot be read."""
    if isinstance(review, Unreadable):
        return review.message
    try:
        return read_review(review.item)
    except BadObject as error:
        return str(error)


# --- rows that people read


def _object_name(request: AdmissionRequest | str) -> str:
    """Return what other commands call the object that a review is about."""
    if isinstance(request, str):
        return f"review/{_UNNAMED}"
    found = request.new if isinstance(request.new, dict) else request.old
    metadata = found.get("metadata") if isinstance(found, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    name = request.name or known.get("name") or known.get("generateName") or _UNNAMED
    return f"{request.kind.word.lower() or _UNNAMED}/{name}"


def review_row(request: AdmissionRequest | str, answer: Json) -> Line:
    """Return what became of a review."""
    response, explanation = answer["response"], answer["explanation"]
    namespace = "" if isinstance(request, str) else request.namespace
    return (
        Piece(response["uid"] or "-"),
        Piece(namespace or "-"),
        Piece(_object_name(request)),
        _outcome(request, response),
        Piece(", ".join(_changes(explanation)) or "-"),
        Piece(_why(request, explanation, response)),
    )


def _outcome(request: AdmissionRequest | str, response: Json) -> Piece:
    if isinstance(request, str):
        return Piece("unreadable", Tone.BAD)
    if not response["allowed"]:
        return Piece("refused", Tone.BAD)
    return Piece("patched", Tone.GOOD) if "patch" in response else Piece("allowed")


def _changes(explanation: Json) -> Iterator[str]:
    """Yield what containers request, and what they get."""
    containers = explanation.get("containers", ())
    for container in containers:
        for resource, told in container.items():
            if not isinstance(told, dict) or "request" not in told.get("gets", {}):
                continue
            had, gets = (told.get(word, {}).get("request") for word in ("had", "gets"))
            if had != gets:
                changed = f"{resource} {_shown(resource, had)} -> {_shown(resource, gets)}"
                yield f"{container['name']} {changed}" if len(containers) > 1 else changed


def _shown(resource: str, text: str | None) -> str:
    return "none" if text is None else amount(resource, Quantity.parse(text))


def _why(request: AdmissionRequest | str, explanation: Json, response: Json) -> str:
    if isinstance(request, str):
        return request
    if message := response.get("status", {}).get("message"):
        return " ".join(message.split())
    if request.resource.word == "pods":
        return f"{explanation['reason']}: {explanation['message']}"
    return "; ".join(response.get("warnings", ())) or "-"
