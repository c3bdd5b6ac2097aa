"""Field errors of an object under review, and the Status that refuses it.

Strategy: a rule yields findings. A `FieldError` refuses the object, a `FieldWarning` only warns,
and a `Ratcheted` error refuses unless the stored object has the very same one. Kinds, paths and the
grammar of the message are those of a Kubernetes API server; the sentences in them are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from app.model.fields import Json

_LONGEST_SHOWN: Final = (
    256  # characters of a value, so that a refusal stays shorter than its object
)
_MOST_SHOWN: Final = 100  # errors; a longer list helps no reader
STORED_TOO: Final = "the stored object has it too"


class ErrorKind(StrEnum):
    """What is wrong with a field; the words are the reasons of a Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_MANY = "FieldValueTooMany"
    DUPLICATE = "FieldValueDuplicate"
    INTERNAL = "InternalError"


PREFIXES: Final = {
    ErrorKind.REQUIRED: "Required value",
    ErrorKind.INVALID: "Invalid value",
    ErrorKind.NOT_SUPPORTED: "Unsupported value",
    ErrorKind.FORBIDDEN: "Forbidden",
    ErrorKind.TOO_MANY: "Too many",
    ErrorKind.DUPLICATE: "Duplicate value",
    ErrorKind.INTERNAL: "Internal error",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """A reason to refuse an object."""

    path: str
    kind: ErrorKind
    value: str | int | float | None = None
    detail: str = ""

    @property
    def body(self) -> str:
        """The sentence without the field."""
        shown = "" if self.value is None else _shown(self.value)
        return ": ".join(filter(None, (PREFIXES[self.kind], shown, self.detail)))

    def __str__(self) -> str:
        """Return the sentence as upstream's suite compares it: an unreadable object is `.`."""
        return f"{'.' if self.kind is ErrorKind.INTERNAL else self.path}: {self.body}"


@dataclass(frozen=True, slots=True)
class FieldWarning:
    """A reason to warn the author of an object."""

    path: str
    text: str

    @staticmethod
    def tolerated(error: FieldError, why: str) -> FieldWarning:
        """Return the warning for an error that is let pass."""
        return FieldWarning(error.path, f"{error.body}; tolerated, {why}")

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


@dataclass(frozen=True, slots=True)
class Ratcheted:
    """An error that only warns if the stored object has it already."""

    error: FieldError


Finding = FieldError | FieldWarning | Ratcheted
Findings = Iterator[Finding]
Verdicts = Iterator[FieldError | FieldWarning]


def required(path: str, detail: str = "") -> FieldError:
    """A field that must be there is not, or is empty."""
    return FieldError(path, ErrorKind.REQUIRED, None, detail)


def invalid(path: str, value: str | float | None, detail: str) -> FieldError:
    """A value is not within what the field allows."""
    return FieldError(path, ErrorKind.INVALID, value, detail)


def not_supported(path: str, value: str, supported: Iterable[str]) -> FieldError:
    """A word is none of those that the field knows."""
    words = ", ".join(quoted(word) for word in sorted(supported))
    return FieldError(path, ErrorKind.NOT_SUPPORTED, value, f"supported values: {words}")


def forbidden(path: str, detail: str) -> FieldError:
    """A field may not be set here."""
    return FieldError(path, ErrorKind.FORBIDDEN, None, detail)


def too_many(path: str, count: int, most: int) -> FieldError:
    """A list is too long."""
    items = "item" if most == 1 else "items"
    return FieldError(path, ErrorKind.TOO_MANY, count, f"must have at most {most} {items}")


def duplicate(path: str, value: str, detail: str) -> FieldError:
    """A value stands at a second place where it may stand only once."""
    return FieldError(path, ErrorKind.DUPLICATE, value, detail)


def unreadable(detail: str, path: str = ".") -> FieldError:
    """The object cannot be read; the cause names the field if the detail does not."""
    return FieldError(path, ErrorKind.INTERNAL, None, detail)


def ratchet(findings: Iterable[Finding], before: Iterable[Finding]) -> Verdicts:
    """Yield findings; a ratcheted error becomes a warning if `before` has it too."""
    known = {item.error for item in before if isinstance(item, Ratcheted)}
    for item in findings:
        if not isinstance(item, Ratcheted):
            yield item
        elif item.error in known:
            yield FieldWarning.tolerated(item.error, STORED_TOO)
        else:
            yield item.error


def denial(errors: Sequence[FieldError], kind: str, group: str, name: str) -> Json:
    """Return the metav1 Status that refuses an object."""
    texts = truncated(list(dict.fromkeys(map(str, errors))), _MOST_SHOWN)
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    subject = f"{kind}.{group}" if group else kind
    causes = [
        {"reason": error.kind.value, "message": error.body, "field": error.path}
        for error in errors[:_MOST_SHOWN]
    ]
    about = {"name": name, "group": group, "kind": kind}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"{subject} {quoted(name)} is invalid: {listed}",
        "reason": "Invalid",
        "details": {key: word for key, word in about.items() if word} | {"causes": causes},
        "code": 422,
    }


def truncated(texts: Sequence[str], most: int) -> list[str]:
    """Return at most so many texts, and how many are left out."""
    rest = len(texts) - most
    return [*texts[:most], f"and {rest} more"] if rest > 0 else list(texts)


def _shown(value: str | float) -> str:
    """Write a value as API servers do, which is as Go does."""
    if isinstance(value, str):
        return quoted(value)
    return str(value) if isinstance(value, int) else _float_text(value)


def _float_text(value: float) -> str:
    digits = Decimal(repr(value)).normalize()
    exponent = digits.adjusted()
    if digits.is_zero() or -5 < exponent < 6:
        return f"{digits:f}"
    return f"{digits.scaleb(-exponent):f}e{exponent:+03}"


_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """Return a text in quotes, with control characters escaped for terminals and logs."""
    shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
    return f'"{"".join(map(_escaped, shown))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
