"""What each verb does: read its flags, start its work."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version as installed_version
from typing import TypeVar

from app.cli.naming import program_name
from app.cli.showing import show
from app.model.errors import BadSetting
from app.output.formats import Output
from app.output.report import Report, Text, line
from app.settings.admission import AdmissionSettings
from app.settings.command_line import asks_for_help, parse
from app.settings.commands import (
    AdmitSettings,
    CertsSettings,
    ManifestsSettings,
    PlanSettings,
    VersionSettings,
)
from app.settings.pages import PURPOSES, help_text
from app.settings.recommender import RecommenderSettings
from app.settings.replay import ReplaySettings
from app.settings.run import RunSettings
from app.settings.updater import UpdaterSettings
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
    from app.wiring.admit import (  # the other verbs start faster without it
        answer_lines,
        answer_report,
    )

    settings = settings_of(AdmitSettings, "admit", words, environment)
    if settings is None:
        return 0
    output = settings.answering.output
    if output is Output.JSON:
        return _streamed(answer_lines(settings))
    return show(answer_report(settings), output, environment)


def _streamed(lines: Iterable[bytes]) -> int:
    """Print lines as they come, for there may be many."""
    for each in lines:
        sys.stdout.buffer.write(each)
    return 0


def recommender(words: Arguments, environment: Environment) -> int:
    """Recommend."""
    from app.wiring.pod_preview import PodPreviewer  # the other verbs start faster without it
    from app.wiring.recommender import serve

    settings = settings_of(RecommenderSettings, "recommender", words, environment)
    return 0 if settings is None else serve(settings, PodPreviewer)


def replay(words: Arguments, environment: Environment) -> int:
    """Play recorded usage through the recommender."""
    from app.wiring.replay import played, summed_up  # the other verbs start faster without it

    settings = settings_of(ReplaySettings, "replay", words, environment)
    if settings is None:
        return 0
    if settings.showing.is_streamed:
        return _streamed(played(settings))
    return show(summed_up(settings), settings.showing.output, environment)


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

    # What libraries log before there is a screen would stand beside the sentence that ends it.
    logging.getLogger().addHandler(logging.NullHandler())
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


def manifests(words: Arguments, environment: Environment) -> int:
    """Print documents that are applied to a cluster."""
    from app.manifests import documents  # the other verbs start faster without it

    settings = settings_of(ManifestsSettings, "manifests", words, environment)
    if settings is None:
        print(f"\nDocuments: {', '.join(documents.NAMES)}")
        return 0
    if len(settings.names) != 1 or settings.names[0] not in documents.NAMES:
        raise BadSetting(f"usage: {program_name()} manifests {'|'.join(documents.NAMES)}")
    (name,) = settings.names
    if settings.printing.output is Output.YAML:
        print(documents.text(name), end="")
        return 0
    from app.wiring.manifests import report

    return show(report(documents.objects(name)), settings.printing.output, environment)


def version(words: Arguments, environment: Environment) -> int:
    """Print the version."""
    settings = settings_of(VersionSettings, "version", words, environment)
    if settings is None:
        return 0
    found = {"name": "plumbline", "version": installed_version("plumbline")}
    told = Text([line(" ".join(found.values()))])
    report = Report(told, [found], [found["name"]])
    return show(report, settings.showing.output, environment)
