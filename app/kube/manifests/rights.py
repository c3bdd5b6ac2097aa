"""What each process may do in a cluster, what it needs that for, and with which flags.

Strategy: one table, with which the roles of the manifests and of the chart, what processes ask a
real API server for, and docs/rights.md are compared. `needed` says what of it a command line uses,
so that an account has all that it uses and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

from app.ports import Json

_READ: Final = ("get", "list", "watch")
_WATCH: Final = ("list", "watch")
_RENEW: Final = ("get", "update")

_LEASES: Final = "coordination.k8s.io"
_VPA_GROUP: Final = "autoscaling.k8s.io"
_VPAS: Final = "verticalpodautoscalers"


class RightScope(StrEnum):
    """Where a right holds."""

    EVERYWHERE = "in the cluster"
    AT_HOME = "in its own namespace"


@dataclass(frozen=True, slots=True)
class Right:
    """A rule of a role, and its reason."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    reach: RightScope = RightScope.EVERYWHERE
    named_by: str = ""  # the flag that gives the object another name
    only_with: str = ""  # the flag without which it is not used
    not_with: str = ""  # the flag, or its value, with which it is not used

    def rule(self) -> Json:
        """Return it as a role holds it."""
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            **names,
            "verbs": list(self.verbs),
        }


def _controllers(verbs: tuple[str, ...], why: str) -> tuple[Right, ...]:
    return (
        Right("", ("replicationcontrollers",), verbs, why),
        Right("apps", ("daemonsets", "deployments", "replicasets", "statefulsets"), verbs, why),
        Right("batch", ("cronjobs", "jobs"), verbs, why),
    )


def _owners(verbs: tuple[str, ...]) -> tuple[Right, ...]:
    return (
        *_controllers(verbs, "find the topmost controller of a pod"),
        Right("*", ("*/scale",), ("get",), "find the pods of a custom controller"),
    )


def _callers(why: str) -> tuple[Right, Right]:
    """Return the rights to ask about who calls."""
    return (
        Right(
            "authentication.k8s.io",
            ("tokenreviews",),
            ("create",),
            "know whose token a request carries",
        ),
        Right("authorization.k8s.io", ("subjectaccessreviews",), ("create",), why),
    )


def _own(create: Right, name: str, named_by: str = "") -> tuple[Right, Right]:
    """Return the right to create an object at home, and those on the object of this name."""
    create = replace(create, reach=RightScope.AT_HOME)
    return create, replace(create, verbs=_RENEW, names=(name,), named_by=named_by)


def _election(name: str) -> tuple[Right, Right]:
    why, flag = "let one replica work", "--leader-elect"
    create = Right(_LEASES, ("leases",), ("create",), why, only_with=flag)
    return _own(create, name, "--leader-elect-resource-name")


_REGISTERS_NOT: Final = "--register-webhook=false"
_WEBHOOKS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_ADMISSION: Final = (
    Right(_VPA_GROUP, (_VPAS,), _WATCH, "decide by them"),
    Right("", ("limitranges",), _WATCH, "keep pods within them"),
    *_owners(_READ),
    *_callers("know whether this user may ask what would become of a pod"),
    Right(
        "admissionregistration.k8s.io",
        _WEBHOOKS,
        ("create",),
        "register the webhook",
        not_with=_REGISTERS_NOT,
    ),
    Right(
        "admissionregistration.k8s.io",
        _WEBHOOKS,
        _RENEW,
        "keep the registration as it should be, and its CA",
        ("vpa-webhook-config",),
        named_by="--webhook-config-name",
        not_with=_REGISTERS_NOT,
    ),
    Right(
        "",
        ("events",),
        ("create",),
        "tell that the registration was changed",
        not_with=_REGISTERS_NOT,
    ),
    *_own(
        Right(_LEASES, ("leases",), ("create",), "tell the updater that pods are admitted"),
        "vpa-admission-controller",
        "--status-lease-name",
    ),
    Right(
        _LEASES,
        ("leases",),
        _RENEW,
        "let one replica register the webhook and rotate certificates",
        ("vpa-admission-controller-rotation",),
        RightScope.AT_HOME,
    ),
    # It is shipped empty: who may create Secrets may have a token of any account made for them.
    Right(
        "",
        ("secrets",),
        _RENEW,
        "share certificates",
        ("vpa-tls-certs",),
        RightScope.AT_HOME,
        not_with="--tls-cert-dir",
    ),
)
_ANSWER: Final = "answer what a pod would get"
_RECOMMENDER: Final = (
    Right(_VPA_GROUP, (_VPAS,), _WATCH, "know what to recommend for"),
    Right(_VPA_GROUP, (f"{_VPAS}/status",), ("patch",), "publish recommendations"),
    Right(
        _VPA_GROUP,
        ("verticalpodautoscalercheckpoints",),
        ("list", "create", "patch", "delete"),
        "keep history over restarts",
    ),
    Right("", ("pods",), _WATCH, "know whose usage it is, and see OOM kills"),
    Right("", ("pods",), ("get",), _ANSWER),
    Right("", ("limitranges",), ("list",), _ANSWER),
    *_controllers(("get",), _ANSWER),
    Right("", ("events",), _WATCH, "see evictions by a node that ran out of memory"),
    *_owners(_WATCH),
    Right("metrics.k8s.io", ("pods",), ("list",), "read usage"),
    *_callers("know whether this user may see recommendations"),
    *_election("vpa-recommender-lease"),
)
_UPDATER: Final = (
    Right(_VPA_GROUP, (_VPAS,), _WATCH, "decide by them"),
    Right("", ("pods",), _WATCH, "compare them with their recommendation"),
    Right("", ("pods",), ("get",), "see what became of one whose resize was refused, or lost"),
    Right("", ("pods",), ("patch",), "take back the notes of a start-up boost"),
    Right("", ("pods/eviction",), ("create",), "evict"),
    Right("", ("pods/resize",), ("patch",), "resize in place"),
    Right("", ("limitranges",), _WATCH, "keep pods within them"),
    Right("", ("nodes",), _WATCH, "know what no node has room for"),
    Right("policy", ("poddisruptionbudgets",), _WATCH, "know beforehand what may be disrupted"),
    *_owners(_READ),
    Right("", ("events",), ("create",), "tell what was done, and what is stuck"),
    *_callers("know whether this user may see decisions"),
    Right(
        _LEASES,
        ("leases",),
        ("get",),
        "evict only while pods are admitted",
        ("vpa-admission-controller",),
        RightScope.AT_HOME,
        named_by="--admission-controller-status-lease-name",
    ),
    *_election("vpa-updater"),
)
RIGHTS: Final = {
    "admission-controller": _ADMISSION,
    "recommender": _RECOMMENDER,
    "updater": _UPDATER,
}


