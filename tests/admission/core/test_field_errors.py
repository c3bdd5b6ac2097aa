"""Refusals as a Kubernetes API server words them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.admission.core.field_errors import (
    FieldError,
    FieldWarning,
    Finding,
    Ratcheted,
    denial,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    quoted,
    ratchet,
    required,
    too_many,
    unreadable,
)
from tests.cases import cases

REQUIRED, INVALID, TOO_MANY = (f"FieldValue{kind}" for kind in ("Required", "Invalid", "TooMany"))


@cases(
    "error reason body",
    {
        "required": (required("a", "say it"), REQUIRED, "Required value: say it"),
        "no detail": (required("a"), REQUIRED, "Required value"),
        "text": (invalid("a", "10", "too low"), INVALID, 'Invalid value: "10": too low'),
        "zero": (invalid("a", 0, "too low"), INVALID, "Invalid value: 0: too low"),
        "fraction": (invalid("a", 0.5, "x"), INVALID, "Invalid value: 0.5: x"),
        "whole float": (invalid("a", -1.0, "x"), INVALID, "Invalid value: -1: x"),
        "not supported": (
            not_supported("a", "x", ("B", "A")),
            "FieldValueNotSupported",
            'Unsupported value: "x": supported values: "A", "B"',
        ),
        "forbidden": (forbidden("a", "gate"), "FieldValueForbidden", "Forbidden: gate"),
        "more than one": (too_many("a", 2, 1), TOO_MANY, "Too many: 2: must have at most 1 item"),
        "more than three": (
            too_many("a", 9, 3),
            TOO_MANY,
            "Too many: 9: must have at most 3 items",
        ),
        "duplicate": (
            duplicate("a", "cpu", "twice"),
            "FieldValueDuplicate",
            'Duplicate value: "cpu": twice',
        ),
        "internal": (unreadable("odd"), "InternalError", "Internal error: odd"),
    },
)
def test_body(error: FieldError, reason: str, body: str) -> None:
    """A error is told by the kind's words, the value if there is one, and the detail."""
    assert (error.kind.value, error.body) == (reason, body)


@cases(
    "value shown",
    {
        "whole": (-1.0, "-1"),
        "zero": (0.0, "0"),
        "a thousandth": (0.001, "0.001"),
        "small": (-0.00001, "-1e-05"),
        "six digits": (-123456.0, "-123456"),
        "seven digits": (-1e6, "-1e+06"),
        "seven digits and a half": (-1234567.5, "-1.2345675e+06"),
        "just below": (-999999.999, "-999999.999"),
        "as large as can be": (-9223372036854775.807, "-9.223372036854776e+15"),
    },
)
def test_fractions(value: float, shown: str) -> None:
    """Numbers that may have a fraction are shown as Go shows them."""
    assert invalid("a", value, "x").body == f"Invalid value: {shown}: x"


@cases(
    "text shown",
    {
        "empty": ("", '""'),
        "quotes and backslashes": ('a"b\\c', '"a\\"b\\\\c"'),
        "control characters": ("a\nb\t\x07\x1b", '"a\\nb\\t\\a\\x1b"'),
        "letters": ("größe", '"größe"'),
        "an invisible character": ("\u200b", '"\\u200b"'),
        "an invisible one far out": ("\U000e0001", '"\\U000e0001"'),
        "half a pair": ("\ud800", '"\\ud800"'),
        "a long text": ("x" * 300, f'"{"x" * 256}..."'),
    },
)
def test_quoted(text: str, shown: str) -> None:
    """What users wrote is shown as Go quotes it, and never at any length."""
    assert quoted(text) == shown


@given(st.text(st.characters(codec=None), max_size=300))
def test_quoted_is_harmless(text: str) -> None:
    """Whatever the text, it is printable and can be encoded."""
    shown = quoted(text)
    assert shown.isprintable()
    assert shown.encode()


FIRST = required("spec.a", "x")
SECOND = invalid("spec.b", "v", "y")


@cases(
    "problems message causes",
    {
        "several stand in brackets": (
            [FIRST, SECOND],
            '[spec.a: Required value: x, spec.b: Invalid value: "v": y]',
            2,
        ),
        "the same twice is told once": ([FIRST, FIRST], "spec.a: Required value: x", 2),
        "repeated among others": (
            [FIRST, SECOND, FIRST],
            '[spec.a: Required value: x, spec.b: Invalid value: "v": y]',
            3,
        ),
    },
)
def test_denial_message(problems: list[FieldError], message: str, causes: int) -> None:
    """The message tells each text once; every error is a cause."""
    status = denial(problems, "VerticalPodAutoscaler", "autoscaling.k8s.io", "hamster")
    prefix = 'VerticalPodAutoscaler.autoscaling.k8s.io "hamster" is invalid: '
    assert status["message"] == prefix + message
    assert len(status["details"]["causes"]) == causes


def test_denial_of_too_much() -> None:
    """Nobody is sent a book."""
    problems = [required(f"spec.a[{index}]") for index in range(150)]
    status = denial(problems, "Thing", "", "it")
    assert status["message"].endswith(", spec.a[99]: Required value, and 50 more]")
    assert len(status["details"]["causes"]) == 100


def test_denial_without_name_and_group() -> None:
    """What is not known is left out of the details, and shown empty in the message."""
    status = denial([FIRST], "Thing", "", "")
    assert status["message"] == 'Thing "" is invalid: spec.a: Required value: x'
    assert status["details"].keys() == {"kind", "causes"}


def test_settle() -> None:
    """Only a ratcheted error that was there before, exactly so, becomes a warning."""
    before: list[Finding] = [Ratcheted(FIRST), SECOND, FieldWarning("spec.c", "old")]
    other = invalid("spec.b", "w", "y")
    found: list[Finding] = [
        Ratcheted(FIRST),
        Ratcheted(SECOND),
        other,
        FieldWarning("spec.c", "new"),
    ]
    assert list(ratchet(found, before)) == [
        FieldWarning("spec.a", "Required value: x; tolerated, the stored object has it too"),
        SECOND,
        other,
        FieldWarning("spec.c", "new"),
    ]
