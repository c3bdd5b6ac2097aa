"""Flags that every process has: the API server, what to look at, leadership, logging."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from app.flags.flags import (
    DURATION_ABOVE_ZERO,
    GATES,
    NAMES,
    NUMBER,
    PATH,
    PATHS,
    SELECTOR,
    SWITCH,
    TEXT,
    WHOLE,
    chosen,
    flag,
    one_of,
    optional,
)
from app.model.errors import BadSetting
from app.model.gates import FeatureGate, FeatureGates
from app.model.selectors import Selector
from app.output import Output

# What upstream can be told and what changes nothing here.
NO_EFFECT: Final = "accepted; has no effect"
OWN_NAMESPACE: Final = "kube-system"

_RETRIES: Final = 1.2  # as client-go asks, so that a renewal that comes late is not one missed
_SHORTEST_LEASE: Final = timedelta(seconds=3)


def gates_flag(default: str = "") -> FeatureGates:
    """Return the field for the features that are on."""
    meaning = f"feature gates: {', '.join(FeatureGate)}, or AllAlpha for all; may be repeated"
    return flag("feature-gates", GATES, default, meaning)


def native_sidecars_flag() -> bool:
    """Return the field for whether native sidecars are treated like other containers."""
    return flag(
        "native-sidecars",
        SWITCH,
        "true",
        "treat native sidecars (init containers with restartPolicy Always) like other containers; "
        "false ignores them, and has to be set for all three components",
    )


class Horizontal(StrEnum):
    """What becomes of resources by which a HorizontalPodAutoscaler scales."""

    HOLD = "hold"
    IGNORE = "ignore"


def horizontal_flag() -> Horizontal:
    """Return the field for what becomes of resources by which replicas are scaled."""
    return flag(
        "horizontal",
        chosen(Horizontal),
        Horizontal.HOLD,
        "resources by whose utilization an HPA or KEDA scales the same workload: hold leaves their "
        "requests alone, ignore changes them as upstream does; has to be set for all three "
        "components",
    )


def role_leases_flag() -> bool:
    """Return the field for whether Leases tell which pods lead."""
    return flag(
        "role-leases",
        SWITCH,
        "false",
        "watch the Leases that VPAs name with the annotation plumbline/role-lease, to tell leaders "
        "from followers (needs the right to watch Leases); has to be set for all three components",
    )


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach the API server."""

    kubeconfig: str = flag(
        "kubeconfig",
        TEXT,
        "",
        "kubeconfig file; without one the pod's service account, else ~/.kube/config",
        "KUBECONFIG",
    )
    context: str = flag("context", TEXT, "", "context of the kubeconfig; empty for its current one")
    queries_per_second: float = flag(
        "kube-api-qps", NUMBER, "50", "requests per second to the API server"
    )
    burst: float = flag("kube-api-burst", NUMBER, "100", "requests in a burst")
    namespace: str = flag("", TEXT, OWN_NAMESPACE, "namespace of this process", "NAMESPACE")


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo."""

    is_asked: bool = flag(
        "demo",
        SWITCH,
        "false",
        "ask the in-memory cluster of a running `plumbline run`; of several the one that "
        "--kubeconfig names",
    )


@dataclass(frozen=True, slots=True)
class Offline:
    """Without a cluster."""

    objects: tuple[Path, ...] = flag(
        "objects",
        PATHS,
        "",
        "read objects from this file or folder instead of a cluster, - for standard input; may "
        "be repeated",
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection, as in kubectl."""

    namespace: str = flag(
        "namespace",
        TEXT,
        "",
        "look at this namespace; empty for that of the context, or for all in files",
        short="n",
    )
    everywhere: bool = flag("all-namespaces", SWITCH, "false", "look at all namespaces", short="A")
    selector: Selector | None = flag(
        "selector", optional(SELECTOR), "", "only objects with these labels", short="l"
    )


_HOW: Final = "output format: table, wide (never cut), json (an object a line), yaml, csv or name"


