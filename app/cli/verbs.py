"""What each verb does: read its flags, start its work."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version as installed_version
from typing import TypeVar

from app.cli.naming import program_name
from app.cli.showing import show
from app.model.errors import BadSetting
from app.output.report import Report, Text, line
from app.settings.admission import AdmissionSettings, AdmitSettings, CertsSettings
from app.settings.command_line import asks_for_help, parse
from app.settings.pages import PURPOSES, help_text, plain_help
from app.settings.plan import PlanSettings
from app.settings.recommender import RecommenderSettings
from app.settings.replay import ReplaySettings
from app.settings.run import RunSettings
from app.settings.updater import UpdaterSettings
from app.settings.version import VersionSettings
from app.wiring.numbers import shared_numbers

Arguments = Sequence[str]
Environment = Mapping[str, str]
S = TypeVar("S")


def settings_of(
    kind: type[S], command: str, words: Arguments, environment: Environment
) -> S | None:
    """Read the flags of a command; None when its help was asked for, and shown."""
    if asks_for_help(words):
        print(help_text(kind, command, PURPOSES[command][1], program_name()), end="")
        return None
    return parse(kind, words, environment)


def admit(words: Arguments, environment: Environment) -> int:
    """Answer reviews from files."""
    from app.wiring.admit import answers  # the other verbs start faster without it

    settings = settings_of(AdmitSettings, "admit", words, environment)
    if settings is not None:
        for line in answers(settings):
            sys.stdout.buffer.write(line)
    return 0


def recommender(words: Arguments, environment: Environment) -> int:
    """Recommend."""
    from app.wiring.recommender import serve  # the other verbs start faster without it

    settings = settings_of(RecommenderSettings, "recommender", words, environment)
    return 0 if settings is None else serve(settings)


def replay(words: Arguments, environment: Environment) -> int:
    """Play recorded usage through the recommender."""
    from app.wiring.replay import played  # the other verbs start faster without it

    settings = settings_of(ReplaySettings, "replay", words, environment)
    if settings is not None:
        for line in played(settings):
            sys.stdout.buffer.write(line)
    return 0


def admission(words: Arguments, environment: Environment) -> int:
    """Serve the webhook."""
    settings = settings_of(AdmissionSettings, "admission", words, environment)
    if settings is None:
        return 0
    with shared_numbers():
        from app.wiring.admission import serve  # only now: see shared_numbers
        from app.wiring.knowledge import check_files

        check_files(settings.offline.objects)
        return serve(settings)


def run(words: Arguments, environment: Environment) -> int:
    """Run everything in one process."""
    settings = settings_of(RunSettings, "run", words, environment)
    if settings is None:
        return 0
    from app.wiring.run import run as run_all  # the other verbs start faster without it

    with open(os.devnull, "w", encoding="ascii") as nowhere:
        return run_all(settings, sys.stdout or nowhere, environment)


def certs(words: Arguments, environment: Environment) -> int:
    """Make certificates for a webhook without a cluster."""
    from app.wiring.certs import made_paths  # the other verbs start faster without it

    settings = settings_of(CertsSettings, "certs", words, environment)
    if settings is None:
        return 0
    paths = list(map(str, made_paths(settings)))
    report = Report(Text(list(map(line, paths))), [{"path": path} for path in paths], paths)
    return show(report, settings.showing.output, environment)


def updater(words: Arguments, environment: Environment) -> int:
    """Update running pods."""
    from app.wiring.updater import serve  # the other verbs start faster without it

    settings = settings_of(UpdaterSettings, "updater", words, environment)
    return 0 if settings is None else serve(settings)


def plan(words: Arguments, environment: Environment) -> int:
    """Tell what the updater would do now."""
    from app.wiring.plan import planned  # the other verbs start faster without it

    settings = settings_of(PlanSettings, "plan", words, environment)
    if settings is None:
        return 0
    return show(planned(settings), settings.showing.output, environment)


def manifests(words: Arguments, _environment: Environment) -> int:
    """Print documents that are applied to a cluster."""
    from app.manifests.install import DOCUMENTS  # the other verbs start faster without it

    usage = f"usage: {program_name()} manifests {'|'.join(DOCUMENTS)}"
    if asks_for_help(words):
        print(plain_help("manifests", "|".join(DOCUMENTS), program_name()), end="")
        return 0
    if list(words) not in [[name] for name in DOCUMENTS]:
        raise BadSetting(usage)
    print(DOCUMENTS[words[0]](), end="")
    return 0


def version(words: Arguments, environment: Environment) -> int:
    """Print the version."""
    settings = settings_of(VersionSettings, "version", words, environment)
    if settings is None:
        return 0
    found = {"name": "plumbline", "version": installed_version("plumbline")}
    told = Text([line(" ".join(found.values()))])
    report = Report(told, [found], [found["name"]])
    return show(report, settings.showing.output, environment)
