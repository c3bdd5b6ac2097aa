"""What a flag is, and how its text becomes a value.

Strategy: settings are frozen dataclasses whose fields are made by `flag`, so one line holds name,
type, default and meaning, and the type of the field is that of the flag's value. The parser, the
help and the flags page all walk over these lines. Defaults are written and read as the texts that
a user would type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from app.model.errors import BadObject, BadSetting
from app.model.gates import parse_gates
from app.model.quantity import Quantity
from app.model.selectors import Selector
from app.model.text import BOOLEANS
from app.model.times import PrometheusDuration, parse_duration

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
W = TypeVar("W", bound=StrEnum)
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class FlagKind(Generic[T_co]):
    """How the texts of a flag become one value; a repeated flag hands in several texts."""

    word: str  # stands for the value in the help; empty for a switch
    wanted: str  # what the flag takes, for the sentence about something else
    read: Callable[[Sequence[str]], T_co]  # raises ValueError or BadObject for a wrong text
    repeats: bool = False  # all texts count, not the last one alone

    @property
    def is_switch(self) -> bool:
        """Whether the flag may stand alone and then means true."""
        return not self.word


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of the command line; without a name it is an environment variable alone."""

    name: str
    kind: FlagKind[object]
    default: str
    meaning: str
    environment: str = ""  # the variable that counts when the flag is absent or empty
    short: str = ""  # one letter that stands for the name

    @property
    def shown(self) -> str:
        """How the flag is written."""
        if not self.name:
            return f"${self.environment}"
        return f"--{self.name}" if self.name[1:] else f"-{self.name}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """All ways to write it, the shortest first."""
        return (f"-{self.short}", self.shown) if self.short else (self.shown,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a command line may call it; none for a variable."""
        return tuple(name for name in (self.short, self.name) if name)

    def value(self, texts: Sequence[str], environment: str = "") -> object:
        """Read the texts of the command line, else the environment's, else the default.

        Raises:
            BadSetting: a text is not what the flag takes.
        """
        if self.environment and not any(texts):
            texts = [environment] if environment else ()
        texts = texts or (self.default,)
        try:
            return self.kind.read(texts)
        except BadSetting as error:
            raise BadSetting(f"{self.shown}: {error}") from None
        except (ValueError, BadObject):
            found = ",".join(texts) if self.kind.repeats else texts[-1]
            found = found if len(found) <= 80 else found[:80] + "..."
            raise BadSetting(f'{self.shown} takes {self.kind.wanted}, not "{found}"') from None


@dataclass(frozen=True, slots=True)
class RemovedFlag:
    """A flag that a former version had: `removed` of the group that it belonged to names it."""

    name: str
    of: str  # what it belonged to: the same flag may live on elsewhere
    since: str  # the first version without it
    instead: str  # what to do or to read now

    @property
    def sentence(self) -> str:
        """What is said of a command line that has it."""
        return f"--{self.name} was removed from {self.of} in {self.since}: {self.instead}"


@dataclass(frozen=True, slots=True)
class Rest:
    """What stands on the command line beside the flags."""

    word: str
    meaning: str


def flag(
    name: str,
    kind: FlagKind[T],
    default: str,
    meaning: str,
    environment: str = "",
    short: str = "",
    *,
    secret: bool = False,
) -> T:
    """Return the field of a setting that is read from a flag; what is secret is never printed."""
    found = Flag(name, kind, default, meaning, environment, short)
    made: T = field(repr=not secret, metadata={"flag": found})
    return made


def rest(word: str, meaning: str) -> tuple[str, ...]:
    """Return the field of settings for what is no flag."""
    made: tuple[str, ...] = field(metadata={"rest": Rest(word, meaning)})
    return made


class ListenAddress(NamedTuple):
    """Where to listen; without a host on all addresses."""

    host: str
    port: int


class WebhookLabels(NamedTuple):
    """Labels for the webhook configuration; none at all if one of them is wrong."""

    labels: tuple[tuple[str, str], ...]
    problem: str  # why there are none, empty if all is well


def _last(read: Callable[[str], T]) -> Callable[[Sequence[str]], T]:
    return lambda texts: read(texts[-1])


def optional(kind: FlagKind[T]) -> FlagKind[T | None]:
    """Return the kind of flag that may be empty, which is None."""
    read = kind.read
    return FlagKind(
        kind.word, f"{kind.wanted}, or nothing", lambda texts: read(texts) if texts[-1] else None
    )


