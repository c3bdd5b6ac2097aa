"""The command line: one verb a process.

Strategy: a verb is a line in a table; its flags come from its settings, its work from the
wiring. Errors are one sentence and an exit code: 1 found problems, 2 wrong usage, 3 the cluster
cannot be reached.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from app.cli import verbs
from app.model.errors import BadObject, BadSetting, ClusterError
from app.model.words import nearest

Verb = Callable[[Sequence[str], Mapping[str, str]], int]

VERBS: Mapping[str, tuple[Verb, str]] = {
    "run": (verbs.run, "start the webhook here on a small built-in set of objects"),
    "admission": (verbs.admission, "serve the admission webhook"),
    "admit": (verbs.admit, "answer admission reviews without a server"),
    "certs": (verbs.certs, "make a CA and a serving certificate"),
    "manifests": (verbs.manifests, "print documents that are applied to a cluster"),
    "version": (verbs.version, "print the version"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if words else 2
    name, *rest = words
    if name == "--version":
        name = "version"
    if name not in VERBS:
        return _fail(f'unknown command "{name}"{nearest(name, VERBS)}', 2)
    try:
        return VERBS[name][0](rest, os.environ)
    except (BadSetting, BadObject) as error:
        return _fail(str(error), 2)
    except ClusterError as error:
        return _fail(f"the cluster cannot be reached: {error}", 3)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130


def _fail(sentence: str, code: int) -> int:
    print(f"plumbline: {sentence}", file=sys.stderr)
    return code


def _usage() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in VERBS.items()]
    return "\n".join(
        [
            "Plumbline, a Vertical Pod Autoscaler for Kubernetes.",
            "",
            "usage: plumbline COMMAND [flags]",
            "",
            *lines,
            "",
            "'plumbline COMMAND --help' lists the flags of a command.",
        ]
    )
