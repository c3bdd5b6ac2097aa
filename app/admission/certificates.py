"""Make certificates, and read what others made.

Strategy: EC keys on P-256: smaller than RSA, handshakes several times cheaper for the server,
and every API server of the last ten years speaks them. The CA's key signs once and is dropped.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.admission.core.rotation import CertificateSet, Generation, fingerprints, pem_blocks

# Clocks of API servers may be behind ours.
_BACKDATED = timedelta(hours=1)
_SPKI = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
_Life = tuple[datetime, datetime]


class Authority:
    """Makes generations for fixed names, and judges whether one is good for them."""

    def __init__(self, service: str, namespace: str, url: str, days: int) -> None:
        self._names = serving_names(service, namespace, url)
        self._called = called_name(service, namespace, url)
        self._days = days

    def issue(self, now: datetime) -> CertificateSet:
        """Make a generation."""
        return issue(self._names, now, self._days)

    def judge(self, certificates: CertificateSet) -> Generation:
        """Say what a generation is good for."""
        return judge(certificates, (self._called,))


def called_name(service: str, namespace: str, url: str = "") -> str:
    """Return the one name that API servers look for in our certificate."""
    return (urlsplit(url).hostname or "") if url else f"{service}.{namespace}.svc"


def serving_names(service: str, namespace: str, url: str = "") -> tuple[str, ...]:
    """Return every name under which people and API servers may call."""
    names = (
        service,
        f"{service}.{namespace}",
        f"{service}.{namespace}.svc",
        f"{service}.{namespace}.svc.cluster.local",
        "localhost",
        "127.0.0.1",
        called_name(service, namespace, url),
    )
    return tuple(dict.fromkeys(names))


def issue(names: Sequence[str], now: datetime, days: int) -> CertificateSet:
    """Make a CA and a serving pair for these names; the CA's key is not kept."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    life = (now - _BACKDATED, now + timedelta(days=days))
    # A subject of its own, so that no verifier takes one generation's CA for another's.
    issuer = _name(f"plumbline webhook CA {x509.random_serial_number():040x}"[:60])
    ca = (
        _builder(issuer, issuer, ca_key, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    cert = (
        _builder(_name(names[0][:60]), issuer, key, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False
        )
        .add_extension(signer, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return CertificateSet(_pem(ca), _pem(cert), key_pem.decode())


@lru_cache(maxsize=8)  # reading an RSA key proves its primes, every time
def judge(certificates: CertificateSet, names: tuple[str, ...]) -> Generation:
    """Return the facts of a generation, in whatever state it is."""
    chain, authorities = _load(certificates.cert_pem), _load(certificates.ca_pem)
    path = _path(chain, authorities)
    trouble = pair_trouble(certificates.cert_pem, certificates.key_pem)
    if not trouble and not authorities:
        trouble = "there is no CA certificate"
    elif not trouble and not path:
        trouble = "the CA did not sign the serving certificate"
    return Generation(
        authorities=fingerprints(certificates.ca_pem),
        not_before=max((cert.not_valid_before_utc for cert in path), default=_NEVER),
        not_after=min((cert.not_valid_after_utc for cert in path), default=_NEVER),
        trouble=trouble,
        missing_names=tuple(name for name in names if not _covers(chain, name)),
    )


def pair_trouble(cert_pem: str, key_pem: str) -> str:
    """Say why a certificate and a key are no pair; empty when they are one."""
    chain = _load(cert_pem)
    if not chain:
        return "the serving certificate cannot be read"
    try:
        key = serialization.load_pem_private_key(key_pem.encode(), password=None)
        fits = key.public_key().public_bytes(*_SPKI) == chain[0].public_key().public_bytes(*_SPKI)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "the private key cannot be read"
    return "" if fits else "the private key does not fit the serving certificate"


_NEVER = datetime.min.replace(tzinfo=UTC)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life: _Life
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(life[0])
        .not_valid_after(life[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _load(text: str) -> list[x509.Certificate]:
    """Read the certificates of a text; one that cannot be read ends the list."""
    found = []
    for block in pem_blocks(text):
        try:
            found.append(x509.load_pem_x509_certificate(block.encode()))
        except ValueError:
            break
    return found


def _path(
    chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
) -> list[x509.Certificate]:
    """Return the way from the serving certificate to an authority; empty when there is none."""
    path = list(chain[:1])
    while path:
        anchor = _issuer(path[-1], authorities)
        if anchor is not None:
            return [*path, anchor]
        above = _issuer(path[-1], [cert for cert in chain if cert not in path])
        if above is None:
            return []
        path.append(above)
    return path


def _issuer(
    certificate: x509.Certificate, candidates: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    for candidate in candidates:
        try:
            certificate.verify_directly_issued_by(candidate)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            continue
        return candidate
    return None


def _covers(chain: Sequence[x509.Certificate], name: str) -> bool:
    """Say whether a client that calls this name accepts the serving certificate for it."""
    if not chain:
        return False
    try:
        extension = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return False
    wanted = _alternative(name)
    if isinstance(wanted, x509.IPAddress):
        return wanted in extension.value
    patterns = {pattern.lower() for pattern in extension.value.get_values_for_type(x509.DNSName)}
    return bool(patterns & {name.lower(), f"*.{name.lower().partition('.')[2]}"})
