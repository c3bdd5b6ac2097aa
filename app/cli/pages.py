"""What each command is for, with examples, and its flags: help pages and documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Final

from app.admission.flags import AdmissionSettings
from app.cli.completion import CompletionSettings
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
from app.flags.command_line import FlagGroup, Schema, schema
from app.flags.flags import Flag
from app.flags.shared import NO_EFFECT
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
    "run": (RunSettings, "Run all of it here, on a cluster in memory; one process for all three."),
    "admission": (AdmissionSettings, "Serve the admission webhook."),
    "recommender": (RecommenderSettings, "Watch usage and recommend requests."),
    "updater": (UpdaterSettings, "Bring running pods to what is recommended for them."),
    "recommendations": (RecommendationsSettings, "Compare requests with what is recommended."),
    "explain": (
        ExplainSettings,
        "Tell what a pod or a VPA's pods get, and why; also what is done about them.",
    ),
    "plan": (PlanSettings, "Tell what the updater would do now, and why; nothing is touched."),
    "doctor": (
        DoctorSettings,
        "Check an installation, and tell what mends it; nothing is changed.",
    ),
    "admit": (AdmitSettings, "Answer AdmissionReviews without a server."),
    "replay": (ReplaySettings, "Play recorded usage through the recommender; without a cluster."),
    "certs": (CertsSettings, "Make a CA and a serving certificate; good ones stay."),
    "manifests": (ManifestsSettings, "Print documents that are applied to a cluster."),
    "completion": (CompletionSettings, "Print what completes command lines in a shell."),
    "version": (VersionSettings, "Print the version."),
}
EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "run": (
        ("plumbline run", "a minute of the built-in shop a second, until Ctrl-C"),
        ("plumbline run --speed max --for 24h", "a day of it, as fast as can be"),
        ("plumbline run --objects manifests/", "with your own workloads and VPAs"),
        ("plumbline run --kubeconfig config --dry-run", "beside a real cluster, writing nothing"),
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
            "kubectl get vpa,deploy -A -o json | plumbline admit --objects - -- review.json",
            "by the objects of a cluster",
        ),
        (
            "plumbline admit --objects cluster.yaml -o table reviews.jsonl",
            "many reviews, a row each",
        ),
    ),
    "certs": (("plumbline certs --certs-dir certs --days 90", "make them for three months"),),
    "updater": (
        ("plumbline updater", "in a pod, with its service account"),
        ("plumbline updater --kubeconfig config --dry-run", "decide and tell, touch nothing"),
    ),
    "recommendations": (
        ("plumbline recommendations -n shop", "of one namespace"),
        ("plumbline recommendations -A -o csv", "of all, for a table program"),
        (
            "plumbline recommendations --from http://localhost:8942 web",
            "of VPA web, from a recommender that is forwarded to here",
        ),
        (
            "kubectl get vpa,pod,sts -A -o json | plumbline recommendations --objects -",
            "of a recorded cluster",
        ),
    ),
    "explain": (
        ("plumbline explain pod/web-0 -n shop", "what becomes of a pod, and why"),
        ("plumbline explain vpa/web", "what becomes of the pods of a VPA"),
        ("plumbline explain -l app=web", "what becomes of all pods with a label"),
        ("plumbline explain web-0 --objects cluster.yaml", "by the objects in a file"),
    ),
    "doctor": (
        ("plumbline doctor --before", "is a cluster ready for an installation?"),
        ("plumbline doctor", "is all well with it?"),
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
    "plan": (
        ("plumbline plan -n shop", "what would be done about the pods of a namespace"),
        ("plumbline plan -A -o json web", "about those of VPA web, as JSON"),
        ("plumbline plan --objects cluster.yaml", "for the objects in a file"),
    ),
    "manifests": (
        ("plumbline manifests crd | kubectl apply -f -", "teach a cluster what VPAs are"),
        ("plumbline manifests all -o name", "what would be applied"),
        (
            "plumbline manifests webhooks --inject-ca-from=kube-system/plumbline-webhook",
            "what calls a webhook that does not register itself",
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
    lines = [f"usage: {' '.join(words)}", "", purpose]
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
        lines += ["", "Accepted, without effect:", *_wrapped(" ".join(accepted))]
    return "\n".join(lines) + "\n"


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
        yield f"  # {meaning}"
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
            lines += ["", f"Accepted, without effect: {accepted}."]
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
