"""The verbs that ask, and change nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from app.cli.naming import program_name
from app.cli.showing import show
from app.cli.verbs import Arguments, Environment, settings_of
from app.model.errors import BadSetting
from app.settings.command_line import asks_for_help
from app.settings.completion import Shell, Verb, script
from app.settings.doctor import DoctorSettings
from app.settings.explain import ExplainSettings
from app.settings.pages import PURPOSES, plain_help
from app.settings.recommendations import RecommendationsSettings


def recommendations(words: Arguments, environment: Environment) -> int:
    """List recommendations beside requests."""
    settings = settings_of(RecommendationsSettings, "recommendations", words, environment)
    if settings is None:
        return 0
    from app.wiring.clock import SystemClock  # the other verbs start faster without these
    from app.wiring.recommendations import recommendations as found

    _hush()
    return show(found(settings, SystemClock()), settings.showing.output, environment)


def explain(words: Arguments, environment: Environment) -> int:
    """Tell what becomes of pods."""
    settings = settings_of(ExplainSettings, "explain", words, environment)
    if settings is None:
        return 0
    from app.wiring.clock import SystemClock  # the other verbs start faster without these
    from app.wiring.explain import explained

    _hush()
    return show(explained(settings, SystemClock()), settings.showing.output, environment)


def doctor(words: Arguments, environment: Environment) -> int:
    """Check an installation."""
    settings = settings_of(DoctorSettings, "doctor", words, environment)
    if settings is None:
        return 0
    from app.wiring.clock import SystemClock  # the other verbs start faster without these
    from app.wiring.doctor import examined

    _hush()
    return show(examined(settings, SystemClock()), settings.showing.output, environment)


def _hush() -> None:
    """Log nothing: whatever people should know is a note of the report."""
    logging.getLogger().addHandler(logging.NullHandler())


def completion(summaries: Mapping[str, str], words: Arguments) -> int:
    """Print a script that completes command lines in a shell."""
    shells = "|".join(Shell)
    if asks_for_help(words):
        print(plain_help("completion", shells, program_name()), end="")
        return 0
    if len(words) != 1 or words[0] not in tuple(Shell):
        raise BadSetting(f"usage: {program_name()} completion {shells}")
    from app.manifests.install import DOCUMENTS  # the other verbs start faster without it

    known: Mapping[str, Iterable[str]]
    known = {"manifests": DOCUMENTS, "completion": Shell, "explain": ("pod/", "vpa/")}
    verbs = tuple(
        Verb(
            name,
            summary,
            PURPOSES[name][0] if name in PURPOSES else None,
            tuple(known.get(name, ())),
        )
        for name, summary in summaries.items()
    )
    print(script(Shell(words[0]), verbs), end="")
    return 0
