"""What each command is for, with examples, and its flags: help pages and documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from app.admission.flags import AdmissionSettings
from app.cli.completion import CompletionSettings
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
from app.flags.command_line import FlagGroup, Schema, schema
from app.flags.flags import Flag
from app.flags.shared import NO_EFFECT
from app.model.errors import BadSetting
from app.model.text import nearest
from app.page.flags import PageSettings, ReportSettings
from app.recommender.flags import RecommenderSettings
from app.run.flags import RunSettings
from app.updater.flags import UpdaterSettings

_WIDTH: Final = 80
_INDENT: Final = 6

_OPENING: Final = """\
# Flags

Flags begin with one dash or two; `_` and `-` are the same in their names. Values follow
after `=` or as the next word. A switch may stand alone and then means true; to turn it
off write `--switch=false`. If a flag comes twice the last one counts, unless it may be
repeated. A flag that does not exist, or a value that it does not take, ends the process
with exit code 2 and a sentence that says what would be right. `$NAME` is an environment
variable."""

# What stands behind a semicolon is left out of overviews.
PURPOSES: Final[dict[str, tuple[type, str]]] = {
    "run": (
        RunSettings,
        "Run everything on an in-memory cluster; all three components in one process.",
    ),
    "admission": (AdmissionSettings, "Serve the admission webhook."),
    "recommender": (RecommenderSettings, "Watch usage and recommend requests."),
    "updater": (UpdaterSettings, "Resize or evict pods whose requests are off."),
    "page": (PageSettings, "Show all of it in a browser; read-only."),
    "report": (ReportSettings, "Write all pages into one file that opens without a server."),
    "recommendations": (RecommendationsSettings, "Compare requests with what is recommended."),
    "explain": (
        ExplainSettings,
        "Explain what a pod or a VPA's pods get; also what the updater does about them.",
    ),
    "plan": (PlanSettings, "Show what the updater would do now, and why; nothing is changed."),
    "init": (InitSettings, "Print VPAs in mode Off for workloads that have none."),
    "validate": (ValidateSettings, "Check VPAs in files before they are applied; for pipelines."),
    "doctor": (
        DoctorSettings,
        "Check an installation and suggest fixes; nothing is changed.",
    ),
    "admit": (AdmitSettings, "Answer AdmissionReviews without a server."),
    "replay": (ReplaySettings, "Run the recommender on recorded usage; without a cluster."),
    "record": (RecordSettings, "Record the history of containers from Prometheus; for back-tests."),
    "backtest": (
        BacktestSettings,
        "Compare settings on recorded usage; what would have been reserved, killed and resized.",
    ),
    "choose": (
        BacktestSettings,
        "Choose settings by recorded usage, if some were better in most of it.",
    ),
    "certs": (CertsSettings, "Make a CA and a serving certificate; valid ones are kept."),
    "manifests": (ManifestsSettings, "Print manifests to apply to a cluster."),
    "completion": (CompletionSettings, "Print a completion script for a shell."),
    "version": (VersionSettings, "Print the version."),
}
EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "run": (
        ("plumbline run", "the built-in shop at 60x speed, until Ctrl-C"),
        ("plumbline run --speed max --for 24h", "a simulated day, as fast as possible"),
        ("plumbline run --objects manifests/", "with your own workloads and VPAs"),
        ("plumbline run --kubeconfig config --dry-run", "on a real cluster: read-only"),
    ),
    "admission": (
        ("plumbline admission", "in a pod, with its service account"),
        (
            "plumbline admission --objects cluster.yaml --certs-dir certs",
            "without a cluster, for the objects in a file",
        ),
    ),
    "admit": (
        (
            "plumbline admit --objects cluster.yaml --explain review.json",
            "what a pod gets, and why",
        ),
        (
            "kubectl get vpa,deploy -A -o json | plumbline admit --objects - review.json",
            "by the objects of a cluster",
        ),
        (
            "plumbline admit --objects cluster.yaml -o table reviews.jsonl",
            "many reviews, a row each",
        ),
    ),
    "record": (
        (
            "plumbline record --prometheus-address http://localhost:9090 -o fleet.npz",
            "two weeks of all namespaces",
        ),
        (
            "plumbline record --prometheus-address URL -n shop --step 1m -o shop.npz",
            "one namespace, by the minute",
        ),
    ),
    "certs": (("plumbline certs --certs-dir certs --days 90", "valid for three months"),),
    "updater": (
        ("plumbline updater", "in a pod, with its service account"),
        ("plumbline updater --kubeconfig config --dry-run", "only report what would be done"),
    ),
    "page": (
        ("plumbline page", "of the cluster of the kubeconfig, at http://localhost:8945/"),
        ("plumbline page --objects cluster.yaml", "by the objects in a file"),
        ("plumbline page --recording shop.npz", "with what other settings would have requested"),
    ),
    "report": (
        ("plumbline report -o report.html", "of the cluster of the kubeconfig"),
        ("plumbline report -o report.html --objects cluster.yaml", "by the objects in a file"),
        ("plumbline report --recording shop.npz", "with what other settings would have requested"),
    ),
    "recommendations": (
        ("plumbline recommendations -n shop", "of one namespace"),
        ("plumbline recommendations -A --sort-by=-memory", "most short of memory first"),
        ("plumbline recommendations deploy/web -w", "of a workload, whenever it changes"),
        ("plumbline recommendations -A -o csv", "of all namespaces, for a spreadsheet"),
        (
            "plumbline recommendations -n shop --prometheus-address=http://localhost:9090",
            "also of workloads without a VPA, from the usage that Prometheus has",
        ),
        (
            "plumbline recommendations --from http://localhost:8942 web",
            "of VPA web, from a port-forwarded recommender",
        ),
        (
            "kubectl get vpa,pod,sts -A -o json | plumbline recommendations --objects -",
            "of a recorded cluster",
        ),
    ),
    "explain": (
        ("plumbline explain pod/web-0 -n shop", "what a pod gets, and why"),
        ("plumbline explain vpa/web", "what the pods of a VPA get"),
        ("plumbline explain deploy/web", "of a workload; without pods what a new one would get"),
        ("plumbline explain -l app=web", "what all pods with a label get"),
        ("plumbline explain web-0 --objects cluster.yaml", "by the objects in a file"),
    ),
    "init": (
        ("plumbline init -n shop", "what would be created for a namespace"),
        ("plumbline init -n shop | kubectl apply -f -", "create them; they change nothing"),
        ("plumbline init deploy/web -o table", "for a workload; what it would be called"),
    ),
    "validate": (
        ("plumbline validate manifests/", "VPAs with the workloads beside them"),
        (
            "kubectl get deploy,hpa -A -o yaml | plumbline validate vpa.yaml --objects -",
            "for the workloads of a cluster",
        ),
        ("plumbline validate vpa.yaml --strict -o json", "warnings too end with 1; for a program"),
    ),
    "doctor": (
        ("plumbline doctor --before", "check a cluster before an installation"),
        ("plumbline doctor", "check an installation"),
        ("plumbline doctor --objects manifests/", "check the VPAs in files"),
        ("plumbline doctor -o json", "for a pipeline; exit code 1 if something is serious"),
    ),
    "recommender": (
        ("plumbline recommender", "in a pod, with its service account"),
        (
            "plumbline recommender --recommender-name=second",
            "for VPAs that ask for it in spec.recommenders",
        ),
    ),
    "replay": (
        (
            "plumbline replay --objects cluster.yaml --events usage.jsonl",
            "what would be recommended at the end",
        ),
        (
            "plumbline replay --objects cluster.yaml --events usage.jsonl -o table",
            "the same, for people",
        ),
    ),
    "backtest": (
        ("plumbline backtest shop.npz", "what the present flags would have done"),
        (
            "plumbline backtest shop.npz --set target-cpu-percentile=0.95",
            "beside another percentile",
        ),
        (
            "plumbline backtest shop.npz --objects cluster.yaml --set update-mode=Recreate",
            "within the policies, LimitRanges and HPAs of a cluster; beside another update mode",
        ),
        (
            "plumbline backtest --prometheus-address=http://localhost:9090 shop.npz -n shop",
            "record first, into that file",
        ),
    ),
    "choose": (
        (
            "plumbline choose shop.npz",
            "the best of twelve settings, if it wins most parts",
        ),
        (
            "plumbline choose shop.npz --price-core=0.03 --price-gib=0.004",
            "by what a core and a GiB cost in an hour",
        ),
    ),
    "plan": (
        ("plumbline plan -n shop", "what would be done about the pods of a namespace"),
        ("plumbline plan -A -o json web", "about those of VPA web, as JSON"),
        ("plumbline plan --objects cluster.yaml", "for the objects in a file"),
    ),
    "manifests": (
        (
            "plumbline manifests crd | kubectl apply --server-side --force-conflicts -f -",
            "install the CRDs",
        ),
        (
            "plumbline manifests all --image registry.example.com/plumbline:0.1.0",
            "everything, with your image",
        ),
        ("plumbline manifests all -o name", "what would be applied"),
        (
            "plumbline manifests webhooks --inject-ca-from=kube-system/plumbline-webhook",
            "webhook configurations for a webhook that does not register itself",
        ),
    ),
    "completion": (
        ("source <(plumbline completion bash)", "complete in this shell"),
        (
            "plumbline completion fish > ~/.config/fish/completions/plumbline.fish",
            "complete in every fish",
        ),
    ),
    "version": (
        ("plumbline version", "the version of this program"),
        ("plumbline version -o json", "for a program"),
    ),
}


def summary(command: str) -> str:
    """Return what a command does, in a few words."""
    return PURPOSES[command][1].partition(";")[0].rstrip(".")


def help_text(settings: type, command: str, purpose: str, program: str = "plumbline") -> str:
    """Return what `--help` prints."""
    found = schema(settings)
    rest = found.rest[1] if found.rest else None
    words = [program, command]
    words += ["[FLAG...]"] if any(found.flags) else []
    words += [rest.word] if rest else []
    lines = [f"usage: {' '.join(words)}", "", *textwrap.wrap(purpose, _WIDTH)]
    if rest:
        lines += ["", f"  {rest.word}", *_wrapped(rest.meaning)]
    lines += _examples(command, program)
    for group in found.groups:
        if flags := _effective(group):
            lines += ["", f"{group.title}:"]
        for flag in flags:
            lines.append(f"  {', '.join(flag.spellings)} {flag.kind.word}".rstrip())
            default = _default(flag)
            lines += _wrapped(flag.meaning + (f" (default {default})" if default else ""))
    if accepted := _accepted(found):
        lines += ["", "Accepted for compatibility, ignored:", *_wrapped(" ".join(accepted))]
    return "\n".join(lines) + "\n"


def one_of(known: Sequence[str], words: Sequence[str], command: str, what: str) -> str:
    """Return the one word after a command.

    Raises:
        BadSetting: there is none, or several, or it is not known.
    """
    if len(words) == 1 and words[0] in known:
        return words[0]
    usage = f"usage: {command} {'|'.join(known)}"
    if len(words) != 1:
        raise BadSetting(usage)
    meant = nearest(words[0], known) or ";"
    raise BadSetting(f'unknown {what} "{words[0]}"{meant} {usage}')


def overview(program: str = "plumbline") -> str:
    """Return what `--help` without a command prints."""
    width = max(map(len, PURPOSES))
    return "\n".join(
        [
            "Plumbline, a Vertical Pod Autoscaler for Kubernetes.",
            "",
            f"usage: {program} COMMAND [FLAG...]",
            "",
            *(f"  {command:<{width}}  {summary(command)}" for command in PURPOSES),
            "",
            f"'{program} COMMAND --help' lists the flags of a command, with examples.",
            "Exit codes: 0 fine, 1 problems found, 2 wrong usage, 3 the cluster cannot be reached.",
        ]
    )


def _examples(command: str, program: str) -> Iterator[str]:
    if examples := EXAMPLES.get(command, ()):
        yield from ("", "Examples:")
    for words, meaning in examples:
        yield from textwrap.wrap(meaning, _WIDTH, initial_indent="  # ", subsequent_indent="  # ")
        yield f"  {words.replace('plumbline', program, 1)}"


def _effective(group: FlagGroup) -> list[Flag]:
    return [flag for flag in group.flags.values() if flag.meaning != NO_EFFECT]


def _accepted(found: Schema) -> list[str]:
    return [flag.shown for flag in found.flags if flag.meaning == NO_EFFECT]


def _wrapped(text: str) -> list[str]:
    margin = " " * _INDENT
    return textwrap.wrap(
        text, _WIDTH, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False
    )


def _default(flag: Flag, written: Callable[[str], str] = str) -> str:
    """Return what counts when the flag is absent."""
    variable = f"${flag.environment}" if flag.environment and flag.name else ""
    return ", else ".join(written(text) for text in (variable, flag.default) if text)


def flags_page() -> str:
    """Return the page of the documentation that lists every flag."""
    lines = [_OPENING]
    for command, (settings, purpose) in PURPOSES.items():
        found = schema(settings)
        lines += ["", f"## plumbline {command}", "", purpose]
        if found.rest:
            lines += ["", f"`{found.rest[1].word}`: {found.rest[1].meaning}."]
        for group in found.groups:
            if flags := _effective(group):
                lines += ["", f"### {group.title}", "", *_table(flags)]
        if accepted := ", ".join(f"`{name}`" for name in _accepted(found)):
            lines += ["", f"Accepted for compatibility, ignored: {accepted}."]
    return "\n".join(lines) + "\n"


def _table(flags: list[Flag]) -> Iterator[str]:
    yield "| Flag | Takes | Default | Meaning |"
    yield "|---|---|---|---|"
    for flag in flags:
        cells = (
            ", ".join(map(_code, flag.spellings)),
            flag.kind.wanted,
            _default(flag, _code),
            flag.meaning,
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _code(text: str) -> str:
    return f"`{text}`"
