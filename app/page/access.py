"""Who may see the page, and which namespaces of it.

Strategy: at an address that this machine alone can reach everyone may, or who has the link that was
printed. At any other one viewers are those whose token the API server knows, and they see the
namespaces in which they may list VPAs and pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from secrets import compare_digest, token_hex, token_urlsafe
from threading import Lock
from typing import Final, Protocol

from app.kube.reach import is_loopback
from app.model.review import Identity
from app.page.seen_namespaces import SeenNamespaces
from app.page.sessions import PLAIN, SECURE, CookieRules, Sessions
from app.page.site import EVERYONE, PageProblem, Viewer
from app.runtime.access import Caller, Guard

_LINK_SECONDS: Final = 86_400.0  # for which the browser that opened the link is let in


@dataclass(frozen=True, slots=True)
class Visit:
    """What a request says of who sends it."""

    caller: Caller
    host: str  # of the page, as the browser calls it, without the port
    session: str  # of the cookie


class LoginNeeded(Exception):
    """It is not known who asks."""


class PageAccess(Protocol):
    """Who may see what."""

    @property
    def cookie(self) -> CookieRules:
        """How a browser keeps its session."""
        ...

    @property
    def takes_tokens(self) -> bool:
        """Whether a token of the cluster logs in."""
        ...

    @property
    def takes_link(self) -> bool:
        """Whether the link that was printed logs in."""
        ...

    def viewer(self, visit: Visit) -> Viewer:
        """Return who looks.

        Raises:
            LoginNeeded: that is not known.
            PageProblem, Refusal: it may not look.
        """
        ...

    def begin(self, visit: Visit, token: str) -> tuple[str, float]:
        """Return the session of who logs in with a token, and how long it lasts.

        Raises:
            LoginNeeded, Refusal: the token is not good.
        """
        ...

    def end(self, session: str) -> None:
        """End a session."""
        ...


class OpenAccess:
    """This machine alone can reach the page, so all of its users may see it."""

    cookie = PLAIN
    takes_tokens = takes_link = False

    def viewer(self, visit: Visit) -> Viewer:
        """Let everyone look, but no other site whose name was made to lead here."""
        _check_host(visit)
        return EVERYONE

    def begin(self, visit: Visit, token: str) -> tuple[str, float]:
        """Refuse: there is nothing to log in to."""
        del visit, token
        raise LoginNeeded

    def end(self, session: str) -> None:
        """Do nothing."""


class LinkAccess:
    """Who has the link that was printed may see the page, in the browser that opens it first."""

    takes_tokens, takes_link = False, True

    def __init__(self, monotonic: Callable[[], float], *, has_tls: bool = False) -> None:
        self.token = token_urlsafe()
        self._has_tls = has_tls  # and may have any name, which no other site can show as its own
        # Cookies know no ports: each page of this machine needs a name of its own.
        rules = SECURE if has_tls else PLAIN
        self.cookie = CookieRules(f"{rules.name}-{token_hex(4)}", is_secure=has_tls)
        self._lock = Lock()
        self._is_used = False
        self._sessions = Sessions[Viewer](monotonic, _LINK_SECONDS)

    def viewer(self, visit: Visit) -> Viewer:
        """Return who opened the link."""
        if not self._has_tls:
            _check_host(visit)
        found = self._sessions.of(visit.session)
        if found is None:
            raise LoginNeeded
        return found

    def begin(self, visit: Visit, token: str) -> tuple[str, float]:
        """Take the token, once."""
        if not self._has_tls:
            _check_host(visit)
        with self._lock:
            is_good = compare_digest(token.encode(), self.token.encode()) and not self._is_used
            if not is_good:
                raise LoginNeeded
            self._is_used = True
        return self._sessions.begin(EVERYONE), self._sessions.seconds

    def end(self, session: str) -> None:
        """End a session; the link is used up."""
        self._sessions.end(session)


def _check_host(visit: Visit) -> None:
    if not is_loopback(visit.host):
        told = f'this page is called "localhost"; "{visit.host[:_LONGEST_HOST]}" is another site'
        raise PageProblem(421, told)


_LONGEST_HOST: Final = 100


class TokenAccess:
    """The API server knows who looks, and what it may list."""

    takes_tokens, takes_link = True, False

    def __init__(
        self,
        guard: Guard,
        monotonic: Callable[[], float],
        namespaces: Callable[[], Collection[str]],
        *,
        has_tls: bool,
    ) -> None:
        """`namespaces` are those that pages may be about."""
        self.cookie = SECURE if has_tls else PLAIN
        self._guard = guard
        self._namespaces = namespaces
        self._seen = SeenNamespaces(guard, monotonic)
        self._sessions = Sessions[Identity](monotonic)

    def viewer(self, visit: Visit) -> Viewer:
        """Return who looks: by its own token, or by its session."""
        if visit.caller.authorization:
            identity = self._guard.identify(visit.caller)
        else:
            identity = self._sessions.of(visit.session)
        if identity is None:
            raise LoginNeeded
        return Viewer(self._seen.of(identity, self._namespaces()), identity.username)

    def begin(self, visit: Visit, token: str) -> tuple[str, float]:
        """Have a token judged, and forget it."""
        caller = Caller(f"Bearer {token.strip()}", visit.caller.is_private)
        identity = self._guard.identify(caller)
        if identity is None:
            raise LoginNeeded
        self._seen.forget(identity)
        return self._sessions.begin(identity), self._sessions.seconds

    def end(self, session: str) -> None:
        """End a session."""
        self._sessions.end(session)
