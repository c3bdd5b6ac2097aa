"""TLS for viewers, with a certificate of our own that nothing stores.

Strategy: who reaches the page by a forwarded port, or inside the cluster, wants nothing read on its
way. Each replica makes a pair at its start, and another one before that ends; browsers ask once
whether to trust it. For a certificate that browsers know, files are given.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from app.admission.certificates import issue
from app.runtime.tls import ServerTls

_DAYS: Final = 90
_RENEWED: Final = timedelta(days=60)
_LOOK_SECONDS: Final = 3600.0
_HERE: Final = "localhost"  # as a forwarded port is called


class OwnTls:
    """A context whose certificate is replaced before it ends."""

    def __init__(self, names: Sequence[str], now: datetime) -> None:
        self._names = (*names, _HERE)
        self._made_at = now
        made = issue(self._names, now, _DAYS)
        self._tls = ServerTls(made.cert_pem + made.ca_pem, made.key_pem)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the listener."""
        return self._tls.context

    def tick(self, now: datetime) -> float:
        """Make another pair when it is time; return the seconds until the next look."""
        if now - self._made_at >= _RENEWED:
            made = issue(self._names, now, _DAYS)
            self._tls.swap(made.cert_pem + made.ca_pem, made.key_pem)
            self._made_at = now
        return _LOOK_SECONDS
