"""Certificates as other tools make them: RSA, old habits, chains."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

# One key for all: making RSA keys is slow, and nothing here depends on them.
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, ready to sign others."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey

    @property
    def pem(self) -> str:
        """The certificate as text."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: bytes = b"") -> str:
        """The key in the older of the two PEM forms."""
        locked = serialization.BestAvailableEncryption(password) if password else None
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            locked or serialization.NoEncryption(),
        ).decode()


def issued(
    name: str,
    now: datetime,
    *,
    by: Issued | None = None,
    key: rsa.RSAPrivateKey = RSA_KEY,
    names: tuple[str, ...] = (),
    days: int = 100_000,
) -> Issued:
    """Issue a certificate as scripts around openssl do: few extensions, a very long life."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False
        )
    return Issued(builder.sign(by.key if by else key, hashes.SHA256()), key)
