"""Keep the newest usable pair of a source that may offer anything at any time."""

from __future__ import annotations

import logging

from app.admission.certificates import pair_trouble
from app.model.certificates import CertificateSet, Material

log = logging.getLogger("admission.certificates")


class Newest:
    """Takes what a source holds; gives the last of it that could be served."""

    def __init__(self, source: str) -> None:
        self._source = source  # for the log
        self._material: Material | None = None
        self._refused: tuple[CertificateSet | None, str] = (None, "")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was taken yet."""
        return self._material is None

    def offer(self, certificates: CertificateSet, trouble: str = "") -> Material | None:
        """Take a pair if it is a new and whole one; return the newest that was taken."""
        kept = self._material.certificates if self._material else None
        if certificates == kept and not trouble:
            self._refused = (None, "")
            return self._material
        trouble = trouble or pair_trouble(certificates.cert_pem, certificates.key_pem)
        if trouble:
            self._refuse(certificates, trouble)
            return self._material
        version = self._material.version + 1 if self._material else 1
        self._material = Material(version, certificates)
        self._refused = (None, "")
        return self._material

    def _refuse(self, certificates: CertificateSet, trouble: str) -> None:
        if self._refused == (certificates, trouble):
            return  # said once already
        self._refused = (certificates, trouble)
        log.warning(
            "certificate cannot be used, the former one is kept",
            extra={
                "source": self._source,
                "reason": trouble,
                "keptVersion": self._material.version if self._material else 0,
            },
        )
