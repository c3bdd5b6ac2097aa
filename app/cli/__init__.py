"""The command line: one verb a process.

Strategy: a verb is a function of its settings, which are read from its flags. Errors are one
sentence and an exit code: 1 problems were found, or the work failed, 2 wrong usage, 3 the cluster
cannot be reached, or does not let us. Where the cluster is belongs to the usage: a kubeconfig or a
context that is not there is 2, a server that does not answer 3.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from app.cli.pages import overview
from app.cli.verbs import VERBS, program_name
from app.model.errors import BadObject, BadSetting, ClusterError, NotFound, Refused
from app.model.text import nearest

log = logging.getLogger("cli")

_PROCESSES = ("admission", "recommender", "updater")
_FORWARD = "'kubectl -n kube-system port-forward deployment/vpa-recommender 8942'"
_TRACE = "PLUMBLINE_TRACE"
_INTERRUPTED = 130  # as shells have it: 128 and the number of the signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except (BadSetting, BadObject) as error:
        return _fail(str(error), 2)
    except ClusterError as error:
        return _fail(_trouble(error), 3)
    except BrokenPipeError:
        _forget_output()
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", 1)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        if os.environ.get(_TRACE):
            raise
        if words[0] in _PROCESSES:  # whose logs are read by those who look for mistakes
            log.critical("ended by a bug", exc_info=True)
        told = f"{type(error).__name__}: {error}".partition("\n")[0]
        return _fail(f"this is a bug of Plumbline: {told}; {_TRACE}=1 shows where", 1)


def _run(words: list[str]) -> int:
    name, *rest = words or [""]
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        print(overview(program_name()), flush=True)
        return 0
    if not name:
        print(overview(program_name()), file=sys.stderr)
        return 2
    name = "version" if name == "--version" else name
    if name.startswith("-") and any(word in VERBS for word in rest):
        command = next(word for word in rest if word in VERBS)
        others = [word for word in words if word != command]
        right = " ".join((program_name(), command, *others))
        raise BadSetting(f"flags come after the command: {right}")
    if name not in VERBS:
        meant = nearest(name, VERBS) or f"; {program_name()} --help lists all"
        raise BadSetting(f'unknown command "{name}"{meant}')
    code = VERBS[name](rest, os.environ)
    if sys.stdout is not None:
        sys.stdout.flush()  # here, where a reader that has left is not an error
    return code


def _trouble(error: ClusterError) -> str:
    """Return what the cluster said, and what to do about it."""
    match error:
        case NotFound():
            return str(error)
        case ClusterError(reason="Recommender", status=401):
            return (
                f"the recommender refuses the credentials: {error}; name a token with --token-file"
            )
        case ClusterError(reason="Recommender"):
            return f"the recommender does not answer: {error}; forward its port with {_FORWARD}"
        case ClusterError(reason="Prometheus"):
            return (
                f"usage cannot be read: {error}; see --prometheus-address and the flags beside it"
            )
        case Refused(status=401):
            return f"authentication failed: {error}; log in, or choose another --context"
        case Refused():
            return f"permission denied: {error}; RBAC has to allow it"
    told = "check that kubectl reaches it, or choose another --kubeconfig or --context"
    return f"the cluster cannot be reached: {error}; {told}"


def _fail(sentence: str, code: int) -> int:
    if sys.stderr is not None:
        told = " ".join(sentence.split())  # whatever others put into it, such as a YAML reader
        print(f"plumbline: {told}", file=sys.stderr)
    return code


def _forget_output() -> None:
    """Keep Python from writing at its end to a reader that has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
