"""What each verb does: read its flags, start its work, and show what came of it.

Strategy: each imports its work only when it is called, so that the other verbs start faster.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final, TypeVar

from app.admission.flags import AdmissionSettings
from app.cli.completion import CompletionSettings, Shell, Verb, for_kubectl, script
from app.cli.pages import PURPOSES, help_text, one_of, summary
from app.cli.showing import Environment, end, print_lines, show
from app.commands.backtest_flags import BacktestSettings
from app.commands.flags import (
    AdmitSettings,
    CertsSettings,
    DoctorSettings,
    ExplainSettings,
    InitSettings,
    ManifestsSettings,
    PlanSettings,
    ValidateSettings,
    VersionSettings,
)
from app.commands.recommendations_flags import RecommendationsSettings
from app.commands.record_flags import RecordSettings
from app.commands.replay_flags import ReplaySettings
from app.flags.command_line import asks_for_help, parse
from app.model.errors import BadSetting
from app.output import Output, Report, Text, line
from app.page.flags import PageSettings, ReportSettings
from app.ports import Clock
from app.recommender.flags import RecommenderSettings
from app.run.flags import RunSettings
from app.runtime.metrics_folder import metrics_folder
from app.updater.flags import UpdaterSettings

PLUGIN: Final = "kubectl-plumbline"  # kubectl finds plugins by such names
_ASKS_DEMO: Final = (PlanSettings, ExplainSettings, RecommendationsSettings, DoctorSettings)

Arguments = Sequence[str]
S = TypeVar("S")
Q = TypeVar(
    "Q",
    ExplainSettings,
    PlanSettings,
    RecommendationsSettings,
    DoctorSettings,
    InitSettings,
    ValidateSettings,
    CertsSettings,
    VersionSettings,
    BacktestSettings,
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
            from app.runtime.logs import start_sentences

            settings, clock = _reached(settings)
            start_sentences()
            return show(ask(settings, clock), settings.showing.output, environment)

        return _verb(kind)(work)

    return register


def _reached(settings: Q) -> tuple[Q, Clock]:
    """Return settings that lead to the cluster that is asked, and its clock.

    Raises:
        BadSetting: the demo is asked for, and does not run.
    """
    from app.runtime.clock import SystemClock

    if not isinstance(settings, _ASKS_DEMO) or not settings.demo.is_asked:
        return settings, SystemClock()
    if not isinstance(settings, DoctorSettings) and settings.offline.objects:
        raise BadSetting("--demo and --objects exclude each other")
    from app.run.demo_clusters import DemoClock, demo_gates, running_demo

    kubeconfig = running_demo(settings.cluster.kubeconfig)
    reach = replace(settings.cluster, kubeconfig=kubeconfig, context="")
    settings = replace(settings, cluster=reach)
    if (
        isinstance(settings, PlanSettings | ExplainSettings | PageSettings)
        and not settings.deciding.gates.enabled
    ):
        deciding = replace(settings.deciding, gates=demo_gates(kubeconfig))
        settings = replace(settings, deciding=deciding)
    return settings, DemoClock(kubeconfig)


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


@_verb(PageSettings)
def page(settings: PageSettings, _environment: Environment) -> int:
    """Show the page."""
    from app.commands.page_past import recorded_past
    from app.page.process import serve
    from app.runtime.clock import SystemClock

    return serve(settings, SystemClock(), recorded_past(settings))


@_verb(ReportSettings)
def report(settings: ReportSettings, _environment: Environment) -> int:
    """Write all pages into one file."""
    from app.commands.page_past import recorded_past
    from app.page.report import write_report
    from app.runtime.clock import SystemClock
    from app.runtime.logs import start_sentences

    start_sentences()
    print(write_report(settings, SystemClock(), recorded_past(settings)))
    return 0


# --- what is asked


@_verb(RecommendationsSettings)
def recommendations(settings: RecommendationsSettings, environment: Environment) -> int:
    """List recommendations beside requests."""
    from app.commands.recommendations import recommendations_reports

    settings, clock = _reached(settings)
    logging.getLogger().addHandler(logging.NullHandler())  # what to know is in the report
    code = 0
    for report in recommendations_reports(settings, clock):
        code = show(report, settings.showing.output, environment)
    return code


@_question(ExplainSettings)
def explain(settings: ExplainSettings, clock: Clock) -> Report:
    """Tell what becomes of pods."""
    from app.commands.explain_report import explain_report

    return explain_report(settings, clock)


@_question(PlanSettings)
def plan(settings: PlanSettings, clock: Clock) -> Report:
    """Tell what the updater would do now."""
    from app.commands.plan_report import plan_report
    from app.runtime.logs import start_sentences

    start_sentences(settings.logging.verbosity)
    return plan_report(settings, clock)


@_question(InitSettings)
def init(settings: InitSettings, clock: Clock) -> Report:
    """Print VPAs for workloads that have none."""
    from app.commands.init import init_report

    return init_report(settings, clock)


@_question(ValidateSettings)
def validate(settings: ValidateSettings, clock: Clock) -> Report:
    """Check VPAs in files."""
    from app.commands.validate_report import validate_report

    return validate_report(settings, clock)


@_question(DoctorSettings)
def doctor(settings: DoctorSettings, clock: Clock) -> Report:
    """Check an installation."""
    from app.commands.doctor import doctor_report

    return doctor_report(settings, clock)


@_verb(AdmitSettings)
def admit(settings: AdmitSettings, environment: Environment) -> int:
    """Answer reviews from files."""
    from app.commands.admit import given_reviews

    output, asked = settings.answering.output, given_reviews(settings)
    if output is not Output.JSON:
        return show(asked.report(), output, environment)
    print_lines(asked.lines())
    return end(Report(Text(()), (), (), asked.notes, is_partial=asked.is_partial))


@_verb(ReplaySettings)
def replay(settings: ReplaySettings, environment: Environment) -> int:
    """Play recorded usage through the recommender."""
    from app.commands.replay import played, summed_up

    if settings.showing.is_streamed:
        return print_lines(played(settings))
    return show(summed_up(settings), settings.showing.output, environment)


@_verb(RecordSettings)
def record(settings: RecordSettings, environment: Environment) -> int:
    """Record the history of containers from Prometheus."""
    from app.commands.record import record_report
    from app.runtime.clock import SystemClock

    return show(record_report(settings, SystemClock()), Output.TABLE, environment)


@_question(BacktestSettings)
def backtest(settings: BacktestSettings, clock: Clock) -> Report:
    """Tell what settings would have made of recorded usage."""
    from app.commands.backtest import backtest_report

    return backtest_report(settings, clock)


@_question(BacktestSettings)
def choose(settings: BacktestSettings, clock: Clock) -> Report:
    """Choose settings by recorded usage."""
    from app.commands.choose import choose_report

    return choose_report(settings, clock)


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

    name = one_of(documents.PRINTED, settings.names, f"{program_name()} manifests", "document")
    output, image = settings.printing.output, settings.deployments.image
    if image and name not in documents.WITH_IMAGE:
        raise BadSetting(f"--image is for the documents {', '.join(documents.WITH_IMAGE)}")
    if name == documents.WEBHOOKS:
        from app.commands.manifests import webhooks_report

        return show(webhooks_report(settings), output, environment)
    if settings.about_webhooks != parse(ManifestsSettings, (), environment).about_webhooks:
        raise BadSetting(f"only the document {documents.WEBHOOKS} is made by such flags")
    if name in documents.WITH_IMAGE and not image:
        told = "no registry has the image of these Deployments; name yours with --image"
        print(f"plumbline: {told}", file=sys.stderr)
    if output is Output.YAML:
        print(documents.text(name, image), end="")
        return 0
    from app.commands.manifests import manifests_report

    return show(manifests_report(documents.objects(name, image)), output, environment)


@_verb(CompletionSettings)
def completion(settings: CompletionSettings, _environment: Environment) -> int:
    """Print a script that completes command lines in a shell."""
    shell = Shell(one_of(tuple(Shell), settings.shells, f"{program_name()} completion", "shell"))
    print(script(shell, completed_verbs()), end="")
    return 0


def completed_verbs() -> tuple[Verb, ...]:
    """Return all that can be typed."""
    from app.commands.workload_names import SHORT_NAMES
    from app.kube.manifests import documents

    known: Mapping[str, Iterable[str]]
    workloads = tuple(f"{word}/" for word in (*SHORT_NAMES.values(), "job"))
    known = {
        "manifests": documents.PRINTED,
        "completion": Shell,
        "explain": ("pod/", "vpa/", *workloads),
        "recommendations": ("vpa/", *workloads),
        "init": workloads,
    }
    return tuple(
        Verb(name, summary(name), kind, tuple(known.get(name, ())))
        for name, (kind, _) in PURPOSES.items()
    )


def complete_for_kubectl() -> int:
    """Offer words to kubectl, which asks the program `kubectl_complete-plumbline`."""
    for word in for_kubectl(sys.argv[1:], completed_verbs()):
        print(word)
    return 0


@_question(VersionSettings)
def version(_settings: VersionSettings, _clock: Clock) -> Report:
    """Print the version."""
    from app.commands.built_from import commit

    found = {"name": "plumbline", "version": installed_version("plumbline"), "commit": commit()}
    shown = f"plumbline {found['version']}" + (f" ({found['commit']})" if found["commit"] else "")
    return Report(Text([line(shown)]), [found], [found["name"]])
