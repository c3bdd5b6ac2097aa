"""Serve a new certificate as soon as everybody who calls us trusts it.

Strategy: a source tells of a new set; it is served when the webhook configurations carry its
CA. If that does not come about, it is served all the same after a while: the API server may
have been told in another way, and an old certificate expires.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from app.model.certificates import CertificateSet, Material
from app.model.errors import ClusterError

log = logging.getLogger("admission.certificates")

_RECHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ReloadRules:
    """How often to look, and how long to wait for trust."""

    look_seconds: float = 5.0
    patience_seconds: float = 120.0


class Reloader:
    """Looks for new sets, and swaps."""

    def __init__(
        self,
        source: Callable[[], Material | None],
        serve: Callable[[CertificateSet], None],
        trusted: Callable[[CertificateSet], bool],
        rules: ReloadRules,
    ) -> None:
        self._source = source
        self._serve = serve
        self._trusted = trusted
        self._rules = rules
        self._found: tuple[int, datetime | None] = (0, None)  # version, and since when
        self.served: Material | None = None

    def tick(self, now: datetime) -> float:
        """Look once; return the seconds until the next look.

        Raises:
            PlumblineError: the source failed, or the set cannot be served; the old one is.
        """
        material = self._source()
        if material is None or material == self.served:
            return self._rules.look_seconds
        if self.served is not None and not self._may_swap(material, now):
            return _RECHECK_SECONDS
        self._serve(material.certificates)
        self.served = material
        log.info("certificate is served", extra={"version": material.version})
        return self._rules.look_seconds

    def _may_swap(self, material: Material, now: datetime) -> bool:
        version, since = self._found
        if version != material.version or since is None:
            log.info("New certificate found, reloading", extra={"version": material.version})
            self._found, since = (material.version, now), now
        try:
            if self._trusted(material.certificates):
                return True
            reason = "a webhook configuration lacks its CA"
        except ClusterError as err:
            reason = str(err)
        if (now - since).total_seconds() < self._rules.patience_seconds:
            return False
        log.warning("certificate is served although it is not trusted", extra={"reason": reason})
        return True
