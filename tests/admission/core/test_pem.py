"""PEM texts are read forgivingly and written one way."""

from __future__ import annotations

import base64
import hashlib

from app.admission.core.rotation import (
    CertificateSet,
    fingerprint,
    fingerprints,
    joined,
    pem_blocks,
)
from tests.cases import cases


def pem(der: bytes, width: int = 64) -> str:
    """Bytes in the armour of a certificate."""
    body = base64.b64encode(der).decode()
    lines = "\n".join(body[at : at + width] for at in range(0, len(body), width))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"


ONE, TWO = pem(b"one" * 30), pem(b"two" * 30)
KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@cases(
    "text expected",
    {
        "empty": ("", ()),
        "other text": ("no certificate", ()),
        "one": (ONE, (ONE,)),
        "comments and blank lines": (f"# my CA\n{ONE}\n\n{TWO}", (ONE, TWO)),
        "twice the same": (ONE + TWO + ONE, (ONE, TWO)),
        "other line width": (pem(b"one" * 30, 76), (ONE,)),
        "Windows line ends": (ONE.replace("\n", "\r\n"), (ONE,)),
        "a key before it": (KEY + ONE, (ONE,)),
        "cut off": (ONE[:40] + TWO, ()),
        "nothing inside": (pem(b"").strip() + TWO, (TWO,)),
        "not base64": (ONE.replace("b", "!") + TWO, (TWO,)),
    },
)
def test_pem_blocks(text: str, expected: tuple[str, ...]) -> None:
    """What is a certificate comes out tidied, all else is left out."""
    assert pem_blocks(text) == expected


def test_fingerprint() -> None:
    """A fingerprint is the digest of the DER form, however the text is laid out."""
    expected = hashlib.sha256(b"one" * 30).hexdigest()
    assert fingerprint(ONE) == expected
    assert fingerprints(pem(b"one" * 30, 76)) == {expected}


def test_joined() -> None:
    """A bundle keeps the order and holds each certificate once."""
    assert joined([TWO, ONE + TWO, ""]) == TWO + ONE


def test_key_stays_out_of_texts() -> None:
    """A generation can be printed and logged without giving its key away."""
    assert "secret" not in repr(CertificateSet("ca", "cert", "secret"))
