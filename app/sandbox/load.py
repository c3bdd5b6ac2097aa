"""What the programs in the sandbox's pods use: curves over time, told by annotations.

    sandbox.plumbline/load: "cpu: daily 100m 900m, memory: constant 200Mi"
    sandbox.plumbline/load.app: "cpu: constant 50m; role=leader -> cpu: spiky 1 3 10m 30s"
    sandbox.plumbline/load: "elects: orders, cpu: constant 50m; leads -> cpu: constant 900m"

The first is for all containers of a pod, the second for the one called `app`. Clauses are parted
by commas, parts for pods of a certain label, or for the one that leads, by semicolons. The clauses
are

    cpu, memory:  constant AMOUNT
                  daily LOW HIGH               highest at 14:00 UTC, lowest at 2:00
                  spiky LOW HIGH EVERY FOR     e.g. every 10m for 30s, each pod at its own time
                  steps EVERY AMOUNT...        each for so long, again and again; up to 12
                  leaking FROM PER_HOUR        starts over with the container
    startup:      CPU WORK                     that many cores until so many core-seconds are done
    exit:         AFTER [CODE]                 the program ends by itself
    elects:       LEASE                        pods elect a leader by this Lease of their namespace
    noise:        SHARE                        of each value, up and down; 0.05 unless told
    shared:       RESOURCE                     of that the curve is for all ready pods of the
                                               workload together, each with an equal part

Strategy: a curve is a pure function of the moment, and noise a hash of who asks when, so that
nothing depends on how often or in which order anybody looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from app.model.errors import BadObject
from app.model.quantity import Quantity
from app.model.times import parse_duration
from app.ports import Json
from app.sandbox.objects import labels_of
from app.sandbox.resources import SIZED, amounts

ANNOTATION: Final = "sandbox.plumbline/load"
NOISE_SECONDS: Final = 15  # for so long the noise stays the same
_MOST_STEPS: Final = 12
_LEADS: Final = ("leads", "")  # a condition that is no label

_DAY_SECONDS: Final = 86_400.0
_PEAK_SECONDS: Final = 14 * 3600.0  # of the day
_DEFAULT_SHARES: Final = {"cpu": 0.5, "memory": 0.6}  # of the request
_DEFAULT_AMOUNTS: Final = {"cpu": 0.005, "memory": 20 * 2.0**20}  # without a request


class Moment(NamedTuple):
    """When, and for whom, a value is asked for."""

    epoch_seconds: float
    age_seconds: float  # since the container started
    who: int  # what tells one container of one pod from all others
    part: float = 1.0  # of what all pods of the workload do together


Curve = Callable[[Moment], float]


class Demand(NamedTuple):
    """What a program would use if it could."""

    cpu_cores: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Startup:
    """The work that a program does before it is of use."""

    cpu_cores: float
    work_core_seconds: float

    def seconds(self, limit_cores: float) -> float:
        """Return how long it takes if there is so much cpu."""
        return self.work_core_seconds / max(min(self.cpu_cores, limit_cores), 0.001)


@dataclass(frozen=True, slots=True)
class Exit:
    """A program that ends by itself."""

    after_seconds: float
    code: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """What one container uses."""

    cpu: Curve
    memory: Curve
    startup: Startup | None = None
    exit: Exit | None = None
    noise: float = 0.05
    shared: str = ""  # the resource whose curve is that of all pods together
    elects: str = ""  # the Lease by which a leader is elected

    def at(self, moment: Moment, *, starting: bool) -> Demand:
        """Return what it wants to use."""
        cpu, memory = self.cpu(moment), self.memory(moment)
        if self.shared == "cpu":
            cpu *= moment.part
        elif self.shared == "memory":
            memory *= moment.part
        if self.startup and starting:
            cpu = self.startup.cpu_cores
        if self.noise:
            bucket = int(moment.epoch_seconds) // NOISE_SECONDS * 2
            cpu *= 1 + self.noise * (2 * chance(moment.who, bucket) - 1)
            memory *= 1 + self.noise * (2 * chance(moment.who, bucket + 1) - 1)
        return Demand(max(cpu, 0.0), max(memory, 0.0))


def chance(one: int, other: int = 0) -> float:
    """Return a number from 0 to 1 that looks random and is always the same for two others."""
    number = (one ^ other * 0x9E3779B1) & 0xFFFFFFFF
    number = (number ^ (number >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    number = (number ^ (number >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    return (number ^ (number >> 16)) / 2**32


def constant(amount: float) -> Curve:
    """Always the same."""
    return lambda _moment: amount


def daily(low: float, high: float) -> Curve:
    """Up and down once a day."""

    def value(moment: Moment) -> float:
        turn = (moment.epoch_seconds - _PEAK_SECONDS) / _DAY_SECONDS * 2 * math.pi
        return low + (high - low) * (1 + math.cos(turn)) / 2

    return value


def spiky(low: float, high: float, every_seconds: float, for_seconds: float) -> Curve:
    """Low, but for a while every so often."""

    def value(moment: Moment) -> float:
        begun = chance(moment.who) * every_seconds
        in_spike = (moment.epoch_seconds - begun) % every_seconds < for_seconds
        return high if in_spike else low

    return value


def steps(every_seconds: float, first: float, *more: float) -> Curve:
    """One amount after the other, then from the first again, counted from the epoch."""
    amounts = first, *more
    return lambda moment: amounts[int(moment.epoch_seconds // every_seconds) % len(amounts)]


def leaking(begin: float, per_hour: float) -> Curve:
    """More and more since the start."""
    return lambda moment: begin + per_hour * moment.age_seconds / 3600


def load_of(pod: Json, container: Json, *, leads: bool = False) -> Load:
    """Return what a container of a pod uses, and whether it does so as the one that leads.

    Raises:
        BadObject: an annotation of the pod cannot be read.
    """
    usual = Load(constant(_default(container, "cpu")), constant(_default(container, "memory")))
    annotations = pod["metadata"].get("annotations") or {}
    met = {None, *labels_of(pod).items(), *([_LEADS] if leads else [])}
    for key in (ANNOTATION, f"{ANNOTATION}.{container['name']}"):
        for condition, clauses in _read(str(annotations.get(key) or "")):
            if condition in met:
                usual = replace(usual, **clauses)
    return usual


def _default(container: Json, resource: str) -> float:
    request = amounts(container, "requests").get(resource)
    if request is None:
        return _DEFAULT_AMOUNTS[resource]
    return request.nano / 1e9 * _DEFAULT_SHARES[resource]


@lru_cache(4096)
def _read(text: str) -> tuple[tuple[tuple[str, str] | None, dict[str, Any]], ...]:
    """Return the clauses of each section, with the label or role that it is for."""
    found = []
    for section in filter(str.strip, text.split(";")):
        label, arrow, rest = section.partition("->")
        condition = None
        if arrow:
            key, equals, value = label.strip().partition("=")
            condition = (key.strip(), value.strip())
            if not equals and condition != _LEADS:
                raise BadObject(ANNOTATION, f"{label.strip()!r} is no label=value, and not leads")
        clauses = (rest if arrow else label).split(",")
        found.append((condition, dict(_clause(clause) for clause in clauses)))
    return tuple(found)


def _clause(text: str) -> tuple[str, object]:
    name, _, rest = text.partition(":")
    name, words = name.strip(), rest.split()
    try:
        if name in ("cpu", "memory"):
            name_of_curve, *words = words
            return name, _made(_CURVES[name_of_curve], words)
        return name, _made(_OTHERS[name], words)
    except (KeyError, ValueError, TypeError, BadObject):
        raise BadObject(ANNOTATION, f"{text.strip()!r} is no clause of a load") from None


def _made(row: _Row, words: Sequence[str]) -> object:
    make, *readers = row
    if len(words) > len(readers):
        raise ValueError(words)
    return make(*(read(word) for read, word in zip(readers, words, strict=False)))


def _same(value: object) -> object:
    return value


def _resource(text: str) -> str:
    if text not in SIZED:
        raise ValueError(text)
    return text


def _amount(text: str) -> float:
    return Quantity.parse(text).nano / 1e9


def _seconds(text: str) -> float:
    return parse_duration(text).total_seconds()


# What makes a value, and how each of its words is read.
_Row = tuple[Callable[..., object], ...]
_CURVES: Final[Mapping[str, _Row]] = {
    "constant": (constant, _amount),
    "daily": (daily, _amount, _amount),
    "spiky": (spiky, _amount, _amount, _seconds, _seconds),
    "steps": (steps, _seconds, *[_amount] * _MOST_STEPS),
    "leaking": (leaking, _amount, _amount),
}
_OTHERS: Final[Mapping[str, _Row]] = {
    "startup": (Startup, _amount, _amount),
    "exit": (Exit, _seconds, int),
    "elects": (_same, str),
    "noise": (_same, float),
    "shared": (_same, _resource),
}