@dataclass(frozen=True, slots=True)
class Option:
    """What a process may do beside, where a flag asks for it."""

    component: str
    flag: str
    right: Right


OPTIONS: Final = {
    "summaries": Option(
        "updater",
        "--vpa-summaries",
        Right(_VPA_GROUP, (_VPAS,), ("patch",), "sum up on each VPA what is decided of its pods"),
    ),
    "trials": Option(
        "updater",
        "--prove=dry-run",
        Right(
            "", ("pods",), ("create",), "create pods on trial (dry-run) before the first eviction"
        ),
    ),
    "external-metrics": Option(
        "recommender",
        "--use-external-metrics",
        # Each metric is a resource of its own there, whatever it is called.
        Right("external.metrics.k8s.io", ("*",), ("list",), "read usage from external metrics"),
    ),
}


def rules(rights: Sequence[Right], reach: RightScope) -> list[Json]:
    """Return the rules of a role."""
    return [right.rule() for right in rights if right.reach is reach]


def needed(component: str, words: Sequence[str]) -> tuple[Right, ...]:
    """Return the rights of a process with this command line."""
    words = [_spelt(word) if word.startswith("-") else word for word in words]
    asked = [
        option.right
        for option in OPTIONS.values()
        if option.component == component and _is_set(words, option.flag)
    ]
    usual = [right for right in RIGHTS[component] if _is_used(right, words)]
    return tuple(_named(right, words) for right in (*usual, *asked))


def _spelt(word: str) -> str:
    """Return a flag with two dashes, and with dashes within."""
    key, equals, value = word.lstrip("-").partition("=")
    return f"--{key.replace('_', '-')}{equals}{value}"


def _is_used(right: Right, words: Sequence[str]) -> bool:
    if right.only_with and not _is_set(words, right.only_with):
        return False
    name, _, value = right.not_with.partition("=")
    told = _text(words, name)
    return told not in _NO if value == "false" else not told


def _named(right: Right, words: Sequence[str]) -> Right:
    name = _text(words, right.named_by)
    return replace(right, names=(name,)) if name else right


def _is_set(words: Sequence[str], flag: str) -> bool:
    """Say whether a switch is on, or, of a flag with a value, whether it has this value."""
    name, _, wanted = flag.partition("=")
    if wanted:
        return _text(words, name) == wanted
    return _text([f"{word}=true" if word == name else word for word in words], name) in _YES


def _text(words: Sequence[str], name: str) -> str:
    """Return what a flag says; what is said last counts."""
    found = ""
    for word, following in pairwise((*words, "")):
        key, equals, value = word.partition("=")
        if name and key == name:
            found = value if equals else following
    return found


_NO = ("0", "f", "F", "false", "FALSE", "False")
_YES = ("1", "t", "T", "true", "TRUE", "True")