def output_flag(default: Output) -> Output:
    """Return the field for how it is printed."""
    return flag("output", chosen(Output), default, _HOW, short="o")


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """Output."""

    output: Output = output_flag(Output.TABLE)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which VPAs to handle."""

    namespace: str = flag(
        "vpa-object-namespace", TEXT, "", "VPAs of this namespace only; empty for all"
    )
    ignored_namespaces: tuple[str, ...] = flag(
        "ignored-vpa-object-namespaces", NAMES, "", "namespaces whose VPAs are ignored"
    )

    def __post_init__(self) -> None:
        if self.namespace and self.ignored_namespaces:
            raise BadSetting(
                "--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other"
            )


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Leader election."""

    is_on: bool = flag(
        "leader-elect",
        SWITCH,
        "false",
        "run several replicas, of which only the holder of the Lease works",
    )
    lease_duration: timedelta = flag(
        "leader-elect-lease-duration",
        DURATION_ABOVE_ZERO,
        "15s",
        "how long others wait after the last renewal",
    )
    renew_deadline: timedelta = flag(
        "leader-elect-renew-deadline",
        DURATION_ABOVE_ZERO,
        "10s",
        "how long the leader retries a renewal before it steps down",
    )
    retry_period: timedelta = flag(
        "leader-elect-retry-period", DURATION_ABOVE_ZERO, "2s", "time between two attempts"
    )
    resource_lock: str = flag(
        "leader-elect-resource-lock", one_of("leases"), "leases", "kind of lock"
    )
    resource_name: str = flag("leader-elect-resource-name", TEXT, "", "name of the Lease")
    resource_namespace: str = flag(
        "leader-elect-resource-namespace", TEXT, "kube-system", "namespace of the Lease"
    )

    def __post_init__(self) -> None:
        if not self.is_on:
            return
        lease, deadline = self.lease_duration, self.renew_deadline
        if not lease > deadline > _RETRIES * self.retry_period:
            raise BadSetting(
                "--leader-elect-lease-duration must be above --leader-elect-renew-deadline, "
                f"and that above {_RETRIES} times --leader-elect-retry-period"
            )
        if lease < _SHORTEST_LEASE:
            raise BadSetting(
                "--leader-elect-lease-duration must be at least 3s: a leader begins no call in "
                "the last ones"
            )


@dataclass(frozen=True, slots=True)
class PortAccess:
    """TLS and tokens on --address."""

    cert_file: Path | None = flag(
        "tls-cert-file",
        optional(PATH),
        "",
        "serve --address over TLS with this certificate, PEM; read again when it changes",
    )
    key_file: Path | None = flag("tls-private-key", optional(PATH), "", "its private key, PEM")
    tokens_over_http: bool = flag(
        "tokens-over-http",
        SWITCH,
        "false",
        "take bearer tokens from other machines also over plain HTTP, where others can read "
        "them unless something else encrypts",
    )

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise BadSetting("--tls-cert-file and --tls-private-key are given together")


@dataclass(frozen=True, slots=True)
class Profiling:
    """Profiling."""

    is_on: bool = flag("profiling", SWITCH, "false", NO_EFFECT)


@dataclass(frozen=True, slots=True)
class Logging:
    """Logging on standard error: lines of JSON, sentences for people who ask."""

    verbosity: int = flag(
        "v",
        WHOLE,
        "4",
        "log verbosity: 0 warnings and errors, 1 to 5 also what is done, from 6 on details",
    )
    stderrthreshold: str = flag("stderrthreshold", TEXT, "info", NO_EFFECT)
    vmodule: str = flag("vmodule", TEXT, "", NO_EFFECT)
    logtostderr: bool = flag("logtostderr", SWITCH, "true", NO_EFFECT)
    alsologtostderr: bool = flag("alsologtostderr", SWITCH, "false", NO_EFFECT)
    alsologtostderrthreshold: str = flag("alsologtostderrthreshold", TEXT, "", NO_EFFECT)
    legacy_threshold: bool = flag("legacy-stderr-threshold-behavior", SWITCH, "true", NO_EFFECT)
    log_dir: str = flag("log-dir", TEXT, "", NO_EFFECT)
    log_file: str = flag("log-file", TEXT, "", NO_EFFECT)
    log_file_max_size: int = flag("log-file-max-size", WHOLE, "1800", NO_EFFECT)
    log_backtrace_at: str = flag("log-backtrace-at", TEXT, "", NO_EFFECT)
    add_dir_header: bool = flag("add-dir-header", SWITCH, "false", NO_EFFECT)
    skip_headers: bool = flag("skip-headers", SWITCH, "false", NO_EFFECT)
    skip_log_headers: bool = flag("skip-log-headers", SWITCH, "false", NO_EFFECT)
    one_output: bool = flag("one-output", SWITCH, "false", NO_EFFECT)
