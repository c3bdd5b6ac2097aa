"""Label selectors: read, match, print, and tell whether two can meet in one pod.

Strategy: a selector is a sorted tuple of requirements that must all hold, so equal selectors are
equal values with one text. `=` and `==` are `In` of one value, `!=` is `NotIn` of one. Matching
is asked far more often than anything else, so plain equalities are laid out for it beforehand.
Two selectors are told apart key by key: they are disjoint if one key alone keeps every pod from
matching both. Keys and values follow the grammar of labels.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from typing import Final

from app.model.errors import BadObject
from app.model.fields import Object, as_object, items_at, labels_at, text_at, texts_at

_NAME: Final = re.compile(r"(?![-_.])[-A-Za-z0-9_.]{1,63}(?<![-_.])")
_DNS_LABEL: Final = re.compile(r"(?!-)[-a-z0-9]++(?<!-)")
_LONGEST_PREFIX: Final = 253

_NAME_RULE: Final = (
    "has 1 to 63 letters, digits, '-', '_' or '.' and begins and ends with a letter or digit"
)
_PREFIX_RULE: Final = (
    f"before the slash belongs a DNS subdomain of at most {_LONGEST_PREFIX} characters: "
    "lower-case letters, digits, '-' and '.'"
)


def key_flaws(key: str) -> list[str]:
    """Return what is wrong with a label's key, `prefix/name` or `name`."""
    prefix, slash, name = key.rpartition("/")
    flaws = [] if _is_prefix(prefix) or not slash else [_PREFIX_RULE]
    return flaws if _NAME.fullmatch(name) else [*flaws, f"a label's name {_NAME_RULE}"]


def value_flaws(value: str) -> list[str]:
    """Return what is wrong with a label's value."""
    if not value or _NAME.fullmatch(value):
        return []
    return [f"a label's value, unless empty, {_NAME_RULE}"]


def _is_prefix(text: str) -> bool:
    return len(text) <= _LONGEST_PREFIX and all(map(_DNS_LABEL.fullmatch, text.split(".")))


