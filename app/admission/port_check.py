"""Asks the TLS port whether reviews are answered, in the way in which API servers come to it.

Strategy: readiness and liveness are two questions. We are ready when the last answer was a good
one. We have to be started again when for a long time nothing came of a connection at all, though
there is nothing left to wait for: that neither a full house (which closes connections) nor an API
server that is away (so that the port is not open yet) can bring about.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from datetime import datetime
from typing import Final

from app.kube.failures import cause_of
from app.ports import Clock

_CHECK_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 60.0  # without an answer, until we are started again
_QUESTION: Final = b"GET /mutate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class PortCheck:
    """Looks every few seconds; may be asked from any thread."""

    def __init__(
        self,
        address: tuple[str, int],
        waits: Callable[[], bool],
        clock: Clock,
        *,
        patience_seconds: float = 2.0,
    ) -> None:
        """`waits` tells that no answer can be expected yet, or any more."""
        self.port = address[1]
        self.problem = "the TLS port was not tried yet"  # empty if it answers
        self._address = address
        self._waits = waits
        self._clock = clock
        self._patience_seconds = patience_seconds  # for one answer
        self._alive_at = clock.monotonic()
        # Without any CA, which would take 20 ms to load: we ask ourselves, whatever the certificate
        # is just now; whom others trust is another question.
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def tick(self, _now: datetime) -> float:
        """Look once; return the seconds until the next look."""
        self._excuse()
        try:
            self.problem = self._asked()
        except (TimeoutError, ConnectionRefusedError) as error:
            self.problem = f"the TLS port does not answer: {cause_of(error)}"
        except OSError as error:  # it was there and said no
            self.problem = f"the TLS port does not answer: {cause_of(error)}"
            self._alive_at = self._clock.monotonic()
        else:
            self._alive_at = self._clock.monotonic()
        return _RETRY_SECONDS if self.problem else _CHECK_SECONDS

    def dead(self) -> str:
        """Say that nothing was answered for too long, so that only a new start helps."""
        self._excuse()
        seconds = self._clock.monotonic() - self._alive_at
        if seconds <= _LONGEST_SECONDS:
            return ""
        return f"no review can be answered since {seconds:.0f} s: {self.problem or 'not tried'}"

    def _excuse(self) -> None:
        if self._waits():
            self._alive_at = self._clock.monotonic()

    def _asked(self) -> str:
        """Return what is odd about the answer; every status is a good one."""
        with (
            socket.create_connection(self._address, self._patience_seconds) as plain,
            self._tls.wrap_socket(plain) as secure,
        ):
            secure.sendall(_QUESTION)
            answer = secure.recv(12)
        return "" if answer.startswith(b"HTTP/1.1") else "the TLS port talks nonsense"
