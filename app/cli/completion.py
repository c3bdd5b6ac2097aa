"""Completion for shells, generated from the verbs and their flags.

Strategy: scripts hold all words, so a shell completes without starting the program. Verbs come
first; behind a flag come the words that it takes, or files; anything else gets the flags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.flags.command_line import schema
from app.flags.flags import Flag, rest


class Shell(StrEnum):
    """Shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True, slots=True)
class CompletionSettings:
    """All that completion can be told."""

    shells: tuple[str, ...] = rest("|".join(Shell), "the shell that reads it")


@dataclass(frozen=True, slots=True)
class Verb:
    """What can be typed behind the program's name."""

    name: str
    summary: str
    settings: type
    words: tuple[str, ...] = ()  # that may stand beside flags

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Its flags, without mere variables."""
        return tuple(flag for flag in schema(self.settings).flags if flag.name)


Verbs = tuple[Verb, ...]
_HELP: Final = "--help"
_FILES, _NO_FILES = ":0", ":4"  # as the programs that kubectl asks end what they offer


def script(shell: Shell, verbs: Verbs) -> str:
    """Return what a shell reads to complete our command lines."""
    return "\n".join(_SCRIPTS[shell](verbs)) + "\n"


def _choices(flag: Flag) -> tuple[str, ...]:
    """Return the words that a flag takes, none if it takes anything; capitals stand for others."""
    words = flag.kind.word.split("|")
    return tuple(word for word in words if not word.isupper()) if words[1:] else ()


def _takes_files(flag: Flag) -> bool:
    return flag.kind.word.startswith("PATH") or flag.name == "kubeconfig"


def _spellings(verb: Verb) -> list[str]:
    return [way for flag in verb.flags for way in flag.spellings] + [_HELP]


# --- kubectl, which asks a program of its own


def for_kubectl(words: Sequence[str], verbs: Verbs) -> Iterator[str]:
    """Yield what fits the last of some words, and at the end whether files fit as well."""
    *before, typed = words or [""]
    if not before:
        yield from (name for verb in verbs if (name := verb.name).startswith(typed))
        yield _NO_FILES
        return
    verb = next((verb for verb in verbs if verb.name == before[0]), None)
    if verb is None:
        yield _NO_FILES
        return
    flag = next((flag for flag in verb.flags if before[-1] in flag.spellings), None)
    if flag is None or flag.kind.is_switch:
        offered: Sequence[str] = (*verb.words, *_spellings(verb))
        has_files = not typed.startswith("-")
    else:
        offered, has_files = _choices(flag), _takes_files(flag)
    found = [word for word in offered if word.startswith(typed)]
    yield from found
    yield _FILES if has_files and not found else _NO_FILES


# --- bash


def _bash(verbs: Verbs) -> Iterator[str]:
    names = " ".join(verb.name for verb in verbs)
    yield "# Completion of plumbline for bash; to have it now: source <(plumbline completion bash)"
    yield "_plumbline() {"
    yield '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '    local verb="${COMP_WORDS[1]}" flags=""'
    yield "    COMPREPLY=()"
    yield '    if [ "$cur" = "=" ]; then'
    yield '        cur=""'
    yield '    elif [ "$prev" = "=" ]; then'
    yield '        prev="${COMP_WORDS[COMP_CWORD-2]}"'
    yield "    fi"
    yield '    if [ "$COMP_CWORD" -le 1 ]; then'
    yield f'        COMPREPLY=($(compgen -W "{names} {_HELP}" -- "$cur"))'
    yield "        return"
    yield "    fi"
    yield '    case "$verb $prev" in'
    for verb in verbs:
        for flag in verb.flags:
            if values := _bash_values(flag):
                cases = "|".join(f'"{verb.name} {way}"' for way in flag.spellings)
                yield f'        {cases}) COMPREPLY=($(compgen {values} -- "$cur")); return ;;'
    yield "    esac"
    yield '    case "$verb" in'
    for verb in verbs:
        words = " ".join((*verb.words, *_spellings(verb)))
        yield f'        {verb.name}) flags="{words}" ;;'
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$flags" -- "$cur"))'
    yield '    if [ "${#COMPREPLY[@]}" -eq 0 ] && [ "${cur#-}" = "$cur" ]; then'
    yield '        COMPREPLY=($(compgen -f -- "$cur"))'
    yield "    fi"
    yield "}"
    yield "complete -F _plumbline plumbline kubectl-plumbline"


def _bash_values(flag: Flag) -> str:
    if choices := _choices(flag):
        return f'-W "{" ".join(choices)}"'
    return "-f" if _takes_files(flag) else ""


# --- zsh


def _zsh(verbs: Verbs) -> Iterator[str]:
    yield "#compdef plumbline kubectl-plumbline"
    yield "# Completion of plumbline for zsh; to have it now: source <(plumbline completion zsh)"
    yield "_plumbline() {"
    yield "    if (( CURRENT == 2 )); then"
    yield "        local -a verbs=("
    yield from (f"            {_quoted(f'{verb.name}:{verb.summary}')}" for verb in verbs)
    yield "        )"
    yield "        _describe command verbs"
    yield "        return"
    yield "    fi"
    yield "    local verb=$words[2]"
    yield "    shift words"
    yield "    (( CURRENT-- ))"
    yield "    case $verb in"
    for verb in verbs:
        yield f"        {verb.name})"
        yield "            _arguments -S \\"
        yield from (f"                {line} \\" for flag in verb.flags for line in _zsh_flag(flag))
        yield "                '--help[show the flags]' \\"
        rest = f"word:({' '.join(verb.words)})" if verb.words else "file:_files"
        yield f"                '*:{rest}' ;;"
    yield "    esac"
    yield "}"
    yield "compdef _plumbline plumbline kubectl-plumbline"


def _zsh_flag(flag: Flag) -> Iterator[str]:
    meaning = flag.meaning.translate({ord(mark): f"\\{mark}" for mark in "[]:"})
    if choices := _choices(flag):
        takes = f":value:({' '.join(choices)})"
    elif _takes_files(flag):
        takes = ":file:_files"
    else:
        takes = "" if flag.kind.is_switch else ":value:"
    for way in flag.spellings:
        mark = "=" if takes and way.startswith("--") else ""
        yield _quoted(f"{way}{mark}[{meaning}]{takes}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# --- fish


def _fish(verbs: Verbs) -> Iterator[str]:
    yield "# Completion of plumbline for fish; to have it now: plumbline completion fish | source"
    yield "complete -c plumbline -f"
    for verb in verbs:
        yield (
            "complete -c plumbline -n __fish_use_subcommand "
            f"-a {verb.name} -d {_fish_quoted(verb.summary)}"
        )
        seen = f"complete -c plumbline -n '__fish_seen_subcommand_from {verb.name}'"
        if verb.words:
            yield f"{seen} -a {_fish_quoted(' '.join(verb.words))}"
        yield from (f"{seen} {_fish_flag(flag)}" for flag in verb.flags)


def _fish_flag(flag: Flag) -> str:
    letter = flag.short or (flag.name if len(flag.name) == 1 else "")
    words = [f"-s {letter}"] if letter else []
    words += [f"-l {flag.name}"] if len(flag.name) > 1 else []
    if choices := _choices(flag):
        words.append(f"-x -a {_fish_quoted(' '.join(choices))}")
    elif _takes_files(flag):
        words.append("-r -F")
    elif not flag.kind.is_switch:
        words.append("-x")
    return " ".join((*words, f"-d {_fish_quoted(flag.meaning)}"))


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: Final[Mapping[Shell, Callable[[Verbs], Iterator[str]]]] = {
    Shell.BASH: _bash,
    Shell.ZSH: _zsh,
    Shell.FISH: _fish,
}
