"""The listener speaks the versions and ciphers that were asked for, and swaps in one go."""

from __future__ import annotations

import os
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.admission.certificates import issue
from app.admission.core.rotation import CertificateSet
from app.model.errors import BadObject, BadSetting
from app.runtime.tls import FileTls, ServerTls
from tests.cases import cases
from tests.kube.issuing import issued

NOW = datetime(2020, 1, 1, tzinfo=UTC)
ONE, TWO = (issue(("localhost",), NOW, 20_000) for _ in range(2))  # good by any real clock


def shake_hands(
    server: ssl.SSLContext, trusted: CertificateSet, name: str | None = "localhost"
) -> ssl.SSLObject:
    """Return the client's side after a handshake in memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    context.load_verify_locations(cadata=trusted.ca_pem)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours


def served(tls: ServerTls, trusted: CertificateSet, name: str | None = "localhost") -> bytes:
    """Return the certificate that a client sees, in DER form."""
    return shake_hands(tls.context, trusted, name).getpeercert(binary_form=True) or b""


@pytest.mark.parametrize("name", ["localhost", None], ids=["with a name", "without a name"])
def test_swap(name: str | None) -> None:
    """New connections see the new certificate, whether they name a host or not."""
    tls = ServerTls(ONE.cert_pem, ONE.key_pem)
    assert served(tls, ONE, name) == ssl.PEM_cert_to_DER_cert(ONE.cert_pem)
    tls.swap(TWO.cert_pem, TWO.key_pem)
    assert served(tls, TWO, name) == ssl.PEM_cert_to_DER_cert(TWO.cert_pem)


@cases(
    "cert key",
    {
        "half a pair": (TWO.cert_pem, ONE.key_pem),
        "empty": ("", ""),
        "cut off": (TWO.cert_pem, TWO.key_pem[:50]),
    },
)
def test_bad_swap(cert: str, key: str) -> None:
    """What is no pair is refused, and the old pair goes on."""
    tls = ServerTls(ONE.cert_pem, ONE.key_pem)
    with pytest.raises(BadObject, match="no usable pair"):
        tls.swap(cert, key)
    assert served(tls, ONE)


def test_locked_key() -> None:
    """A key with a password is refused, and no terminal is asked for it."""
    pair = issued("a", NOW, names=("a",))
    with pytest.raises(BadObject, match="no usable pair"):
        ServerTls(pair.pem, pair.key_pem(b"secret"))


def test_swap_during_handshakes() -> None:
    """Swaps from another thread break no handshake."""
    tls = ServerTls(ONE.cert_pem, ONE.key_pem)
    both = CertificateSet(ONE.ca_pem + TWO.ca_pem, "", "")
    over = threading.Event()

    def swap_on() -> None:
        while not over.is_set():
            tls.swap(TWO.cert_pem, TWO.key_pem)
            tls.swap(ONE.cert_pem, ONE.key_pem)

    swapping = threading.Thread(target=swap_on)
    swapping.start()
    try:
        seen = {served(tls, both) for _ in range(300)}
    finally:
        over.set()
        swapping.join()
    assert seen <= {ssl.PEM_cert_to_DER_cert(made.cert_pem) for made in (ONE, TWO)}


@cases(
    "flag expected",
    {
        "empty": ("", ssl.TLSVersion.TLSv1_2),
        "1.2": ("tls1_2", ssl.TLSVersion.TLSv1_2),
        "1.3": ("tls1_3", ssl.TLSVersion.TLSv1_3),
    },
)
def test_min_version(flag: str, expected: ssl.TLSVersion) -> None:
    """The flag sets the lowest version."""
    tls = ServerTls(ONE.cert_pem, ONE.key_pem, min_version=flag)
    assert tls.context.minimum_version == expected


def test_unknown_version() -> None:
    """Another word is refused by the flag's name."""
    with pytest.raises(BadSetting, match="--min-tls-version: 'tls1_1'"):
        ServerTls(ONE.cert_pem, ONE.key_pem, min_version="tls1_1")


def old_ciphers(*names: str) -> list[str]:
    """Return the suites below TLS 1.3 of a listener that is given these names."""
    context = ServerTls(ONE.cert_pem, ONE.key_pem, ciphers=names).context
    return [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]


SUITES = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
}


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("auth", ["ECDSA", "RSA"])
def test_every_cipher_exists(auth: str, suite: str) -> None:
    """Each suite that we name is one that OpenSSL has, and then the only one below TLS 1.3."""
    name = f"TLS_ECDHE_{auth}_WITH_{suite}"
    assert old_ciphers(name, name) == [f"ECDHE-{auth}-{SUITES[suite]}"]


def test_ciphers() -> None:
    """The order given counts, unknown names fall away, and without a known one all are there."""
    given = ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    assert old_ciphers(given[0], "TLS_FOO", given[1]) == [
        "ECDHE-ECDSA-AES128-SHA",
        "ECDHE-RSA-AES256-GCM-SHA384",
    ]
    assert old_ciphers("TLS_FOO") == old_ciphers()


def test_without_memory_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without files in memory gets by with a private folder."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert served(ServerTls(ONE.cert_pem, ONE.key_pem), ONE)


# --- from files


@pytest.fixture
def files(tmp_path: Path) -> FileTls:
    """What serves a pair in files."""
    write(tmp_path, ONE)
    return FileTls(tmp_path / "tls.crt", tmp_path / "tls.key")


def write(folder: Path, certificates: CertificateSet) -> None:
    """Put a pair into a folder."""
    folder.joinpath("tls.crt").write_text(certificates.cert_pem)
    folder.joinpath("tls.key").write_text(certificates.key_pem)


def seen(files: FileTls) -> str:
    """Return the certificate that a client sees, whichever it trusts."""
    for trusted in (ONE, TWO):
        with suppress(ssl.SSLError):
            shown = shake_hands(files.context, trusted).getpeercert(binary_form=True) or b""
            return ssl.DER_cert_to_PEM_cert(shown)
    return ""


def test_files_are_read_again(tmp_path: Path, files: FileTls) -> None:
    """A pair that was replaced is served from the next look on."""
    assert seen(files) == ONE.cert_pem
    write(tmp_path, TWO)
    assert seen(files) == ONE.cert_pem
    files.tick(NOW)
    assert seen(files) == TWO.cert_pem


@cases(
    "file text",
    {
        "half of a pair": ("tls.crt", TWO.cert_pem),
        "empty": ("tls.key", ""),
        "gone": ("tls.key", None),
    },
)
def test_files_that_cannot_be_served(
    tmp_path: Path, files: FileTls, file: str, text: str | None
) -> None:
    """The pair before goes on until there is a whole one; at the start it is an error."""
    path = tmp_path / file
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises((BadObject, BadSetting)):
        files.tick(NOW)
    with pytest.raises(BadSetting, match=r"^--tls-(cert-file|private-key)"):
        FileTls(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert seen(files) == ONE.cert_pem
    write(tmp_path, TWO)
    files.tick(NOW)
    assert seen(files) == TWO.cert_pem
