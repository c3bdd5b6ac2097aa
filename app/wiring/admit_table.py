"""Answers to reviews as rows that people read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.model.quantity import Quantity
from app.model.review import Request
from app.model.text import amount
from app.output.report import Json, Line, Piece, Tone

COLUMNS: Final = ("REVIEW", "NAMESPACE", "OBJECT", "ANSWER", "REQUESTS", "WHY")
_UNNAMED: Final = "-"


def called(request: Request | str) -> str:
    """Return what other commands call the object that a review is about."""
    if isinstance(request, str):
        return f"review/{_UNNAMED}"
    found = request.new if isinstance(request.new, dict) else request.old
    metadata = found.get("metadata") if isinstance(found, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    name = request.name or known.get("name") or known.get("generateName") or _UNNAMED
    return f"{request.kind.word.lower() or _UNNAMED}/{name}"


def row(request: Request | str, explanation: Json, answer: Json) -> Line:
    """Return what became of a review."""
    response = answer["response"]
    namespace = "" if isinstance(request, str) else request.namespace
    return (
        Piece(response["uid"] or "-"),
        Piece(namespace or "-"),
        Piece(called(request)),
        _answer(request, response),
        Piece(", ".join(_changes(explanation)) or "-"),
        Piece(_why(request, explanation, response)),
    )


def _answer(request: Request | str, response: Json) -> Piece:
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


def _why(request: Request | str, explanation: Json, response: Json) -> str:
    if isinstance(request, str):
        return request
    if message := response.get("status", {}).get("message"):
        return " ".join(message.split())
    if request.resource.word == "pods":
        return f"{explanation['reason']}: {explanation['message']}"
    return "; ".join(response.get("warnings", ())) or "-"
