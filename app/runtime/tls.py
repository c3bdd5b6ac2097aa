"""The listener's TLS: versions, ciphers, and a certificate that changes while it serves.

Strategy: the listener keeps one context for life. Every handshake asks which certificate is
the newest and answers with that, so a change is one assignment: no handshake sees half of it,
from whatever thread it comes. (Loading a pair into a context that is in use is not safe: a
handshake may meet the new certificate with the old key, and OpenSSL may crash.)
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from app.flags.shared import PortAccess
from app.kube.failures import cause_of
from app.model.errors import BadObject, BadSetting

log = logging.getLogger("runtime.tls")

_LOOK_SECONDS = 10.0

# Names of TLS 1.2 suites as Go and IANA spell them; those of TLS 1.3 cannot be chosen.
_CIPHERS = {
    f"TLS_ECDHE_{auth}_WITH_{iana}": f"ECDHE-{auth}-{openssl}"
    for auth in ("ECDSA", "RSA")
    for iana, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}
_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "tls1_2": ssl.TLSVersion.TLSv1_2,
    "tls1_3": ssl.TLSVersion.TLSv1_3,
}
_NO_PASSWORD = b""  # else OpenSSL would ask a terminal for the one of a locked key


class ServerTls:
    """A context for one listener, whose certificate can be swapped from any thread."""

    def __init__(
        self, cert_pem: str, key_pem: str, *, min_version: str = "", ciphers: Sequence[str] = ()
    ) -> None:
        """Choose versions and ciphers; those that are not known fall away.

        Raises:
            BadSetting: the version is unknown.
            BadObject: certificate and key are no pair.
        """
        if min_version not in _VERSIONS:
            raise BadSetting(f"--min-tls-version: {min_version!r} is neither tls1_2 nor tls1_3")
        self.context = self._newest = _holding(cert_pem, key_pem)
        self.context.minimum_version = _VERSIONS[min_version]
        self.context.set_alpn_protocols(["http/1.1"])
        if chosen := [_CIPHERS[name] for name in ciphers if name in _CIPHERS]:
            self.context.set_ciphers(":".join(chosen))
        self.context.sni_callback = self._choose  # called whether a client names a host or not

    def swap(self, cert_pem: str, key_pem: str) -> None:
        """Serve another pair from now on, to new connections only.

        Raises:
            BadObject: it is no pair; the old one stays.
        """
        self._newest = _holding(cert_pem, key_pem)

    def _choose(
        self,
        connection: ssl.SSLSocket | ssl.SSLObject,
        _name: str | None,
        _context: ssl.SSLContext,
    ) -> None:
        connection.context = self._newest


class FileTls:
    """TLS with a pair in files that others write, which are read again when they change."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        """Read the pair.

        Raises:
            BadSetting: a file cannot be read, or certificate and key are no pair.
        """
        self._files = cert_file, key_file
        self._pair = self._read()
        try:
            self._tls = ServerTls(*self._pair)
        except BadObject as error:
            raise BadSetting(f"--tls-cert-file: {cert_file}: {error}") from None

    @classmethod
    def of(cls, access: PortAccess) -> FileTls | None:
        """Return the TLS of a port, None if it is plain; raises as the constructor does."""
        if access.cert_file is None or access.key_file is None:
            return None
        return cls(access.cert_file, access.key_file)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the listener."""
        return self._tls.context

    def tick(self, _now: datetime) -> float:
        """Look for another pair; return the seconds until the next look.

        Raises:
            BadSetting, BadObject: there is none that can be served; the old one is.
        """
        pair = self._read()
        if pair != self._pair:
            self._tls.swap(*pair)
            self._pair = pair
            log.info("certificate is served", extra={"file": str(self._files[0])})
        return _LOOK_SECONDS

    def _read(self) -> tuple[str, str]:
        cert, key = map(_text, ("--tls-cert-file", "--tls-private-key"), self._files)
        return cert, key


def _text(flag: str, path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise BadSetting(f"{flag}: {path}: {cause_of(error)}") from None


def _holding(cert_pem: str, key_pem: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        _load(context, f"{cert_pem}\n{key_pem}".encode())
    except (ssl.SSLError, ValueError) as err:
        raise BadObject("", f"certificate and key are no usable pair: {err}") from err
    return context


def _load(context: ssl.SSLContext, pair: bytes) -> None:
    """Hand a pair to OpenSSL, which reads files only; the key never lies on a disk on Linux."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pair", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_NO_PASSWORD)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(pair)
        context.load_cert_chain(path, password=_NO_PASSWORD)
