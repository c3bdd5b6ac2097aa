"""Certificates in files: given ones, watched for change, and ones made for a folder.

Strategy: contents are compared, not events: a mounted Secret changes by swapping a link, and a
poll sees that on every system. A set counts only when two readings agree and the key fits, so
a swap in the middle of a reading is never served.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from app.admission.certificates import issue, judge
from app.admission.newest import Newest
from app.model.certificates import CertificateSet, KeyRing, Material, StoredRing
from app.model.errors import BadSetting

# How much of its life a made certificate may have behind it and still be used again.
_USED_UP = 2 / 3


@dataclass(frozen=True, slots=True)
class CertificatePaths:
    """Where the parts of a set lie."""

    cert: Path
    key: Path
    ca: Path

    @classmethod
    def in_folder(cls, folder: Path) -> CertificatePaths:
        """Return the paths under upstream's names."""
        return cls(folder / "serverCert.pem", folder / "serverKey.pem", folder / "caCert.pem")

    def present(self) -> CertificatePaths:
        """Return these paths, or those of cert-manager's layout if only that is there."""
        folder = self.cert.parent
        other = CertificatePaths(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
        if not self.cert.is_file() and other.cert.is_file():
            return other
        return self


class CertificateFiles:
    """A set in files that others write; not to be shared between threads."""

    def __init__(self, paths: CertificatePaths) -> None:
        self._paths = paths
        self._newest = Newest(str(paths.cert))
        self._ca_pem = ""

    def poll(self) -> Material | None:
        """Read the files and return the newest set that can be served; None before the first."""
        paths = self._paths.present()
        certificates, trouble = _read(paths)
        if (certificates, trouble) != _read(paths):
            trouble = "the files changed while they were read"
        # A CA file that vanishes says nothing about which CA is trusted.
        self._ca_pem = certificates.ca_pem or self._ca_pem
        kept = CertificateSet(self._ca_pem, certificates.cert_pem, certificates.key_pem)
        return self._newest.offer(kept, trouble)

    def read(self) -> StoredRing:
        """Return the set as a ring that holds nothing else."""
        material = self.poll()
        return StoredRing(KeyRing(material.certificates if material else None))

    def write(self, _stored: StoredRing, _ring: KeyRing) -> None:
        """Refuse: these files are written by others."""
        raise BadSetting(f"{self._paths.cert}: given certificates are never changed")


def made_in(folder: Path, names: tuple[str, ...], now: datetime, days: int) -> CertificatePaths:
    """Return the paths of a set for these names, made now unless a good one lies there.

    Raises:
        BadSetting: the folder cannot be written.
    """
    paths = CertificatePaths.in_folder(folder)
    if _still_good(paths, names, now):
        return paths
    made = issue(names, now, days)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text, mode in (
            (paths.key, made.key_pem, 0o600),
            (paths.cert, made.cert_pem, 0o644),
            (paths.ca, made.ca_pem, 0o644),
        ):
            _replace(path, text, mode)
    except OSError as err:
        raise BadSetting(f"{folder}: certificates cannot be written there: {err}") from err
    return paths


def _read(paths: CertificatePaths) -> tuple[CertificateSet, str]:
    texts, trouble = [], ""
    for path in (paths.ca, paths.cert, paths.key):
        try:
            texts.append(path.read_bytes().decode("ascii", "replace"))
        except OSError as err:
            texts.append("")
            if path != paths.ca:
                trouble = trouble or f"{path}: {err.strerror or err}"
    return CertificateSet(*texts), trouble


def _still_good(paths: CertificatePaths, names: tuple[str, ...], now: datetime) -> bool:
    certificates, trouble = _read(paths)
    generation = judge(certificates, names)
    if trouble or generation.trouble or generation.missing_names:
        return False
    life = generation.not_after - generation.not_before
    return generation.not_before <= now < generation.not_before + life * _USED_UP


def _replace(path: Path, text: str, mode: int) -> None:
    """Write a file that is whole and private from its first moment on."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    beside.replace(path)
