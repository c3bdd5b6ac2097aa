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

from app.model.text import BOOLEANS
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


_IGNORES_SCALERS: Final = "--horizontal=ignore"
SCALER_RIGHTS: Final = (
    Right(
        "autoscaling",
        ("horizontalpodautoscalers",),
        _WATCH,
        "leave alone the resource by which an HPA scales a workload",
        not_with=_IGNORES_SCALERS,
    ),
    Right(
        "keda.sh",
        ("scaledobjects",),
        _WATCH,
        "leave alone the resource by which KEDA scales a workload",
        not_with=_IGNORES_SCALERS,
    ),
)


def _owners(verbs: tuple[str, ...]) -> tuple[Right, ...]:
    return (
        *_controllers(verbs, "find the topmost controller of a pod"),
        *SCALER_RIGHTS,
        Right("*", ("*/scale",), ("get",), "find the pods of a custom controller"),
    )


def _callers(why: str) -> tuple[Right, Right]:
    """Return the rights to ask about who calls."""
    return (
        Right(
            "authentication.k8s.io",
            ("tokenreviews",),
            ("create",),
            "authenticate callers",
        ),
        Right("authorization.k8s.io", ("subjectaccessreviews",), ("create",), why),
    )


def _own(create: Right, name: str, named_by: str = "") -> tuple[Right, Right]:
    """Return the right to create an object at home, and those on the object of this name."""
    create = replace(create, reach=RightScope.AT_HOME)
    return create, replace(create, verbs=_RENEW, names=(name,), named_by=named_by)


def _election(name: str) -> tuple[Right, Right]:
    why, flag = "elect a leader", "--leader-elect"
    create = Right(_LEASES, ("leases",), ("create",), why, only_with=flag)
    return _own(create, name, "--leader-elect-resource-name")


_REGISTERS_NOT: Final = "--register-webhook=false"
_WEBHOOKS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_ADMISSION: Final = (
    Right(_VPA_GROUP, (_VPAS,), _WATCH, "find the VPA of a pod"),
    Right("", ("limitranges",), _WATCH, "keep pods within their LimitRange"),
    *_owners(_READ),
    *_callers("authorize callers of /explain"),
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
        "keep the registration and its CA up to date",
        ("vpa-webhook-config",),
        named_by="--webhook-config-name",
        not_with=_REGISTERS_NOT,
    ),
    Right(
        "",
        ("events",),
        ("create",),
        "report that the registration was changed",
        not_with=_REGISTERS_NOT,
    ),
    *_own(
        Right(
            _LEASES,
            ("leases",),
            ("create",),
            "heartbeat: show the updater that the webhook is alive",
        ),
        "vpa-admission-controller",
        "--status-lease-name",
    ),
    Right(
        _LEASES,
        ("leases",),
        _RENEW,
        "elect the replica that registers the webhook and rotates certificates",
        ("vpa-admission-controller-rotation",),
        RightScope.AT_HOME,
    ),
    # It is shipped empty: who may create Secrets may have a token of any account made for them.
    Right(
        "",
        ("secrets",),
        _RENEW,
        "share certificates between replicas",
        ("vpa-tls-certs",),
        RightScope.AT_HOME,
        not_with="--tls-cert-dir",
    ),
)
_ANSWER: Final = "show what a pod would get"
_RECOMMENDER: Final = (
    Right(_VPA_GROUP, (_VPAS,), _WATCH, "find the workloads to recommend for"),
    Right(_VPA_GROUP, (f"{_VPAS}/status",), ("patch",), "publish recommendations"),
    Right(
        _VPA_GROUP,
        ("verticalpodautoscalercheckpoints",),
        ("list", "create", "patch", "delete"),
        "keep history across restarts",
    ),
    Right("", ("pods",), _WATCH, "attribute usage to VPAs, and notice OOM kills"),
    Right("", ("pods",), ("get",), _ANSWER),
    Right("", ("limitranges",), ("list",), _ANSWER),
    *_controllers(("get",), _ANSWER),
    Right("", ("events",), _WATCH, "notice evictions by kubelets under memory pressure"),
    *_owners(_WATCH),
    Right("metrics.k8s.io", ("pods",), ("list",), "read usage"),
    *_callers("authorize callers of the recommendation API"),
    *_election("vpa-recommender-lease"),
)
_UPDATER: Final = (
    Right(_VPA_GROUP, (_VPAS,), _WATCH, "find the VPA of a pod"),
    Right("", ("pods",), _WATCH, "compare their requests with the recommendation"),
    Right("", ("pods",), ("get",), "read a pod again whose resize was refused or not answered"),
    Right("", ("pods",), ("patch",), "write and remove the annotations of resizes and boosts"),
    Right("", ("pods/eviction",), ("create",), "evict"),
    Right("", ("pods/resize",), ("patch",), "resize in place"),
    Right("", ("limitranges",), _WATCH, "keep pods within their LimitRange"),
    Right("", ("nodes",), _WATCH, "detect targets that fit on no node"),
    Right(
        "policy", ("poddisruptionbudgets",), _WATCH, "check what may be disrupted before evicting"
    ),
    Right("", ("namespaces",), _WATCH, "respect the annotation that pauses a namespace"),
    *_owners(_READ),
    Right("", ("events",), ("create",), "report updates, and pods that are stuck"),
    *_callers("authorize callers of /v1/decisions"),
    Right(
        _LEASES,
        ("leases",),
        ("get",),
        "evict only while the webhook is alive",
        ("vpa-admission-controller",),
        RightScope.AT_HOME,
        named_by="--admission-controller-status-lease-name",
    ),
    *_election("vpa-updater"),
)
_CHECK: Final = "show what doctor finds"
_PAGE: Final = (
    Right(_VPA_GROUP, (_VPAS,), _READ, "show VPAs, and each as it was written"),
    Right(
        _VPA_GROUP,
        ("verticalpodautoscalercheckpoints",),
        ("get", "list"),
        "show on how much history a recommendation rests, and how it came about",
    ),
    Right("", ("pods",), _READ, "show pods, and what one would get if it were created again"),
    Right("", ("limitranges",), _WATCH, "show what keeps pods within their LimitRange"),
    Right("", ("nodes",), _WATCH, "show which targets fit on no node"),
    Right("policy", ("poddisruptionbudgets",), _WATCH, "show what may not be disrupted"),
    Right("", ("namespaces",), _WATCH, "show which namespaces are paused"),
    *_owners(_READ),
    Right("", ("events",), _WATCH, "show what the updater did"),
    Right("metrics.k8s.io", ("pods",), ("list",), "show usage"),
    *_callers("show viewers the namespaces that they may see"),
    Right(
        _LEASES,
        ("leases",),
        ("get",),
        "show which processes lead, and whether the webhook is alive",
        (
            "vpa-admission-controller",
            "vpa-recommender",
            "vpa-recommender-lease",
            "vpa-updater",
            "vpa-updater-lease",
        ),
        RightScope.AT_HOME,
    ),
    Right(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("get",),
        _CHECK,
        tuple(f"{plural}.{_VPA_GROUP}" for plural in (_VPAS, "verticalpodautoscalercheckpoints")),
    ),
    Right("admissionregistration.k8s.io", _WEBHOOKS, ("list",), _CHECK),
    Right("discovery.k8s.io", ("endpointslices",), ("list",), _CHECK, reach=RightScope.AT_HOME),
)
RIGHTS: Final = {
    "admission-controller": _ADMISSION,
    "recommender": _RECOMMENDER,
    "updater": _UPDATER,
    "page": _PAGE,  # which nothing installs unless it is asked for
}


