"""What each verb does: read its flags, start its work, and show what came of it.

Strategy: each imports its work only when it is called, so that the other verbs start faster.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final, Protocol, TextIO, TypeVar

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
from app.flags.shared import OutputFormat
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


def program_name() -> str:
    """Return what people type to start this program."""
    called = Path(sys.argv[0]).name.removesuffix(".exe")
    return "kubectl plumbline" if called == PLUGIN else "plumbline"


# --- the processes


def admission(words: Arguments, environment: Environment) -> int:
    """Serve the webhook."""
    settings = _settings(AdmissionSettings, "admission", words, environment)
    if settings is None:
        return 0
    with metrics_folder() if settings.serving.processes > 1 else nullcontext():
        from app.admission.knowledge import check_files
        from app.admission.process import serve  # only now: see metrics_folder

        check_files(settings.offline.objects)
        return serve(settings)


def recommender(words: Arguments, environment: Environment) -> int:
    """Recommend."""
    from app.diagnosis.pod_preview import PodPreviewer
    from app.recommender.process import serve

    settings = _settings(RecommenderSettings, "recommender", words, environment)
    return 0 if settings is None else serve(settings, PodPreviewer)


def updater(words: Arguments, environment: Environment) -> int:
    """Update running pods."""
    from app.updater.process import serve

    settings = _settings(UpdaterSettings, "updater", words, environment)
    return 0 if settings is None else serve(settings)


def run(words: Arguments, environment: Environment) -> int:
    """Run everything in one process."""
    settings = _settings(RunSettings, "run", words, environment)
    if settings is None:
        return 0
    from app.run.run import run as run_all

    # What libraries log before there is a screen would stand beside the sentence that ends it.
    logging.getLogger().addHandler(logging.NullHandler())
    with open(os.devnull, "w", encoding="ascii") as nowhere:
        return run_all(settings, sys.stdout or nowhere, environment)


# --- what is asked


class _HasOutputFormat(Protocol):
    @property
    def showing(self) -> OutputFormat: ...


A = TypeVar("A", bound=_HasOutputFormat)


def _show_answer(
    command: str,
    kind: type[A],
    ask: Callable[[A, Clock], Report],
    words: Arguments,
    environment: Environment,
) -> int:
    """Read flags, ask, and show the answer."""
    settings = _settings(kind, command, words, environment)
    if settings is None:
        return 0
    from app.runtime.clock import SystemClock

    # What people should know is in the report, so nothing is logged unless a command begins to.
    logging.getLogger().addHandler(logging.NullHandler())
    return show(ask(settings, SystemClock()), settings.showing.output, environment)


def recommendations(words: Arguments, environment: Environment) -> int:
    """List recommendations beside requests."""

    def ask(settings: RecommendationsSettings, clock: Clock) -> Report:
        from app.commands.recommendations import recommendations_report

        return recommendations_report(settings, clock)

    return _show_answer("recommendations", RecommendationsSettings, ask, words, environment)


def explain(words: Arguments, environment: Environment) -> int:
    """Tell what becomes of pods."""

    def ask(settings: ExplainSettings, clock: Clock) -> Report:
        from app.commands.explain import explain_report

        return explain_report(settings, clock)

    return _show_answer("explain", ExplainSettings, ask, words, environment)


def plan(words: Arguments, environment: Environment) -> int:
    """Tell what the updater would do now."""

    def ask(settings: PlanSettings, clock: Clock) -> Report:
        from app.commands.plan import logged_plan_report

        return logged_plan_report(settings, clock)

    return _show_answer("plan", PlanSettings, ask, words, environment)


def doctor(words: Arguments, environment: Environment) -> int:
    """Check an installation."""

    def ask(settings: DoctorSettings, clock: Clock) -> Report:
        from app.commands.doctor import doctor_report

        return doctor_report(settings, clock)

    return _show_answer("doctor", DoctorSettings, ask, words, environment)


def certs(words: Arguments, environment: Environment) -> int:
    """Make certificates for a webhook without a cluster."""

    def ask(settings: CertsSettings, clock: Clock) -> Report:
        from app.commands.certs import certs_report

        return certs_report(settings, clock)

    return _show_answer("certs", CertsSettings, ask, words, environment)


def version(words: Arguments, environment: Environment) -> int:
    """Print the version."""

    def ask(_settings: VersionSettings, _clock: Clock) -> Report:
        found = {"name": "plumbline", "version": installed_version("plumbline")}
        return Report(Text([line(" ".join(found.values()))]), [found], [found["name"]])

    return _show_answer("version", VersionSettings, ask, words, environment)


def admit(words: Arguments, environment: Environment) -> int:
    """Answer reviews from files."""
    from app.commands.admit import answer_lines, answer_report

    settings = _settings(AdmitSettings, "admit", words, environment)
    if settings is None:
        return 0
    output = settings.answering.output
    if output is Output.JSON:
        return _print_lines(answer_lines(settings))
    return show(answer_report(settings), output, environment)


def replay(words: Arguments, environment: Environment) -> int:
    """Play recorded usage through the recommender."""
    from app.commands.replay import played, summed_up

    settings = _settings(ReplaySettings, "replay", words, environment)
    if settings is None:
        return 0
    if settings.showing.is_streamed:
        return _print_lines(played(settings))
    return show(summed_up(settings), settings.showing.output, environment)


# --- what is printed


def manifests(words: Arguments, environment: Environment) -> int:
    """Print documents that are applied to a cluster."""
    from app.kube.manifests import documents

    settings = _settings(ManifestsSettings, "manifests", words, environment)
    if settings is None:
        print(f"\nDocuments: {', '.join(documents.NAMES)}")
        return 0
    if len(settings.names) != 1 or settings.names[0] not in documents.NAMES:
        raise BadSetting(f"usage: {program_name()} manifests {'|'.join(documents.NAMES)}")
    (name,) = settings.names
    if settings.printing.output is Output.YAML:
        print(documents.text(name), end="")
        return 0
    from app.commands.manifests import manifests_report

    return show(manifests_report(documents.objects(name)), settings.printing.output, environment)


def completion(words: Arguments, environment: Environment) -> int:
    """Print a script that completes command lines in a shell."""
    settings = _settings(CompletionSettings, "completion", words, environment)
    if settings is None:
        return 0
    if len(settings.shells) != 1 or settings.shells[0] not in tuple(Shell):
        raise BadSetting(f"usage: {program_name()} completion {'|'.join(Shell)}")
    from app.kube.manifests import documents

    known: Mapping[str, Iterable[str]]
    known = {"manifests": documents.NAMES, "completion": Shell, "explain": ("pod/", "vpa/")}
    verbs = tuple(
        Verb(name, summary(name), kind, tuple(known.get(name, ())))
        for name, (kind, _) in PURPOSES.items()
    )
    print(script(Shell(settings.shells[0]), verbs), end="")
    return 0


# --- reading flags, and showing a report


def _settings(kind: type[S], command: str, words: Arguments, environment: Environment) -> S | None:
    """Read the flags of a command; None when its help was asked for, and shown."""
    if asks_for_help(words):
        print(help_text(kind, command, PURPOSES[command][1], program_name()), end="")
        return None
    return parse(kind, words, environment)


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
