"""Sessions of browsers: a random id stands for who logged in, for a while.

Strategy: what a browser keeps is worth nothing elsewhere: it is not the token, nor made of it. A
session ends by itself however much it is used, because rights may have been taken away since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_urlsafe
from threading import Lock
from typing import Final, Generic, TypeVar

SECONDS: Final = 900.0
_MOST: Final = 1000  # the oldest end first when there are more
_MOST_EACH: Final = 10  # the same for those of one viewer, so that none ends those of others
_ID_BYTES: Final = 32

_Who = TypeVar("_Who")


@dataclass(frozen=True, slots=True)
class CookieRules:
    """How a browser is told to keep the id."""

    name: str
    is_secure: bool  # sent over TLS alone

    def text(self, session: str, seconds: float) -> str:
        """Return the header that sets the cookie."""
        words = [f"{self.name}={session}", "Path=/", "HttpOnly", "SameSite=Strict"]
        words += [f"Max-Age={round(seconds)}", *(["Secure"] if self.is_secure else [])]
        return "; ".join(words)

    @property
    def nothing(self) -> str:
        """The header that deletes it."""
        return self.text("", 0)


# A browser takes such a name only over TLS, from this very host, for all of its paths.
SECURE: Final = CookieRules("__Host-plumbline", is_secure=True)
PLAIN: Final = CookieRules("plumbline", is_secure=False)


class Sessions(Generic[_Who]):
    """Who logged in; any thread may ask."""

    def __init__(self, monotonic: Callable[[], float], seconds: float = SECONDS) -> None:
        self._monotonic = monotonic
        self.seconds = seconds
        self._lock = Lock()
        self._found: OrderedDict[str, tuple[float, _Who]] = OrderedDict()

    def begin(self, who: _Who) -> str:
        """Return the id of a new session."""
        session = token_urlsafe(_ID_BYTES)
        with self._lock:
            own = [known for known, (_, other) in self._found.items() if other == who]
            for known in own[: max(len(own) - _MOST_EACH + 1, 0)]:
                del self._found[known]
            self._found[session] = (self._monotonic() + self.seconds, who)
            while len(self._found) > _MOST:
                self._found.popitem(last=False)
        return session

    def of(self, session: str) -> _Who | None:
        """Return who logged in, None if the session is over or never was."""
        with self._lock:
            until, who = self._found.get(session, (0.0, None))
            if who is None or self._monotonic() >= until:
                self._found.pop(session, None)
                return None
            return who

    def end(self, session: str) -> None:
        """Forget a session."""
        with self._lock:
            self._found.pop(session, None)