class Operator(StrEnum):
    """How a requirement relates the label at its key to its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_WITH_VALUES: Final = (Operator.IN, Operator.NOT_IN)
_TEXTS: Final = {  # of several values, of one
    Operator.IN: ("{} in ({})", "{}={}"),
    Operator.NOT_IN: ("{} notin ({})", "{}!={}"),
    Operator.EXISTS: ("{}", "{}"),
    Operator.DOES_NOT_EXIST: ("!{}", "!{}"),
}
_SIGNS: Final = {
    "=": Operator.IN,
    "==": Operator.IN,
    "in": Operator.IN,
    "!=": Operator.NOT_IN,
    "notin": Operator.NOT_IN,
    None: Operator.EXISTS,
}
_BLANKS: Final = " \t\r\n"

# One requirement of a selector in text form; possessive, so that it never goes back.
_WORD: Final = r"[^\s=!<>(),]++"
_PART: Final = re.compile(
    rf"""\s*+(?P<not>!)?+\s*+(?P<key>{_WORD})(?(not)|(?:
        \s*+(?P<sign>==?|!=)\s*+(?P<value>{_WORD})?+
      | \s++(?P<word>in|notin)\s*+\((?P<values>[^=!<>()]*+)\)
    )?)\s*+(?P<comma>,|\Z)""",
    re.VERBOSE,
)
_LONGEST_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must be."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it; an absent label is in no set, so `NotIn` holds."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case _:
                return self.key not in labels

    def __str__(self) -> str:
        several, one = _TEXTS[self.operator]
        text = one if len(self.values) == 1 else several
        return text.format(self.key, ",".join(sorted(self.values)))


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold; none at all match everything."""

    requirements: tuple[Requirement, ...] = ()
    never: bool = False  # matches nothing, as an absent selector does
    needed: frozenset[str] = frozenset()  # keys of labels that must be there, whatever is asked
    _equalities: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    _others: tuple[Requirement, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = sorted(
            set(self.requirements), key=lambda r: (r.key, r.operator, sorted(r.values))
        )
        equalities = tuple((r.key, *r.values) for r in ordered if _is_equality(r))
        object.__setattr__(self, "requirements", tuple(ordered))
        object.__setattr__(self, "_equalities", equalities)
        object.__setattr__(self, "_others", tuple(r for r in ordered if not _is_equality(r)))

    @staticmethod
    def of_labels(labels: Mapping[str, str]) -> Selector:
        """Return the selector that asks for each of these labels."""
        return Selector(tuple(_equal(key, value) for key, value in labels.items()))

    @staticmethod
    def read(json: object, path: str) -> Selector:
        """Read a LabelSelector; null matches nothing, an empty one everything.

        Raises:
            BadObject: it has the wrong shape, an unknown operator or values where none belong.
        """
        if json is None:
            return NOTHING
        selector = as_object(json, path)
        requirements = [
            _equal(key, value) for key, value in labels_at(selector, "matchLabels", path).items()
        ]
        for expression, at in items_at(selector, "matchExpressions", path):
            requirements.append(_read_expression(expression, at))
        return Selector(tuple(requirements))

    @staticmethod
    def parse(text: str) -> Selector:
        """Read a selector written as text, such as `a=b,c in (d,e),!f,g`.

        Raises:
            BadObject: the text is no selector.
        """
        requirements: list[Requirement] = []
        end = 0
        more = bool(text.strip(_BLANKS))
        while more:
            part = _PART.match(text, end)
            if part is None:
                raise BadObject("", f"{_shown(text)} is no label selector")
            requirements.append(_parsed(part))
            end = part.end()
            more = part["comma"] == ","
        return Selector(tuple(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        for key, value in self._equalities:
            if labels.get(key) != value:
                return False
        for requirement in self._others:
            if not requirement.matches(labels):
                return False
        return not self.never and (not self.needed or self.needed <= labels.keys())

    def needing(self, keys: Collection[str]) -> Selector:
        """Return the selector that takes nothing without those of some labels that it asks for."""
        needed = frozenset(one.key for one in self.requirements if one.key in keys)
        return self if needed == self.needed else replace(self, needed=needed)

    @property
    def is_everything(self) -> bool:
        """Whether nothing is asked for."""
        return not self.requirements and not self.never

    @property
    def is_contradictory(self) -> bool:
        """Whether no labels at all can match."""
        rules = _rules(self.requirements)
        return self.never or any(rule.is_contradictory for rule in rules.values())

    def asked_of(self, key: str) -> tuple[Requirement, ...]:
        """Return the requirements of one label."""
        start = bisect_left(self.requirements, key, key=_key)
        return self.requirements[start : bisect_right(self.requirements, key, start, key=_key)]

    def takes(self, key: str, value: str) -> bool:
        """Whether it lets a label have a value."""
        return all(one.matches({key: value}) for one in self.asked_of(key))

    def __str__(self) -> str:
        return "<nothing>" if self.never else ",".join(map(str, self.requirements))


_key: Final = attrgetter("key")

EVERYTHING: Final = Selector()
NOTHING: Final = Selector(never=True)


class Relation(StrEnum):
    """What two selectors can mean for one pod."""

    DISJOINT = "disjoint"  # no pod can match both
    CATCH_ALL = "catch-all"  # one of them matches everything
    DIFFERENT_KEYS = "different keys"  # they ask for nothing in common
    OVERLAPPING = "overlapping values"


def relation(a: Selector | None, b: Selector | None) -> Relation:
    """Tell whether a pod could match both; an absent selector matches everything."""
    if a is None or b is None or a.is_everything or b.is_everything:
        return Relation.CATCH_ALL
    if a.never or b.never:
        return Relation.DISJOINT
    # One may ask for thousands of things, and be compared with thousands of small ones.
    small, large = sorted((a, b), key=lambda selector: len(selector.requirements))
    closest = Relation.DIFFERENT_KEYS
    for key, rule in _rules(small.requirements).items():
        others = large.asked_of(key)
        if others:
            closest = Relation.OVERLAPPING
            if rule.excludes(_rules(others)[key]):
                return Relation.DISJOINT
    return closest


@dataclass(slots=True)
class _Rule:
    """Everything a selector asks of one label."""

    allowed: frozenset[str] | None = None  # None: any value
    denied: frozenset[str] = frozenset()
    is_required: bool = False
    is_forbidden: bool = False

    @property
    def is_contradictory(self) -> bool:
        return (self.is_required and self.is_forbidden) or self.allowed == frozenset()

    def excludes(self, other: _Rule) -> bool:
        mine, theirs = self.allowed, other.allowed
        return (
            (self.is_required and other.is_forbidden)
            or (self.is_forbidden and other.is_required)
            or (mine is not None and theirs is not None and not mine & theirs)
            or (mine is not None and mine <= other.denied)
            or (theirs is not None and theirs <= self.denied)
        )


def _rules(requirements: Iterable[Requirement]) -> dict[str, _Rule]:
    """Gather the requirements by key."""
    rules: dict[str, _Rule] = {}
    for requirement in requirements:
        rule = rules.setdefault(requirement.key, _Rule())
        match requirement.operator:
            case Operator.IN:
                values = requirement.values
                rule.allowed = values if rule.allowed is None else rule.allowed & values
                rule.is_required = True
            case Operator.NOT_IN:
                rule.denied |= requirement.values
            case Operator.EXISTS:
                rule.is_required = True
            case _:
                rule.is_forbidden = True
    for rule in rules.values():
        rule.allowed = None if rule.allowed is None else rule.allowed - rule.denied
    return rules


def _shown(text: str) -> str:
    return f'"{text}"' if len(text) <= _LONGEST_SHOWN else f'"{text[:_LONGEST_SHOWN]}..."'


def _is_equality(requirement: Requirement) -> bool:
    return requirement.operator is Operator.IN and len(requirement.values) == 1


def _equal(key: str, value: str) -> Requirement:
    return Requirement(key, Operator.IN, frozenset((value,)))


def _read_expression(expression: Object, path: str) -> Requirement:
    name = text_at(expression, "operator", path)
    values = texts_at(expression, "values", path) or ()
    flaw = _operator_flaw(name, values)
    if flaw:
        raise BadObject(f"{path}.{flaw[0]}", flaw[1])
    return Requirement(text_at(expression, "key", path), Operator(name), frozenset(values))


def _parsed(part: re.Match[str]) -> Requirement:
    """Make a requirement of a piece of text; no value is the empty value."""
    operator = Operator.DOES_NOT_EXIST if part["not"] else _SIGNS[part["sign"] or part["word"]]
    listed = part["values"] if part["word"] else part["value"] or ""
    values = frozenset(value.strip(_BLANKS) for value in listed.split(","))
    flaw = next(chain(key_flaws(part["key"]), *map(value_flaws, values)), None)
    if flaw:
        raise BadObject("", f"{_shown(part.string)} is no label selector: {flaw}")
    return Requirement(part["key"], operator, values if operator in _WITH_VALUES else frozenset())


def _operator_flaw(name: str, values: Collection[str]) -> tuple[str, str] | None:
    """Return the field and the body of the error if operator and values do not go together."""
    if name not in list(Operator):
        return "operator", f"Invalid value: {_shown(name)}: not one of {', '.join(Operator)}"
    if name in _WITH_VALUES and not values:
        return "values", f"Required value: {name} needs at least one"
    if name not in _WITH_VALUES and values:
        return "values", f"Forbidden: {name} takes none"
    return None


def syntax_problems(json: object, path: str) -> list[tuple[str, str]]:
    """Return every flaw of a LabelSelector as (path, body of a field error).

    A body begins with its kind: `Invalid value: `, `Required value: ` or `Forbidden: `.
    """
    problems: list[tuple[str, str]] = []
    try:
        problems.extend(_grammar_problems(json, path))
    except BadObject as error:
        problems.append((error.path, f"Invalid value: {error.message}"))
    return problems


def _grammar_problems(json: object, path: str) -> Iterator[tuple[str, str]]:
    selector = as_object(json, path)
    for key, value in labels_at(selector, "matchLabels", path).items():
        at = f"{path}.matchLabels"
        yield from _invalid(at, key, key_flaws(key))
        yield from _invalid(f"{at}[{key}]", value, value_flaws(value))
    for expression, at in items_at(selector, "matchExpressions", path):
        key, values = text_at(expression, "key", at), texts_at(expression, "values", at) or ()
        flaw = _operator_flaw(text_at(expression, "operator", at), values)
        if flaw:
            yield f"{at}.{flaw[0]}", flaw[1]
        yield from _invalid(f"{at}.key", key, key_flaws(key))
        for position, value in enumerate(values):
            yield from _invalid(f"{at}.values[{position}]", value, value_flaws(value))


def _invalid(path: str, value: str, flaws: list[str]) -> Iterator[tuple[str, str]]:
    return ((path, f"Invalid value: {_shown(value)}: {flaw}") for flaw in flaws)
