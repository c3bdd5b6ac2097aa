"""What libraries and the system say becomes a sentence that people understand."""

from __future__ import annotations

import ssl
from http.client import RemoteDisconnected
from pathlib import Path

import orjson
import pytest

from app.kube.failures import cause_of, not_json
from tests.cases import cases


def wrapped(cause: Exception) -> Exception:
    """Return an error that was raised because of another, as libraries do."""
    error = ValueError("HTTPSConnection(host='h', port=1)")
    error.__cause__ = cause
    return error


@cases(
    "error sentence",
    {
        "of the system": (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        "within another": (wrapped(OSError(113, "No route to host")), "no route to host"),
        "as an argument": (ValueError("Aborted.", OSError(32, "Broken pipe")), "broken pipe"),
        "a closed connection": (
            ValueError("Connection aborted.", RemoteDisconnected("Remote end closed")),
            "the connection was closed before the answer was whole",
        ),
        "no text": (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "not a text file"),
        "known to none": (ValueError("half a token"), "half a token"),
        "nothing": (ValueError(), "no reason is given"),
    },
)
def test_causes(error: Exception, sentence: str) -> None:
    """The first cause that says what happened counts, not what was built around it."""
    assert cause_of(error) == sentence


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    """A CA file with something else in it is said to be that."""
    (tmp_path / "ca").write_bytes(bytes(range(256)))
    with pytest.raises(ssl.SSLError) as found:
        ssl.create_default_context(cafile=str(tmp_path / "ca"))
    assert cause_of(found.value) == "it holds no PEM certificate"


@cases(
    "text sentence",
    {"bytes": (b'{"a": "\xff"}', "not UTF-8 text"), "half": (b"{", "unexpected end of data")},
)
def test_what_is_no_json(text: bytes, sentence: str) -> None:
    """Bytes that are no text are said to be that."""
    with pytest.raises(orjson.JSONDecodeError) as found:
        orjson.loads(text)
    assert not_json(found.value) == sentence
