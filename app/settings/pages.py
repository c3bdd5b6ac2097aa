"""Shows the flags: the help of each process, and the page of the documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Final

from app.settings.admission import AdmissionSettings
from app.settings.command_line import FlagGroup, Schema, schema
from app.settings.commands import (
    AdmitSettings,
    CertsSettings,
    DoctorSettings,
    ExplainSettings,
    ManifestsSettings,
    PlanSettings,
    RecommendationsSettings,
    VersionSettings,
)
from app.settings.completion import CompletionSettings
from app.settings.examples import EXAMPLES
from app.settings.flags import Flag
from app.settings.recommender import RecommenderSettings
from app.settings.replay import ReplaySettings
from app.settings.run import RunSettings
from app.settings.shared import NO_EFFECT
from app.settings.updater import UpdaterSettings

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