@dataclass(frozen=True, slots=True)
class Option:
    """What processes may do beside, where a flag asks for it."""

    components: tuple[str, ...]
    flag: str
    right: Right


OPTIONS: Final = {
    "summaries": Option(
        ("updater",),
        "--vpa-summaries",
        Right(_VPA_GROUP, (_VPAS,), ("patch",), "write a summary of decisions to each VPA"),
    ),
    "trials": Option(
        ("updater",),
        "--prove=dry-run",
        Right(
            "", ("pods",), ("create",), "try to create a pod (dry run) before the first eviction"
        ),
    ),
    "external-metrics": Option(
        ("recommender",),
        "--use-external-metrics",
        # Each metric is a resource of its own there, whatever it is called.
        Right("external.metrics.k8s.io", ("*",), ("list",), "read usage from external metrics"),
    ),
    "role-leases": Option(
        ("admission-controller", "recommender", "updater", "page"),
        "--role-leases",
        Right(_LEASES, ("leases",), _WATCH, "find the leading pod by the Leases that VPAs name"),
    ),
    "role-usage": Option(
        ("updater",),
        "--role-leases",
        Right("metrics.k8s.io", ("pods",), ("get",), "let a former leader keep what it still uses"),
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
        if component in option.components and _is_set(words, option.flag)
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
    return BOOLEANS.get(told) is not False if value == "false" else not told


def _named(right: Right, words: Sequence[str]) -> Right:
    name = _text(words, right.named_by)
    return replace(right, names=(name,)) if name else right


def _is_set(words: Sequence[str], flag: str) -> bool:
    """Say whether a switch is on, or, of a flag with a value, whether it has this value."""
    name, _, wanted = flag.partition("=")
    if wanted:
        return _text(words, name) == wanted
    words = [f"{word}=true" if word == name else word for word in words]
    return BOOLEANS.get(_text(words, name)) is True


def _text(words: Sequence[str], name: str) -> str:
    """Return what a flag says; what is said last counts."""
    found = ""
    for word, following in pairwise((*words, "")):
        key, equals, value = word.partition("=")
        if name and key == name:
            found = value if equals else following
    return found
