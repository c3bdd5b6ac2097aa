"""The verbs that ask, and change nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from app.cli.naming import program_name
from app.cli.showing import show
from app.cli.verbs import Arguments, Environment, settings_of
from app.model.errors import BadSetting
from app.output.report import Report
from app.ports import Clock
from app.settings.commands import DoctorSettings, ExplainSettings, RecommendationsSettings
from app.settings.completion import CompletionSettings, Shell, Verb, script
from app.settings.pages import PURPOSES, summary
from app.settings.shared import OutputFormat


def recommendations(words: Arguments, environment: Environment) -> int:
    """List recommendations beside requests."""

    def ask(settings: RecommendationsSettings, clock: Clock) -> Report:
        from app.wiring.recommendations import recommendations as found

        return found(settings, clock)

    return _asked("recommendations", RecommendationsSettings, ask, words, environment)


def explain(words: Arguments, environment: Environment) -> int:
    """Tell what becomes of pods."""

    def ask(settings: ExplainSettings, clock: Clock) -> Report:
        from app.wiring.explain import explain_report

        return explain_report(settings, clock)

    return _asked("explain", ExplainSettings, ask, words, environment)


def doctor(words: Arguments, environment: Environment) -> int:
    """Check an installation."""

    def ask(settings: DoctorSettings, clock: Clock) -> Report:
        from app.wiring.doctor import examined

        return examined(settings, clock)

    return _asked("doctor", DoctorSettings, ask, words, environment)


class _Showing(Protocol):
    @property
    def showing(self) -> OutputFormat: ...


S = TypeVar("S", bound=_Showing)


def _asked(
    command: str,
    kind: type[S],
    ask: Callable[[S, Clock], Report],  # which imports what it needs, so that other verbs do not
    words: Arguments,
    environment: Environment,
) -> int:
    """Read flags, ask, and show the answer."""
    settings = settings_of(kind, command, words, environment)
    if settings is None:
        return 0
    from app.wiring.clock import SystemClock

    # What people should know is in the report, so nothing is logged.
    logging.getLogger().addHandler(logging.NullHandler())
    return show(ask(settings, SystemClock()), settings.showing.output, environment)


def completion(words: Arguments, environment: Environment) -> int:
    """Print a script that completes command lines in a shell."""
    settings = settings_of(CompletionSettings, "completion", words, environment)
    if settings is None:
        return 0
    if len(settings.shells) != 1 or settings.shells[0] not in tuple(Shell):
        raise BadSetting(f"usage: {program_name()} completion {'|'.join(Shell)}")
    from app.manifests import documents  # the other verbs start faster without it

    known: Mapping[str, Iterable[str]]
    known = {"manifests": documents.NAMES, "completion": Shell, "explain": ("pod/", "vpa/")}
    verbs = tuple(
        Verb(name, summary(name), kind, tuple(known.get(name, ())))
        for name, (kind, _) in PURPOSES.items()
    )
    print(script(Shell(settings.shells[0]), verbs), end="")
    return 0
