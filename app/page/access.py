"""Who may see the page, and which namespaces of it.

Strategy: at an address that this machine alone can reach everyone may, or who has the link that was
printed. At any other one viewers are those whose token the API server knows, and they see the
namespaces in which they may list VPAs and pods. What the API server said of namespaces counts for a
minute, because one page asks about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from secrets import compare_digest, token_urlsafe
from threading import Lock
from typing import Final, Protocol

from app.kube.reach import is_loopback
from app.model.review import Identity
from app.page.sessions import PLAIN, SECURE, CookieRules, Sessions
from app.page.site import EVERYONE, PageProblem, Viewer
from app.ports import PODS, VPAS
from app.runtime.access import Caller, Guard

_BELIEVED_SECONDS: Final = 60.0
_ASKERS: Final = 8  # side by side
_MOST_VIEWERS: Final = 200  # whose namespaces are remembered
_FOREVER: Final = 400 * 86_400.0  # as long as browsers keep any cookie


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
    takes_tokens = False

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

    cookie = PLAIN
    takes_tokens = False

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.token = token_urlsafe()
        self._lock = Lock()
        self._is_used = False
        self._sessions = Sessions[Viewer](monotonic, _FOREVER)

    def viewer(self, visit: Visit) -> Viewer:
        """Return who opened the link."""
        _check_host(visit)
        found = self._sessions.of(visit.session)
        if found is None:
            raise LoginNeeded
        return found

    def begin(self, visit: Visit, token: str) -> tuple[str, float]:
        """Take the token, once."""
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

    takes_tokens = True

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
        self._monotonic = monotonic
        self._namespaces = namespaces
        self._sessions = Sessions[Identity](monotonic)
        self._lock = Lock()
        self._seen: dict[Hashable, tuple[float, dict[str, bool]]] = {}  # by identity

    def viewer(self, visit: Visit) -> Viewer:
        """Return who looks: by its own token, or by its session."""
        if visit.caller.authorization:
            identity = self._guard.identify(visit.caller)
        else:
            identity = self._sessions.of(visit.session)
        if identity is None:
            raise LoginNeeded
        allowed = self._allowed(identity)

        def may_see(namespace: str) -> bool:
            if allowed[""] or namespace in allowed:
                return allowed[""] or allowed[namespace]
            return self._may(identity, namespace)

        return Viewer(may_see, identity.username)

    def begin(self, visit: Visit, token: str) -> tuple[str, float]:
        """Have a token judged, and forget it."""
        caller = Caller(f"Bearer {token.strip()}", visit.caller.is_private)
        identity = self._guard.identify(caller)
        if identity is None:
            raise LoginNeeded
        return self._sessions.begin(identity), self._sessions.seconds

    def end(self, session: str) -> None:
        """End a session."""
        self._sessions.end(session)

    def _allowed(self, identity: Identity) -> dict[str, bool]:
        """Return which namespaces a user may see; empty stands for all of them."""
        extra = tuple(sorted((key, tuple(values)) for key, values in identity.extra.items()))
        key = (identity.username, identity.uid, identity.groups, extra)
        now = self._monotonic()
        with self._lock:
            until, known = self._seen.get(key, (0.0, {}))
        wanted = set(self._namespaces())
        if now < until and (known.get("") or wanted <= known.keys()):
            return known
        found = {"": self._may(identity, "")}
        if not found[""]:
            with ThreadPoolExecutor(_ASKERS) as pool:
                names = sorted(wanted)
                answers = pool.map(lambda name: self._may(identity, name), names)
                found.update(zip(names, answers, strict=True))
        with self._lock:
            self._seen.pop(key, None)
            self._seen[key] = (now + _BELIEVED_SECONDS, found)
            while len(self._seen) > _MOST_VIEWERS:
                del self._seen[next(iter(self._seen))]
        return found

    def _may(self, identity: Identity, namespace: str) -> bool:
        may = self._guard.may
        return may(identity, "list", namespace, VPAS) and may(identity, "list", namespace, PODS)
