"""Answers reviews from files, by objects from files.

Strategy: the same reviewer as behind the server, and the same sources as without a cluster; every
review is a question of its own. All reviews are read before the first one is answered, so that
what is no review ends the command before it has printed anything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from prometheus_client import CollectorRegistry

from app.admission.knowledge import recorded_sources, review_rules
from app.admission.metrics import AdmissionMetrics
from app.admission.responses import (
    Arrival,
    decoded,
    explained_unreadable,
)
from app.admission.reviews import Reviewer
from app.commands.flags import AdmitSettings, AnswerFlags
from app.kube.files import Document, RecordedCluster, Unreadable, given_objects
from app.model.errors import BadObject, BadSetting
from app.model.fields import Json
from app.model.kinds import BUILT_IN_KINDS
from app.model.quantity import Quantity
from app.model.review import AdmissionRequest, read_review, uid_of
from app.model.text import amount
from app.output import Line, Piece, Report, Table, Tone
from app.ports import PODS, VPAS
from app.runtime.clock import SystemClock
from app.runtime.garbage import without_collection
from app.runtime.logs import start_sentences

_PATIENCE_SECONDS = 10.0
_REVIEW = "AdmissionReview"

_COLUMNS: Final = ("REVIEW", "NAMESPACE", "OBJECT", "ANSWER", "REQUESTS", "WHY")
_UNNAMED: Final = "-"


@dataclass(frozen=True, slots=True)
class GivenReviews:
    """The reviews of a command line, and who answers them."""

    reviewer: Reviewer
    reviews: list[Document]
    shown: AnswerFlags
    notes: list[str]  # about objects and files
    is_partial: bool  # some file of a folder could not be read

    def lines(self) -> Iterator[bytes]:
        """Yield the answer to each review as a line of JSON."""
        for review in self.reviews:
            yield _line(self.reviewer, review, self.shown)

    def report(self) -> Report:
        """Return the answers: a row for each review, and its line as an object."""
        requests = list(map(_request, self.reviews))
        answers = [_explained(self.reviewer, review) for review in self.reviews]
        rows = list(map(review_row, requests, answers))
        items = [_as_asked(answer, self.shown) for answer in answers]
        names = list(map(_object_name, requests))
        table = Table(_COLUMNS, rows)
        return Report(table, items, names, self.notes, is_partial=self.is_partial)


def given_reviews(settings: AdmitSettings) -> GivenReviews:
    """Return the reviews that are to be answered.

    Raises:
        BadSetting: there is none, or something that is named cannot be read, or is no review.
    """
    start_sentences(settings.logging.verbosity)
    logging.getLogger("admission.reviews").setLevel(
        logging.ERROR
    )  # the answers tell what was decided
    unread: list[Unreadable] = []
    with without_collection():
        recorded = RecordedCluster(given_objects(settings.offline.objects, unread))
    reviews = list(given_objects(map(Path, settings.reviews), unread, _no_review))
    if not reviews and not unread:
        raise BadSetting("no review given: name files with AdmissionReviews, or - to read them")
    metrics = AdmissionMetrics(CollectorRegistry())  # which are not shown
    rules = review_rules(settings.decisions)
    return GivenReviews(
        Reviewer(recorded_sources(recorded), rules, metrics, SystemClock()),
        reviews,
        settings.answering,
        [*map(str, unread), *map(str, recorded.problems)],
        is_partial=bool(unread),
    )


def _no_review(found: Document) -> str:
    """Say what something is that is no review, and how to ask about it; empty for a review."""
    item = found.item
    kind = str(item.get("kind") or "")
    if kind == _REVIEW or (not kind and "request" in item):
        return ""
    if not kind:
        return f"an object without kind is no {_REVIEW}"
    told = f"this is a {kind}, not an {_REVIEW}"
    if kind not in (*BUILT_IN_KINDS, PODS.kind, VPAS.kind):
        return told
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    word = {VPAS.kind: "vpa", "Deployment": "deploy"}.get(kind, kind.lower())
    file = found.place.rpartition(":")[0]
    what = "it" if kind == PODS.kind else "its pods"
    asked = f"plumbline explain {word}/{name or 'NAME'} --objects {file}"
    return f"{told}; to see what {what} would get: {asked}"


def _line(reviewer: Reviewer, review: Document, shown: AnswerFlags) -> bytes:
    if not shown.decode and not shown.explain:
        return _answer(reviewer, review) + b"\n"
    answer = _as_asked(_explained(reviewer, review), shown)
    return orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)


def _answer(reviewer: Reviewer, review: Document) -> bytes:
    request = _request(review)
    if isinstance(request, str):
        return orjson.dumps(_without_explanation(_unreadable(review, request)))
    return reviewer.answer(request, _PATIENCE_SECONDS)


def _explained(reviewer: Reviewer, review: Document) -> Json:
    request, now = _request(review), reviewer.now()
    if isinstance(request, str):
        return _unreadable(review, request)
    return reviewer.explain(request, Arrival(now), now + _PATIENCE_SECONDS)


def _unreadable(review: Document, why: str) -> Json:
    return explained_unreadable(uid_of(review.item), why, Arrival(0.0))


def _as_asked(answer: Json, shown: AnswerFlags) -> Json:
    """Return an answer with its explanation as it is to be shown."""
    found = decoded(answer) if shown.decode else answer
    return found if shown.explain else _without_explanation(found)


def _without_explanation(answer: Json) -> Json:
    return {key: value for key, value in answer.items() if key != "explanation"}


def _request(review: Document) -> AdmissionRequest | str:
    """Return what a review asks, or why it cannot be read."""
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
