"""The ring of certificates in one Secret that all replicas share.

Strategy: the generation in use lies under upstream's key names, so that its pods could mount
it; the next one and the retiring CAs lie beside it under names of our own. Everything else in
the Secret stays as it is. A write carries the version that was read: of two writers one wins.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from app.admission.newest import Newest
from app.model.certificates import CertificateSet, KeyRing, Material, StoredRing, pem_blocks
from app.model.errors import NotFound
from app.ports import SECRETS, Cluster, Json, Ref

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
        """
        changes = _changes(stored.ring, ring)
        if stored.origin is None:
            self._cluster.create(Ref(SECRETS, self._namespace), self._fresh(changes))
            return
        body = deepcopy(stored.origin)
        merged = {**(body.get("data") or {}), **changes}
        body["data"] = {key: text for key, text in merged.items() if text is not None}
        self._cluster.replace(Ref(SECRETS, self._namespace, self._name), body)

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
