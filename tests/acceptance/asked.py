"""What accounts asked an API server for, by its audit log, beside what they may ask for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from app.kube.manifests.rights import Right, RightScope
from tests.acceptance.rights import NAMESPACE


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that an account wanted to do."""

    account: str
    verb: str
    group: str
    resource: str  # with its subresource
    namespace: str
    name: str
    is_allowed: bool

    def __str__(self) -> str:
        group = f" of {self.group}" if self.group else ""
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.account}: {self.verb} {self.resource}{group} {self.name}{place}"


def asked(log: Path) -> frozenset[Question]:
    """Return what an audit log tells of resources."""
    found = set()
    for line in log.read_text("utf-8").splitlines():
        event = json.loads(line)
        about = event.get("objectRef") or {}
        if "resource" in about:
            subresource = about.get("subresource")
            found.add(
                Question(
                    account=event["user"]["username"],
                    verb=event["verb"],
                    group=about.get("apiGroup", ""),
                    resource=about["resource"] + (f"/{subresource}" if subresource else ""),
                    namespace=about.get("namespace", ""),
                    name=about.get("name", ""),
                    is_allowed=event["annotations"]["authorization.k8s.io/decision"] == "allow",
                )
            )
    return frozenset(found)


def forbidden(questions: Iterable[Question]) -> Sequence[str]:
    """Return what an account may not do and wanted to."""
    return sorted({str(each) for each in questions if not each.is_allowed})


def unused(rights: Iterable[Right], questions: Sequence[Question]) -> Iterator[str]:
    """Yield each verb on each resource that is allowed and that nobody wanted."""
    for right in rights:
        for verb, resource, name in product(right.verbs, right.resources, right.names or ("",)):
            if not any(_needs(each, right, verb, resource, name) for each in questions):
                yield f"{verb} {resource} {name}".rstrip() + f", to {right.why}"


def _needs(each: Question, right: Right, verb: str, resource: str, name: str) -> bool:
    """Say whether a question needs this very part of a right."""
    return (
        each.verb == verb
        and right.group in ("*", each.group)
        and _is_of(each.resource, resource)
        and (not name or each.name == name)
        and (right.reach is RightScope.EVERYWHERE or each.namespace == NAMESPACE)
    )


def _is_of(resource: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    if pattern.startswith("*/"):
        return resource.partition("/")[2] == pattern.removeprefix("*/")
    return resource == pattern
