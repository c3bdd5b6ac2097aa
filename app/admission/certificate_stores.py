"""Where certificates lie: in files that are given or made, or in one Secret of all replicas.

Strategy: each store gives the newest pair that can be served, whatever comes to lie there. In the
Secret the generation in use lies under upstream's key names, so that its pods could mount it; the
next one and the retiring CAs lie beside it under names of our own. Everything else in the Secret
stays as it is. A write carries the version that was read: of two writers one wins.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from app.admission.certificates import issue, judge, pair_trouble
from app.admission.core.rotation import CertificateSet, KeyRing, Material, StoredRing, pem_blocks
from app.kube.failures import cause_of
from app.model.errors import BadSetting, NotFound, Refused
from app.ports import SECRETS, Cluster, Json, Ref

log = logging.getLogger("admission.certificates")


class Newest:
    """Takes what a source holds; gives the last of it that could be served."""

    def __init__(self, source: str) -> None:
        self._source = source  # for the log
        self._material: Material | None = None
        self._refused: tuple[CertificateSet, str] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was taken yet."""
        return self._material is None

    def offer(self, certificates: CertificateSet, trouble: str = "") -> Material | None:
        """Take a pair if it is a new and whole one; return the newest that was taken."""
        kept = self._material.certificates if self._material else None
        if certificates != kept:
            trouble = trouble or pair_trouble(certificates.cert_pem, certificates.key_pem)
        if trouble:
            self._refuse(certificates, trouble)
            return self._material
        self._refused = None
        if certificates != kept:
            version = self._material.version + 1 if self._material else 1
            self._material = Material(version, certificates)
        return self._material

    def _refuse(self, certificates: CertificateSet, trouble: str) -> None:
        if self._refused == (certificates, trouble):
            return  # said once already
        self._refused = (certificates, trouble)
        log.warning(
            "certificate cannot be used, the previous one is kept",
            extra={
                "source": self._source,
                "reason": trouble,
                "keptVersion": self._material.version if self._material else 0,
            },
        )


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

    @classmethod
    def of_cert_manager(cls, folder: Path) -> CertificatePaths:
        """Return the paths in a folder that cert-manager fills."""
        return cls(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")

    def present(self) -> CertificatePaths:
        """Return these paths, or those of cert-manager's layout if only that is there."""
        other = CertificatePaths.of_cert_manager(self.cert.parent)
        if not self.cert.is_file() and other.cert.is_file():
            return other
        return self


class CertificateFiles:
    """A set in files that others write; not to be shared between threads."""

    look_seconds: Final = 1.0  # between two looks at most: what changes is soon to be published

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
    if ready_in(folder, names, now) is not None:
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
        raise BadSetting(
            f"{folder}: certificates cannot be written there: {cause_of(err)}"
        ) from err
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


def ready_in(folder: Path, names: tuple[str, ...], now: datetime) -> datetime | None:
    """Return until when the set in a folder is valid; None if it is due to be made."""
    certificates, trouble = _read(CertificatePaths.in_folder(folder))
    generation = judge(certificates, names)
    if trouble or generation.trouble or generation.missing_names:
        return None
    life = generation.not_after - generation.not_before
    is_fresh = generation.not_before <= now < generation.not_before + life * _USED_UP
    return generation.not_after if is_fresh else None


def _replace(path: Path, text: str, mode: int) -> None:
    """Write a file that is whole and private from its first moment on."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    beside.replace(path)


_Names = tuple[str, str, str]  # of CA, certificate and key
_CURRENT: _Names = ("caCert.pem", "serverCert.pem", "serverKey.pem")
_UPCOMING: _Names = ("nextCaCert.pem", "nextServerCert.pem", "nextServerKey.pem")
_RETIRING = "retiringCaCerts.pem"
# As upstream's script, its chart and cert-manager name them; the first that is there counts.
_LAYOUTS: tuple[_Names, ...] = (
    _CURRENT,
    ("ca", "cert", "key"),
    ("ca.crt", "tls.crt", "tls.key"),
)


class SecretStore:
    """Reads and writes the ring; `poll` is for one thread only."""

    look_seconds: Final = 15.0

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._newest = Newest(f"Secret {namespace}/{name}")

    def read(self) -> StoredRing:
        """Return the ring as it is now, empty when there is no Secret."""
        try:
            origin = self._cluster.get(Ref(SECRETS, self._namespace, self._name))
        except NotFound:
            return StoredRing(KeyRing())
        texts = _texts(origin)
        current = next((found for names in _LAYOUTS if (found := _set(texts, names))), None)
        retiring = pem_blocks(texts.get(_RETIRING, ""))
        return StoredRing(KeyRing(current, _set(texts, _UPCOMING), retiring), origin)

    def write(self, stored: StoredRing, ring: KeyRing) -> None:
        """Put a ring in the place of the one that was read.

        Raises:
            Conflict: the Secret changed since, or exists by now.
            Refused: there is none, and it is not ours to create.
        """
        changes = _changes(stored.ring, ring)
        if stored.origin is None:
            self._create(changes)
            return
        body = deepcopy(stored.origin)
        merged = {**(body.get("data") or {}), **changes}
        body["data"] = {key: text for key, text in merged.items() if text is not None}
        self._cluster.replace(Ref(SECRETS, self._namespace, self._name), body)

    def _create(self, changes: Mapping[str, str | None]) -> None:
        try:
            self._cluster.create(Ref(SECRETS, self._namespace), self._fresh(changes))
        except Refused as error:
            raise Refused(
                f"Secret {self._namespace}/{self._name} is missing, and a webhook may only fill "
                f"it: kubectl -n {self._namespace} create secret generic {self._name}",
                status=error.status,
                reason=error.reason,
            ) from error

    def poll(self) -> Material | None:
        """Return the newest generation in use that can be served; None before the first."""
        current = self.read().ring.current
        if current is None and self._newest.is_empty:
            return None  # nothing to complain of: the first one is about to be made
        return self._newest.offer(
            current or CertificateSet("", "", ""), "" if current else "the Secret holds none"
        )

    def _fresh(self, data: Mapping[str, str | None]) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "labels": {"app.kubernetes.io/managed-by": "plumbline"},
            },
            "type": "Opaque",
            "data": {key: text for key, text in data.items() if text is not None},
        }


def _texts(secret: Mapping[str, Any]) -> dict[str, str]:
    """Decode what can be decoded; a value that cannot is an empty text, hence no certificate."""
    texts = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            texts[key] = base64.b64decode(value, validate=True).decode("ascii", "replace")
        except (binascii.Error, TypeError, ValueError):
            texts[key] = ""
    return texts


def _set(texts: Mapping[str, str], names: _Names) -> CertificateSet | None:
    """Return the set under these names, also an incomplete one; None when nothing is there."""
    ca, cert, key = (texts.get(name, "") for name in names)
    return CertificateSet(ca, cert, key) if cert or key else None


def _changes(old: KeyRing, new: KeyRing) -> dict[str, str | None]:
    """Return the encoded values to be written; None takes a key out."""
    changes = _encoded(_CURRENT, new.current) if new.current != old.current else {}
    changes |= _encoded(_UPCOMING, new.upcoming)
    changes[_RETIRING] = _base64("".join(new.retiring)) if new.retiring else None
    return changes


def _encoded(names: _Names, certificates: CertificateSet | None) -> dict[str, str | None]:
    if certificates is None:
        return dict.fromkeys(names)
    parts = (certificates.ca_pem, certificates.cert_pem, certificates.key_pem)
    return {name: _base64(part) for name, part in zip(names, parts, strict=True)}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