def whole(least: float = -math.inf, most: float = math.inf) -> FlagKind[int]:
    """Return the kind of whole numbers in a range."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
            raise ValueError(text)
        return _within(int(text), least, most)

    return FlagKind("N", _range("a whole number", least, most), _last(read))


def number(least: float = -math.inf, most: float = math.inf) -> FlagKind[float]:
    """Return the kind of numbers in a range."""

    def read(text: str) -> float:
        found = float(text) if re.fullmatch(r"[-+.0-9eE]{1,40}", text, re.ASCII) else math.nan
        if not math.isfinite(found):
            raise ValueError(text)
        return _within(found, least, most)

    return FlagKind("X", _range("a number", least, most), _last(read))


def _within(found: N, least: float, most: float) -> N:
    if not least <= found <= most:
        raise ValueError(found)
    return found


def _range(what: str, least: float, most: float) -> str:
    if math.isfinite(most):
        return f"{what} from {least} to {most}"
    return f"{what} of at least {least}" if math.isfinite(least) else what


def one_of(*words: str) -> FlagKind[str]:
    """Return the kind of flag that knows these words alone."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    shown = [word for word in words if word]
    wanted = " or ".join((", ".join(shown[:-1]), shown[-1])) if shown[1:] else shown[0]
    return FlagKind("|".join(shown), wanted, _last(read))


def empty_means(text: str, kind: FlagKind[T]) -> FlagKind[T]:
    """Return the kind of flag that takes the empty text for another one."""
    read = kind.read
    return FlagKind(kind.word, kind.wanted, lambda texts: read([texts[-1] or text]))


def chosen(words: type[W]) -> FlagKind[W]:
    """Return the kind of flag that takes a member of an enumeration."""
    texts = one_of(*words)
    return FlagKind(texts.word, texts.wanted, lambda given: words(texts.read(given)))


def _switch(text: str) -> bool:
    if text not in BOOLEANS:
        raise ValueError(text)
    return BOOLEANS[text]


def _duration_above_zero(text: str) -> timedelta:
    found = parse_duration(text)
    if found <= timedelta(0):
        raise ValueError(text)
    return found


def _quantity(text: str) -> Quantity:
    found = Quantity.parse(text)
    if found.nano < 0:
        raise ValueError(text)
    return found


def _address(text: str) -> ListenAddress:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not re.fullmatch(r"\[[^\[\]]+\]", host)):
        raise ValueError(text)
    return ListenAddress(host.strip("[]"), PORT.read([port]))


def _split(separators: str) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Return what reads words with separators between them."""
    return lambda texts: tuple(filter(None, map(str.strip, re.split(separators, texts[-1]))))


def _webhook_labels(text: str) -> WebhookLabels:
    labels: dict[str, str] = {}
    text = text.strip('"')
    for entry in text.split(",") if text else ():
        key, colon, value = (part.strip() for part in entry.partition(":"))
        if not colon or not key:
            return WebhookLabels((), f'--webhook-labels: "{entry}" is not key:value')
        labels[key] = value
    return WebhookLabels(tuple(labels.items()), "")


TEXT: Final = FlagKind("TEXT", "a text", _last(str))
SWITCH: Final = FlagKind("", "true or false", _last(_switch))
WHOLE: Final = whole()
NUMBER: Final = number()
FRACTION: Final = number(0, 1)
PORT: Final = whole(0, 65535)
ADDRESS: Final = FlagKind("[HOST]:PORT", "[host]:port, such as :8944", _last(_address))
DURATION: Final = FlagKind("TIME", "a duration such as 90s or 1h30m", _last(parse_duration))
DURATION_ABOVE_ZERO: Final = FlagKind(
    "TIME", "a duration above zero, such as 90s or 1h30m", _last(_duration_above_zero)
)
PROMETHEUS_DURATION: Final = FlagKind(
    "TIME", "a duration above zero, such as 5m, 8d or 1w", _last(PrometheusDuration.parse)
)
SELECTOR: Final = FlagKind(
    "LABELS", "a label selector such as app=web,tier!=test", _last(Selector.parse)
)
QUANTITY: Final = FlagKind("AMOUNT", "a quantity such as 500m or 2Gi", _last(_quantity))
NAMES: Final = FlagKind("NAME,...", "names with commas between them", _split(","))
CIPHERS: Final = FlagKind("NAME,...", "names with commas or colons between them", _split("[,:]"))
WEBHOOK_LABELS: Final = FlagKind("KEY:VALUE,...", "labels as key:value", _last(_webhook_labels))
PATH: Final = FlagKind("PATH", "a path", _last(Path))
PATHS: Final = FlagKind(
    "PATH", "a path", lambda texts: tuple(Path(text) for text in texts if text), repeats=True
)
GATES: Final = FlagKind("GATE=true,...", "gates as name=true", parse_gates, repeats=True)
