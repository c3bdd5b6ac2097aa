"""What we make is accepted by TLS clients, and what others made is judged fairly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.verification import PolicyBuilder, Store

from app.admission.certificates import (
    Authority,
    called_name,
    issue,
    judge,
    pair_trouble,
    serving_names,
)
from app.admission.core.rotation import CertificateSet, fingerprint
from tests.cases import cases
from tests.kube.issuing import issued

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAMES = serving_names("vpa-webhook", "kube-system", "https://vpa.example.com:8443")
MADE = issue(NAMES, NOW, 90)
CALLED = "vpa-webhook.kube-system.svc"


def test_serving_names() -> None:
    """Every way to call the service is named, and the URL's host with them."""
    assert NAMES == (
        "vpa-webhook",
        "vpa-webhook.kube-system",
        CALLED,
        "vpa-webhook.kube-system.svc.cluster.local",
        "localhost",
        "127.0.0.1",
        "vpa.example.com",
    )
    assert serving_names("a", "b")[-1] == "127.0.0.1"


@cases(
    "url expected",
    {
        "service": ("", CALLED),
        "address": ("https://10.0.0.1:8443/base", "10.0.0.1"),
        "IPv6": ("https://[fd00::1]:8443", "fd00::1"),
    },
)
def test_called_name(url: str, expected: str) -> None:
    """An API server looks for the service's name, or for the URL's host."""
    assert called_name("vpa-webhook", "kube-system", url) == expected


@pytest.mark.parametrize("name", [CALLED, "localhost", "vpa.example.com"])
def test_issued_set_verifies(name: str) -> None:
    """A strict verifier accepts the pair by its CA for every name."""
    (ca,) = x509.load_pem_x509_certificates(MADE.ca_pem.encode())
    (cert,) = x509.load_pem_x509_certificates(MADE.cert_pem.encode())
    policy = PolicyBuilder().store(Store([ca])).time(NOW)
    assert policy.build_server_verifier(x509.DNSName(name)).verify(cert, []) == [cert, ca]


def test_issued_set() -> None:
    """A new generation is good from an hour ago on, for its days, on a P-256 key."""
    generation = judge(MADE, NAMES)
    assert generation.trouble == ""
    assert generation.missing_names == ()
    assert generation.not_before == NOW - timedelta(hours=1)
    assert generation.not_after == NOW + timedelta(days=90)
    assert generation.authorities == {fingerprint(MADE.ca_pem)}
    key = x509.load_pem_x509_certificate(MADE.cert_pem.encode()).public_key()
    assert getattr(key, "key_size", 0) == 256


def test_generations_differ() -> None:
    """Two CAs never share a subject, so that no verifier takes one for the other."""
    subjects = {
        x509.load_pem_x509_certificate(made.ca_pem.encode()).subject
        for made in (MADE, issue(NAMES, NOW, 90))
    }
    assert len(subjects) == 2


def test_old_set_is_good() -> None:
    """An RSA pair made by a script, with a CA of few extensions, needs no change."""
    ca = issued("vpa_webhook_ca", NOW)
    pair = issued(CALLED, NOW, by=ca, names=(CALLED,))
    generation = judge(CertificateSet(ca.pem, pair.pem, pair.key_pem()), (CALLED,))
    assert (generation.trouble, generation.missing_names) == ("", ())
    assert generation.not_after == NOW + timedelta(days=100_000)


def test_chain() -> None:
    """A chain ends at whichever CA is known, and lives as long as its shortest link."""
    root = issued("root", NOW)
    middle_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    middle = issued("middle", NOW, by=root, key=middle_key, days=10)
    leaf = issued("leaf", NOW, by=middle, names=("*.kube-system.svc",))
    whole = CertificateSet(root.pem, leaf.pem + middle.pem, leaf.key_pem())
    assert judge(whole, (CALLED,)).trouble == ""
    assert judge(whole, (CALLED,)).missing_names == ()
    assert judge(whole, (CALLED,)).not_after == NOW + timedelta(days=10)
    broken = CertificateSet(root.pem, leaf.pem, leaf.key_pem())
    assert judge(broken, (CALLED,)).trouble == "the CA did not sign the serving certificate"


OTHER = issue(NAMES, NOW, 90)


@cases(
    "cert key ca trouble",
    {
        "no cert": ("", MADE.key_pem, MADE.ca_pem, "certificate cannot be read"),
        "no key": (MADE.cert_pem, "", MADE.ca_pem, "key cannot be read"),
        "cut key": (MADE.cert_pem, MADE.key_pem[:60], MADE.ca_pem, "key cannot"),
        "other key": (MADE.cert_pem, OTHER.key_pem, MADE.ca_pem, "does not fit"),
        "no CA": (MADE.cert_pem, MADE.key_pem, "", "no CA"),
        "other CA": (MADE.cert_pem, MADE.key_pem, OTHER.ca_pem, "not sign"),
        "not X.509": (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            MADE.key_pem,
            MADE.ca_pem,
            "certificate cannot be read",
        ),
    },
)
def test_trouble(cert: str, key: str, ca: str, trouble: str) -> None:
    """What cannot be served says why, and is past its life."""
    generation = judge(CertificateSet(ca, cert, key), (CALLED,))
    assert trouble in generation.trouble
    assert generation.missing_names == ((CALLED,) if not cert or "AAAA" in cert else ())


def test_locked_key() -> None:
    """A key that asks for a password is no usable key."""
    pair = issued("a", NOW, names=("a",))
    assert pair_trouble(pair.pem, pair.key_pem(b"secret")) == "the private key cannot be read"


@cases(
    "names wanted missing",
    {
        "case does not matter": (("a.b.svc",), "A.B.svc", False),
        "wildcard": (("*.b.svc",), "a.b.svc", False),
        "a wildcard is one label": (("*.svc",), "a.b.svc", True),
        "no such address": (("a.b.svc",), "10.0.0.1", True),
        "common name only": ((), "a.b.svc", True),
    },
)
def test_missing_names(names: tuple[str, ...], wanted: str, missing: bool) -> None:
    """A name counts as covered when a TLS client takes it so."""
    pair = issued("a.b.svc", NOW, names=names)
    generation = judge(CertificateSet(pair.pem, pair.pem, pair.key_pem()), (wanted,))
    assert generation.missing_names == ((wanted,) if missing else ())


def test_authority() -> None:
    """An authority makes what it then finds good, and asks only for the name that is called."""
    authority = Authority("vpa-webhook", "kube-system", "", 90)
    assert authority.judge(authority.issue(NOW)).missing_names == ()
    assert authority.judge(issue((CALLED,), NOW, 1)).missing_names == ()
    assert authority.judge(issue(("localhost",), NOW, 1)).missing_names == (CALLED,)


def test_address_is_covered() -> None:
    """An IP address is an address in the certificate, not a name."""
    assert judge(MADE, ("127.0.0.1",)).missing_names == ()
