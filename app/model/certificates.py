"""Certificates as this house speaks of them: generations, and the ring that holds them."""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """One generation: the serving pair and the CA that signed it, as PEM texts."""

    ca_pem: str
    cert_pem: str
    key_pem: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Material:
    """What a source offers to be served; `version` grows with every change."""

    version: int
    certificates: CertificateSet


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All generations that are known; no CA's private key is ever on it."""

    current: CertificateSet | None = None
    upcoming: CertificateSet | None = None
    retiring: tuple[str, ...] = ()  # CAs of former generations, PEM, oldest first


@dataclass(frozen=True, slots=True)
class StoredRing:
    """A ring as it was read; `origin` is the object around it, None when there is none."""

    ring: KeyRing
    origin: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Generation:
    """What can be said of a generation without its key."""

    authorities: frozenset[str]  # fingerprints
    not_before: datetime  # of the shorter-lived of CA and serving certificate
    not_after: datetime
    trouble: str = ""  # why it cannot be served at all
    missing_names: tuple[str, ...] = ()  # wanted, but not in the serving certificate


def pem_blocks(text: str) -> tuple[str, ...]:
    """Return the certificates in a text, each once, tidied; what cannot be read is left out."""
    blocks: dict[str, None] = {}
    for match in _BLOCK.finditer(text):
        try:
            der = binascii.a2b_base64("".join(match[1].split()), strict_mode=True)
        except binascii.Error:
            continue
        if der:
            blocks[_armoured(der)] = None
    return tuple(blocks)


def fingerprint(block: str) -> str:
    """Return the SHA-256 of one certificate's DER form, in hex."""
    return hashlib.sha256(binascii.a2b_base64("".join(block.splitlines()[1:-1]))).hexdigest()


def fingerprints(text: str) -> frozenset[str]:
    """Return the fingerprints of all certificates in a text."""
    return frozenset(fingerprint(block) for block in pem_blocks(text))


def joined(texts: Iterable[str]) -> str:
    """Return one bundle with every certificate of these texts once, in order."""
    return "".join(dict.fromkeys(block for text in texts for block in pem_blocks(text)))


def _armoured(der: bytes) -> str:
    body = binascii.b2a_base64(der, newline=False).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
