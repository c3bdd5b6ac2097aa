"""What each verb does: read its flags, start its work, and show what came of it.

Strategy: each imports its work only when it is called, so that the other verbs start faster.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import wraps
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final, TextIO, TypeVar

from app.admission.flags import AdmissionSettings
from app.cli.completion import CompletionSettings, Shell, Verb, script
from app.cli.pages import PURPOSES, help_text, summary
from app.commands.flags import (
    AdmitSettings,
    CertsSettings,
    DoctorSettings,
    ExplainSettings,
    ManifestsSettings,
    PlanSettings,
    RecommendationsSettings,
    VersionSettings,
)
from app.commands.replay_flags import ReplaySettings
from app.flags.command_line import asks_for_help, parse
from app.model.errors import BadSetting
from app.output import Output, Report, Text, line, shown
from app.ports import Clock
from app.recommender.flags import RecommenderSettings
from app.run.flags import RunSettings
from app.runtime.metrics_folder import metrics_folder
from app.updater.flags import UpdaterSettings

PLUGIN: Final = "kubectl-plumbline"  # kubectl finds plugins by such names
PROBLEMS_FOUND: Final = 1

Arguments = Sequence[str]
Environment = Mapping[str, str]
S = TypeVar("S")
Q = TypeVar(
    "Q",
    RecommendationsSettings,
    ExplainSettings,
    PlanSettings,
    DoctorSettings,
    CertsSettings,
    VersionSettings,
)


def program_name() -> str:
    """Return what people type to start this program."""
    called = Path(sys.argv[0]).name.removesuffix(".exe")
    return "kubectl plumbline" if called == PLUGIN else "plumbline"


Work = Callable[[Arguments, Environment], int]  # returns an exit code
VERBS: Final[dict[str, Work]] = {}


def _verb(
    kind: type[S], more_help: Callable[[], str] = str
) -> Callable[[Callable[[S, Environment], int]], Work]:
    """Make a function the work of the command of its name, called once its flags are read."""

    def register(work: Callable[[S, Environment], int]) -> Work:
        command = work.__name__

        def verb(words: Arguments, environment: Environment) -> int:
            if asks_for_help(words):
                page = help_text(kind, command, PURPOSES[command][1], program_name())
                print(page + more_help(), end="")
                return 0
            return work(parse(kind, words, environment), environment)

        VERBS[command] = verb
        return verb

    return register


def _question(kind: type[Q]) -> Callable[[Callable[[Q, Clock], Report]], Work]:
    """Make a function answer the command of its name with a report."""

    def register(ask: Callable[[Q, Clock], Report]) -> Work:
        @wraps(ask)
        def work(settings: Q, environment: Environment) -> int:
            from app.runtime.clock import SystemClock

            # What people should know is in the report; commands that log as well begin to.
            logging.getLogger().addHandler(logging.NullHandler())
            return show(ask(settings, SystemClock()), settings.showing.output, environment)

        return _verb(kind)(work)

    return register


# --- the processes


@_verb(RunSettings)
def run(settings: RunSettings, environment: Environment) -> int:
    """Run everything in one process."""
    from app.run.run import run as run_all

    # What libraries log before there is a screen would stand beside the sentence that ends it.
    logging.getLogger().addHandler(logging.NullHandler())
    with open(os.devnull, "w", encoding="ascii") as nowhere:
        return run_all(settings, sys.stdout or nowhere, environment)


@_verb(AdmissionSettings)
def admission(settings: AdmissionSettings, _environment: Environment) -> int:
    """Serve the webhook."""
    with metrics_folder() if settings.serving.processes > 1 else nullcontext():
        from app.admission.knowledge import check_files
        from app.admission.process import serve  # only now: see metrics_folder

        check_files(settings.offline.objects)
        return serve(settings)


@_verb(RecommenderSettings)
def recommender(settings: RecommenderSettings, _environment: Environment) -> int:
    """Recommend."""
    from app.diagnosis.pod_preview import pod_previewer
    from app.recommender.process import serve

    return serve(settings, pod_previewer(settings))


@_verb(UpdaterSettings)
def updater(settings: UpdaterSettings, _environment: Environment) -> int:
    """Update running pods."""
    from app.updater.process import serve

    return serve(settings)


# --- what is asked


@_question(RecommendationsSettings)
def recommendations(settings: RecommendationsSettings, clock: Clock) -> Report:
    """List recommendations beside requests."""
    from app.commands.recommendations import recommendations_report

    return recommendations_report(settings, clock)


@_question(ExplainSettings)
def explain(settings: ExplainSettings, clock: Clock) -> Report:
    """Tell what becomes of pods."""
    from app.commands.explain_report import explain_report

    return explain_report(settings, clock)


@_question(PlanSettings)
def plan(settings: PlanSettings, clock: Clock) -> Report:
    """Tell what the updater would do now."""
    from app.commands.plan import plan_report
    from app.runtime.logs import start_logging

    start_logging(settings.logging.verbosity)
    return plan_report(settings, clock)


@_question(DoctorSettings)
def doctor(settings: DoctorSettings, clock: Clock) -> Report:
    """Check an installation."""
    from app.commands.doctor import doctor_report

    return doctor_report(settings, clock)


@_verb(AdmitSettings)
def admit(settings: AdmitSettings, environment: Environment) -> int:
    """Answer reviews from files."""
    from app.commands.admit import answer_lines, answer_report

    output = settings.answering.output
    if output is Output.JSON:
        return _print_lines(answer_lines(settings))
    return show(answer_report(settings), output, environment)


@_verb(ReplaySettings)
def replay(settings: ReplaySettings, environment: Environment) -> int:
    """Play recorded usage through the recommender."""
    from app.commands.replay import played, summed_up

    if settings.showing.is_streamed:
        return _print_lines(played(settings))
    return show(summed_up(settings), settings.showing.output, environment)


@_question(CertsSettings)
def certs(settings: CertsSettings, clock: Clock) -> Report:
    """Make certificates for a webhook without a cluster."""
    from app.commands.certs import certs_report

    return certs_report(settings, clock)


# --- what is printed


def _document_names() -> str:
    from app.kube.manifests import documents

    return f"\nDocuments: {', '.join(documents.PRINTED)}\n"


@_verb(ManifestsSettings, _document_names)
def manifests(settings: ManifestsSettings, environment: Environment) -> int:
    """Print documents that are applied to a cluster."""
    from app.kube.manifests import documents

    if len(settings.names) != 1 or settings.names[0] not in documents.PRINTED:
        raise BadSetting(f"usage: {program_name()} manifests {'|'.join(documents.PRINTED)}")
    (name,) = settings.names
    output = settings.printing.output
    if name == documents.WEBHOOKS:
        from app.commands.manifests import webhooks_report

        return show(webhooks_report(settings), output, environment)
    if settings.about_webhooks != parse(ManifestsSettings, (), environment).about_webhooks:
        raise BadSetting(f"only the document {documents.WEBHOOKS} is made by such flags")
    if output is Output.YAML:
        print(documents.text(name), end="")
        return 0
    from app.commands.manifests import manifests_report

    return show(manifests_report(documents.objects(name)), output, environment)


@_verb(CompletionSettings)
def completion(settings: CompletionSettings, _environment: Environment) -> int:
    """Print a script that completes command lines in a shell."""
    if len(settings.shells) != 1 or settings.shells[0] not in tuple(Shell):
        raise BadSetting(f"usage: {program_name()} completion {'|'.join(Shell)}")
    from app.kube.manifests import documents

    known: Mapping[str, Iterable[str]]
    known = {"manifests": documents.PRINTED, "completion": Shell, "explain": ("pod/", "vpa/")}
    verbs = tuple(
        Verb(name, summary(name), kind, tuple(known.get(name, ())))
        for name, (kind, _) in PURPOSES.items()
    )
    print(script(Shell(settings.shells[0]), verbs), end="")
    return 0


@_question(VersionSettings)
def version(_settings: VersionSettings, _clock: Clock) -> Report:
    """Print the version."""
    found = {"name": "plumbline", "version": installed_version("plumbline")}
    return Report(Text([line(" ".join(found.values()))]), [found], [found["name"]])


# --- showing a report


def show(report: Report, output: Output, environment: Environment) -> int:
    """Print a report, its notes on standard error; return 1 if something serious was found."""
    is_coloured = _wants_colours(sys.stdout, environment)
    for each in shown(report, output, is_coloured=is_coloured):
        print(each)
    if sys.stdout is not None:
        sys.stdout.flush()  # so that notes stand below
    if sys.stderr is not None:
        for note in report.notes:
            print(f"plumbline: {note}", file=sys.stderr)
    return PROBLEMS_FOUND if report.is_bad else 0


def _wants_colours(stream: TextIO | None, environment: Environment) -> bool:
    """Whether a stream leads to a terminal that shows colours, and they are wanted."""
    if stream is None or environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()


def _print_lines(lines: Iterable[bytes]) -> int:
    """Print lines as they come, because there may be many."""
    for each in lines:
        sys.stdout.buffer.write(each)
    return 0
