"""All errors that this project raises.

    PlumblineError
    +-- BadObject         an object's field does not hold what its kind asks for
    |   +-- BadQuantity   a text that is no quantity
    +-- BadSetting        a flag or gate that cannot be used
    +-- ClusterError      the API server said no, or nothing
        +-- NotFound      404
        +-- Conflict      409: the object changed or exists already
        +-- Gone          410: the version is too old to watch from
        +-- Refused       401, 403: not allowed; causes tell why
        +-- Invalid       400, 422: the object or patch cannot be accepted
        +-- TooMany       429: slow down, or a disruption budget holds
        +-- Unavailable   5xx, broken connections, deadlines: try again later
            +-- NotSent   it was not even sent: no connection, or no time left
                +-- TooLate   no time left: it would begin when it must be over

Strategy: adapters translate errors of libraries; pure code never raises for users' mistakes, it
returns errors and reasons as values. The text of an error is a sentence that names the object.
"""

from __future__ import annotations


class PlumblineError(Exception):
    """The base of all errors that this project raises."""


class BadObject(PlumblineError):
    """A field does not hold what its kind asks for."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class BadQuantity(BadObject):
    """A text is no quantity; `message` is what a Kubernetes API server says of it."""


class BadSetting(PlumblineError):
    """A flag, gate or environment variable cannot be used."""


class ClusterError(PlumblineError):
    """The API server refused or did not answer."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[tuple[str, str], ...] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = causes  # (reason, message) pairs of status.details.causes
        self.retry_after_seconds = retry_after_seconds


class NotFound(ClusterError):
    """The object, or its kind, does not exist."""


class Conflict(ClusterError):
    """The object changed meanwhile, exists already, or is another one of the same name."""


class Gone(ClusterError):
    """The version asked for is no longer kept; list again."""


class Refused(ClusterError):
    """We, or this change, are not allowed."""


class Invalid(ClusterError):
    """The request can never be accepted as it is."""


class TooMany(ClusterError):
    """The server asks to wait, or a disruption budget holds."""


class Unavailable(ClusterError):
    """Nothing was decided: connection broken, deadline over, or the server is in trouble."""


class NotSent(Unavailable):
    """The call was not sent: there was no connection, or its time was over before its turn."""


class TooLate(NotSent):
    """The call was not sent: by the time of its turn it must be over."""
