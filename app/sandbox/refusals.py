"""What the sandbox says when it refuses, in the words and codes of an API server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from app.model.errors import (
    ClusterError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)

Causes = tuple[tuple[str, str], ...]

_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field that cannot be accepted; `message` begins with the kind of the problem."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def required(field: str, detail: str = "") -> FieldProblem:
    """A field that must be there."""
    message = f"Required value: {detail}" if detail else "Required value"
    return FieldProblem("FieldValueRequired", field, message)


def wrong(field: str, value: object, detail: str) -> FieldProblem:
    """A value that cannot be."""
    return FieldProblem("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def forbidden_field(field: str, detail: str) -> FieldProblem:
    """A field that may not be there, or not change."""
    return FieldProblem("FieldValueForbidden", field, f"Forbidden: {detail}")


def unsupported(field: str, value: object, choices: Iterable[str]) -> FieldProblem:
    """A word that is none of those known."""
    known = ", ".join(f'"{choice}"' for choice in choices)
    message = f"Unsupported value: {shown(value)}: supported values: {known}"
    return FieldProblem("FieldValueNotSupported", field, message)


def wrong_kind(field: str, value: object, wanted: str) -> FieldProblem:
    """A value of another type than the schema's."""
    kind = shown(_KINDS[type(value)])
    message = f"Invalid value: {kind}: {field} in body must be of type {wanted}: {kind}"
    return FieldProblem("FieldValueTypeInvalid", field, message)


def duplicate(field: str, value: object) -> FieldProblem:
    """A value that stands there already."""
    return FieldProblem("FieldValueDuplicate", field, f"Duplicate value: {shown(value)}")


def immutable(field: str, value: object) -> FieldProblem:
    """A field that can never change."""
    return wrong(field, value, "field is immutable")


def shown(value: object) -> str:
    """Write a value as an error shows it."""
    return orjson.dumps(value, default=str).decode()


def unknown_path() -> NotFound:
    """There is not even such a group."""
    return NotFound("404 page not found", status=404)


def unknown_resource() -> NotFound:
    """Nothing of this name is served in a group."""
    return NotFound(
        "the server could not find the requested resource", status=404, reason="NotFound"
    )


def not_found(collection: str, name: str) -> NotFound:
    """No such object; a collection is named `deployments.apps`."""
    return NotFound(f'{collection} "{name}" not found', status=404, reason="NotFound")


def exists(collection: str, name: str) -> Conflict:
    """There is one of this name."""
    message = f'{collection} "{name}" already exists'
    return Conflict(message, status=409, reason="AlreadyExists")


def conflict(collection: str, name: str, why: str) -> Conflict:
    """The object is not what the caller takes it for."""
    message = f'Operation cannot be fulfilled on {collection} "{name}": {why}'
    return Conflict(message, status=409, reason="Conflict")


def modified(collection: str, name: str) -> Conflict:
    """The object has a newer version."""
    why = "the object has been modified; please apply your changes to the latest version"
    return conflict(collection, name, f"{why} and try again")


def other_uid(collection: str, name: str, wanted: str, found: str) -> Conflict:
    """An object of this name, but another one."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    return conflict(collection, name, why)


def recreated(kind: str, name: str, wanted: str, found: str) -> Conflict:
    """An object of this name, but not the one that is to go."""
    why = (
        f"the UID in the precondition ({wanted}) does not match the UID in record ({found}). "
        "The object might have been deleted and then recreated"
    )
    return conflict(kind, name, why)


def bad_request(message: str) -> Invalid:
    """A request that makes no sense."""
    return Invalid(message, status=400, reason="BadRequest")


def invalid(kind: str, name: str, problems: Sequence[FieldProblem]) -> Invalid:
    """An object with problems; a kind is named `Deployment.apps`."""
    messages = [str(problem) for problem in problems]
    told = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    causes = tuple((problem.reason, problem.message) for problem in problems)
    message = f'{kind} "{name}" is invalid: {told}'
    return Invalid(message, status=422, reason="Invalid", causes=causes)


def forbidden(collection: str, name: str, why: str, causes: Causes = ()) -> Refused:
    """A change that may not be made."""
    message = f'{collection} "{name}" is forbidden: {why}'
    return Refused(message, status=403, reason="Forbidden", causes=causes)


def not_allowed() -> Invalid:
    """A verb that this resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return Invalid(message, status=405, reason="MethodNotAllowed")


def expired(message: str) -> Gone:
    """A version that is no longer kept."""
    return Gone(message, status=410, reason="Expired")


def too_many(message: str, cause: str, retry_after_seconds: float | None = None) -> TooMany:
    """A disruption budget holds."""
    return TooMany(
        message,
        status=429,
        reason="TooManyRequests",
        causes=(("DisruptionBudget", cause),),
        retry_after_seconds=retry_after_seconds,
    )


def broken(message: str) -> Unavailable:
    """The server is at fault, or says so."""
    text = f"Internal error occurred: {message}"
    return Unavailable(text, status=500, reason="InternalError")


def of_status(code: int, message: str, reason: str, causes: Causes = ()) -> ClusterError:
    """The error of a status code that another server chose."""
    kinds = {400: Invalid, 401: Refused, 403: Refused, 404: NotFound, 409: Conflict}
    kinds |= {405: Invalid, 410: Gone, 413: Invalid, 422: Invalid, 429: TooMany}
    return kinds.get(code, Unavailable)(message, status=code, reason=reason, causes=causes)
