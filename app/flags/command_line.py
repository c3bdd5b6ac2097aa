"""Reads a command line, and the environment, into settings.

Strategy: `--flag=value` and `--flag value`; a switch may stand alone and takes no second word.
One dash is as good as two, `_` as good as `-`, and the value of a flag of one letter may follow
at once (`-nshop`), as kubectl has it. The last of several values counts, all of them
where a flag repeats. What is unknown, removed or wrong is one sentence that says what would be
right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from app.flags.flags import Flag, RemovedFlag, Rest
from app.model.errors import BadSetting
from app.model.text import likeliest

S = TypeVar("S")

_ARGUMENT = re.compile(r"--?([A-Za-z][^=]*)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FlagGroup:
    """Flags that belong together: a field of the settings, or (no field) the settings' own."""

    field: str
    type: type
    title: str
    flags: Mapping[str, Flag]  # by field of the group


@dataclass(frozen=True, slots=True)
class Schema:
    """All that a command line may hold."""

    groups: tuple[FlagGroup, ...]
    removed: Mapping[str, RemovedFlag]  # by name
    rest: tuple[str, Rest] | None  # the field for what is no flag

    @property
    def flags(self) -> Iterator[Flag]:
        """All flags and variables."""
        return (flag for group in self.groups for flag in group.flags.values())


def schema(settings: type) -> Schema:
    """Return what the command line of some settings may hold."""
    groups = []
    removed: dict[str, RemovedFlag] = {}
    rest: tuple[str, Rest] | None = None
    hints = get_type_hints(settings)
    for name, metadata in _metadata(settings).items():
        group = hints[name]
        if isinstance(group, type) and is_dataclass(group):
            flags = {field: one["flag"] for field, one in _metadata(group).items()}
            title = (group.__doc__ or group.__name__).partition("\n")[0].rstrip(".")
            groups.append(FlagGroup(name, group, title, flags))
            removed |= {flag.name: flag for flag in getattr(group, "removed", ())}
        else:
            rest = name, metadata["rest"]
    return Schema(tuple(groups), removed, rest)


def _metadata(settings: type) -> dict[str, Mapping[str, Any]]:
    """Return what is known of each field of a dataclass."""
    assert is_dataclass(settings)
    return {field.name: field.metadata for field in fields(settings)}


def asks_for_help(arguments: Iterable[str]) -> bool:
    """Whether the flags are to be described instead of used."""
    return any(argument in {"-h", "-help", "--help"} for argument in arguments)


def parse(settings: type[S], arguments: Sequence[str], environment: Mapping[str, str]) -> S:
    """Read a command line.

    Raises:
        BadSetting: a flag is unknown or was removed, a value is wrong, or two of them exclude
            each other.
    """
    found = schema(settings)
    known = {name: flag for flag in found.flags for name in flag.names}
    given, rest = _split(arguments, known, found.removed)
    if rest and found.rest is None:
        raise BadSetting(
            f'unexpected word "{rest[0]}"; flags begin with --, take one value and may be repeated '
            "where they say so, and a switch is turned off with --switch=false"
        )
    values: dict[str, object] = {
        group.field: group.type(
            **{
                field: flag.value(given.get(flag.name, ()), environment.get(flag.environment, ""))
                for field, flag in group.flags.items()
            }
        )
        for group in found.groups
    }
    if found.rest is not None:
        values[found.rest[0]] = tuple(rest)
    return settings(**values)


def _split(
    arguments: Sequence[str], flags: Mapping[str, Flag], removed: Mapping[str, RemovedFlag]
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the texts given for each flag, and the words that belong to none."""
    given: dict[str, list[str]] = {}
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            rest.extend(waiting)
        elif argument == "-" or not argument.startswith("-"):
            rest.append(argument)
        else:
            name, text = _name_and_text(argument, flags)
            if name not in flags:
                raise BadSetting(
                    removed[name].sentence if name in removed else _unknown(argument, name, flags)
                )
            flag = flags[name]
            if text is None:
                text = "true" if flag.kind.is_switch else next(waiting, None)
            if text is None:
                raise BadSetting(f"{flag.shown} needs a value: {flag.kind.wanted}")
            given.setdefault(flag.name, []).append(text)
    return given, rest


def _unknown(argument: str, name: str, flags: Mapping[str, Flag]) -> str:
    guess = likeliest(name, flags)
    hint = f"; did you mean {flags[guess].shown}?" if guess else ""
    return f"unknown flag {argument.partition('=')[0]}{hint}"


def _name_and_text(argument: str, flags: Mapping[str, Flag]) -> tuple[str, str | None]:
    found = _ARGUMENT.fullmatch(argument)
    name, text = (found[1].replace("_", "-"), found[2]) if found else (argument, None)
    letter, attached = argument[1:2], argument[2:]
    flag = flags.get(letter)
    if name in flags or flag is None or flag.kind.is_switch:
        return name, text
    return (letter, attached) if flag.short or attached.isdigit() else (name, text)
