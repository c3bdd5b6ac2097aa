"""The verbs that ask, and change nothing."""

from __future__ import annotations

from app.cli.showing import show
from app.cli.verbs import Arguments, Environment, settings_of
from app.settings.explain import ExplainSettings
from app.settings.recommendations import RecommendationsSettings


def recommendations(words: Arguments, environment: Environment) -> int:
    """List recommendations beside requests."""
    from app.wiring.clock import SystemClock  # the other verbs start faster without these
    from app.wiring.recommendations import recommendations as found

    settings = settings_of(RecommendationsSettings, "recommendations", words, environment)
    if settings is None:
        return 0
    return show(found(settings, SystemClock()), settings.showing.output, environment)


def explain(words: Arguments, environment: Environment) -> int:
    """Tell what becomes of pods."""
    from app.wiring.clock import SystemClock  # the other verbs start faster without these
    from app.wiring.explain import explained

    settings = settings_of(ExplainSettings, "explain", words, environment)
    if settings is None:
        return 0
    return show(explained(settings, SystemClock()), settings.showing.output, environment)
