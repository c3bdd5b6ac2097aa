"""Flags that every process has: the API server, what to look at, leadership, logging."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

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
    Flag,
    chosen,
    one_of,
    optional,
)
from app.model.errors import BadSetting
from app.model.gates import FeatureGate
from app.model.selectors import Selector
from app.output import Output

# What upstream can be told and what changes nothing here.
NO_EFFECT: Final = "accepted; has no effect"
OWN_NAMESPACE: Final = "kube-system"

_RETRIES: Final = 1.2  # as client-go asks, so that a renewal that comes late is not one missed
_SHORTEST_LEASE: Final = timedelta(seconds=3)


def feature_gates(default: str = "") -> Flag:
    """Return the flag that switches features."""
    meaning = f"features to switch: {', '.join(FeatureGate)}, or AllAlpha for all; may be repeated"
    return Flag("feature-gates", GATES, default, meaning)


NativeSidecars = Annotated[
    bool,
    Flag(
        "native-sidecars",
        SWITCH,
        "true",
        "treat native sidecars (init containers with restartPolicy Always) like other containers; "
        "false leaves them alone, and is to be told to all three processes",
    ),
]


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach the API server."""

    kubeconfig: Annotated[
        str,
        Flag(
            "kubeconfig",
            TEXT,
            "",
            "kubeconfig file; without one the pod's service account is used",
            "KUBECONFIG",
        ),
    ]
    context: Annotated[
        str, Flag("context", TEXT, "", "context of the kubeconfig; empty for its current one")
    ]
    queries_per_second: Annotated[
        float, Flag("kube-api-qps", NUMBER, "50", "requests per second to the API server")
    ]
    burst: Annotated[float, Flag("kube-api-burst", NUMBER, "100", "requests that may come at once")]
    namespace: Annotated[
        str, Flag("", TEXT, OWN_NAMESPACE, "the namespace this process lives in", "NAMESPACE")
    ]


@dataclass(frozen=True, slots=True)
class Offline:
    """Without a cluster."""

    objects: Annotated[
        tuple[Path, ...],
        Flag(
            "objects",
            PATHS,
            "",
            "use the objects in these files and folders instead of a cluster's",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects, as kubectl has it."""

    namespace: Annotated[
        str,
        Flag(
            "namespace",
            TEXT,
            "",
            "look at this namespace; empty for that of the context, or for all in files",
            short="n",
        ),
    ]
    everywhere: Annotated[
        bool, Flag("all-namespaces", SWITCH, "false", "look at all namespaces", short="A")
    ]
    selector: Annotated[
        Selector | None,
        Flag("selector", optional(SELECTOR), "", "show what has such labels", short="l"),
    ]


_HOW: Final = (
    "a table for people; json (an object a line), yaml or csv for programs; name for other commands"
)
AsTable = Annotated[Output, Flag("output", chosen(Output), Output.TABLE, _HOW, short="o")]
AsJson = Annotated[Output, Flag("output", chosen(Output), Output.JSON, _HOW, short="o")]
AsYaml = Annotated[Output, Flag("output", chosen(Output), Output.YAML, _HOW, short="o")]


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How it is shown."""

    output: AsTable


@dataclass(frozen=True, slots=True)
class Scope:
    """What to look at."""

    namespace: Annotated[
        str, Flag("vpa-object-namespace", TEXT, "", "look at this namespace only; empty for all")
    ]
    ignored_namespaces: Annotated[
        tuple[str, ...],
        Flag("ignored-vpa-object-namespaces", NAMES, "", "namespaces to leave alone"),
    ]

    def __post_init__(self) -> None:
        if self.namespace and self.ignored_namespaces:
            raise BadSetting(
                "--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other"
            )


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Leader election."""

    is_on: Annotated[
        bool,
        Flag("leader-elect", SWITCH, "false", "work only while holding the Lease"),
    ]
    lease_duration: Annotated[
        timedelta,
        Flag(
            "leader-elect-lease-duration",
            DURATION_ABOVE_ZERO,
            "15s",
            "others wait so long after the last renewal",
        ),
    ]
    renew_deadline: Annotated[
        timedelta,
        Flag(
            "leader-elect-renew-deadline",
            DURATION_ABOVE_ZERO,
            "10s",
            "the leader steps down when it could not renew for so long",
        ),
    ]
    retry_period: Annotated[
        timedelta,
        Flag("leader-elect-retry-period", DURATION_ABOVE_ZERO, "2s", "between two attempts"),
    ]
    resource_lock: Annotated[
        str, Flag("leader-elect-resource-lock", one_of("leases"), "leases", "what is held")
    ]
    resource_name: Annotated[str, Flag("leader-elect-resource-name", TEXT, "", "name of the Lease")]
    resource_namespace: Annotated[
        str,
        Flag("leader-elect-resource-namespace", TEXT, "kube-system", "namespace of the Lease"),
    ]

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
    """How the port is reached."""

    cert_file: Annotated[
        Path | None,
        Flag(
            "tls-cert-file",
            optional(PATH),
            "",
            "serve --address over TLS with this certificate, PEM; read again when it changes",
        ),
    ]
    key_file: Annotated[
        Path | None, Flag("tls-private-key", optional(PATH), "", "its private key, PEM")
    ]
    tokens_over_http: Annotated[
        bool,
        Flag(
            "tokens-over-http",
            SWITCH,
            "false",
            "take bearer tokens from other machines also over plain HTTP, where others can read "
            "them unless something else encrypts",
        ),
    ]

    def __post_init__(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise BadSetting("--tls-cert-file and --tls-private-key are given together")


@dataclass(frozen=True, slots=True)
class Profiling:
    """Profiling."""

    is_on: Annotated[bool, Flag("profiling", SWITCH, "false", NO_EFFECT)]


@dataclass(frozen=True, slots=True)
class Logging:
    """Logging: lines of JSON on standard error."""

    verbosity: Annotated[int, Flag("v", WHOLE, "4", "how much is logged; 0 says least")]
    stderrthreshold: Annotated[str, Flag("stderrthreshold", TEXT, "info", NO_EFFECT)]
    vmodule: Annotated[str, Flag("vmodule", TEXT, "", NO_EFFECT)]
    logtostderr: Annotated[bool, Flag("logtostderr", SWITCH, "true", NO_EFFECT)]
    alsologtostderr: Annotated[bool, Flag("alsologtostderr", SWITCH, "false", NO_EFFECT)]
    alsologtostderrthreshold: Annotated[str, Flag("alsologtostderrthreshold", TEXT, "", NO_EFFECT)]
    legacy_threshold: Annotated[
        bool, Flag("legacy-stderr-threshold-behavior", SWITCH, "true", NO_EFFECT)
    ]
    log_dir: Annotated[str, Flag("log-dir", TEXT, "", NO_EFFECT)]
    log_file: Annotated[str, Flag("log-file", TEXT, "", NO_EFFECT)]
    log_file_max_size: Annotated[int, Flag("log-file-max-size", WHOLE, "1800", NO_EFFECT)]
    log_backtrace_at: Annotated[str, Flag("log-backtrace-at", TEXT, "", NO_EFFECT)]
    add_dir_header: Annotated[bool, Flag("add-dir-header", SWITCH, "false", NO_EFFECT)]
    skip_headers: Annotated[bool, Flag("skip-headers", SWITCH, "false", NO_EFFECT)]
    skip_log_headers: Annotated[bool, Flag("skip-log-headers", SWITCH, "false", NO_EFFECT)]
    one_output: Annotated[bool, Flag("one-output", SWITCH, "false", NO_EFFECT)]
