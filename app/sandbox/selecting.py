"""Label and field selectors of lists and watches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

from app.model.errors import BadObject
from app.model.selectors import Selector
from app.ports import Json
from app.sandbox.objects import labels_of, member
from app.sandbox.refusals import bad_request

Matches = Callable[[Json], bool]

ALWAYS: Final = ("metadata.name", "metadata.namespace")
SELECTABLE: Final = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
    "nodes": ("spec.unschedulable",),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
}

_TERM: Final = re.compile(r"([^=!,]+)(==|!=|=)((?:[^\\,=]|\\.)*)")
_ESCAPED: Final = re.compile(r"\\(.)")


def selection(collection: str, label_selector: str, field_selector: str) -> Matches:
    """Return whether an object is selected.

    Raises:
        Invalid: a selector cannot be read, or asks for a field that cannot be selected by.
    """
    try:
        labels = Selector.parse(label_selector)
    except BadObject as error:
        raise bad_request(f"unable to parse requirement: {error.message}") from None
    terms = _field_terms(field_selector, (*ALWAYS, *SELECTABLE.get(collection, ())))
    if labels.is_everything and not terms:
        return lambda _item: True

    def matches(item: Json) -> bool:
        return labels.matches(labels_of(item)) and all(
            (_field_text(item, path) == value) is is_wanted for path, is_wanted, value in terms
        )

    return matches


def _field_terms(text: str, selectable: Collection[str]) -> list[tuple[str, bool, str]]:
    """Read `a=b,c!=d`; what is left out of a term is a part of it."""
    terms = []
    for part in _parts(text):
        found = _TERM.fullmatch(part)
        if found is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {part!r}")
        path, sign, value = found.groups()
        if path not in selectable:
            raise bad_request(f"field label not supported: {path}")
        terms.append((path, sign != "!=", _ESCAPED.sub(r"\1", value)))
    return terms


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"(?<!\\),", text) if part]


def _field_text(item: Json, path: str) -> str:
    found = member(item, path)
    if path == "spec.unschedulable":
        return "true" if found else "false"
    return str(found or "")
