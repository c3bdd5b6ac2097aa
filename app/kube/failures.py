"""What went wrong outside, in the words of people: no class names, no numbers of errors.

Strategy: libraries wrap what the operating system or TLS said into texts of their own, sometimes
several times over. The first cause whose sentence is known counts; else the text of the error.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from http.client import HTTPException
from typing import Final

import orjson

# What OpenSSL says of a file that is no PEM, in its own words.
_NO_PEM: Final = {"NO_CERTIFICATE_OR_CRL_FOUND", "NOT_ENOUGH_DATA", "NO_START_LINE", "PEM_LIB"}


def not_json(error: orjson.JSONDecodeError) -> str:
    """Return why a text cannot be read as JSON."""
    return "not UTF-8 text" if "valid UTF-8" in error.msg else error.msg


def cause_of(error: BaseException) -> str:
    """Return why something outside failed, such as `connection refused`."""
    for each in _causes(error):
        match each:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted: {each.verify_message}"
            case ssl.SSLError(reason=str(reason)) if reason.replace(" ", "_").upper() in _NO_PEM:
                return "it holds no PEM certificate"
            case ssl.SSLError(reason=str(reason)) if reason:
                return f"TLS failed: {reason.replace('_', ' ').lower()}"
            case OSError(strerror=str(told)) if told:
                return told[:1].lower() + told[1:]
            case HTTPException():
                return "the connection was closed before the answer was whole"
            case UnicodeError():
                return "not a text file"
    return str(error) or "no reason is given"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what led to it, each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = (*each.args, each.__cause__, each.__context__)
        waiting += [found for found in inner if isinstance(found, BaseException)]
