"""Settings of where the recommender reads usage: Prometheus and external metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from app.flags.flags import PROMETHEUS_DURATION, SWITCH, TEXT, Flag, PrometheusDuration
from app.model.errors import BadSetting


@dataclass(frozen=True, slots=True)
class PrometheusFlags:
    """History from Prometheus."""

    address: Annotated[
        str,
        Flag("prometheus-address", TEXT, "http://prometheus.monitoring.svc", "where Prometheus is"),
    ]
    insecure: Annotated[
        bool, Flag("prometheus-insecure", SWITCH, "false", "do not check its certificate")
    ]
    ca_file: Annotated[
        str,
        Flag("prometheus-ca-file", TEXT, "", "CA of its certificate; the system's unless told"),
    ]
    cadvisor_job: Annotated[
        str,
        Flag(
            "prometheus-cadvisor-job-name",
            TEXT,
            "kubernetes-cadvisor",
            "job of the container metrics; empty for any",
        ),
    ]
    length: Annotated[
        PrometheusDuration,
        Flag("history-length", PROMETHEUS_DURATION, "8d", "how far to look back"),
    ]
    resolution: Annotated[
        PrometheusDuration,
        Flag("history-resolution", PROMETHEUS_DURATION, "1h", "between two points"),
    ]
    cpu_metric: Annotated[
        str,
        Flag(
            "history-cpu-metric", TEXT, "container_cpu_usage_seconds_total", "metric of CPU usage"
        ),
    ]
    memory_metric: Annotated[
        str,
        Flag(
            "history-memory-metric",
            TEXT,
            "container_memory_working_set_bytes",
            "metric of memory usage",
        ),
    ]
    query_timeout: Annotated[
        PrometheusDuration,
        Flag("prometheus-query-timeout", PROMETHEUS_DURATION, "5m", "longest time for a query"),
    ]
    pod_label_prefix: Annotated[
        str, Flag("pod-label-prefix", TEXT, "pod_label_", "begins the names of pod labels")
    ]
    pod_labels_metric: Annotated[
        str,
        Flag("metric-for-pod-labels", TEXT, 'up{job="kubernetes-pods"}', "metric with pod labels"),
    ]
    pod_namespace_label: Annotated[
        str,
        Flag("pod-namespace-label", TEXT, "kubernetes_namespace", "its label for the namespace"),
    ]
    pod_name_label: Annotated[
        str, Flag("pod-name-label", TEXT, "kubernetes_pod_name", "its label for the pod")
    ]
    container_namespace_label: Annotated[
        str,
        Flag(
            "container-namespace-label",
            TEXT,
            "namespace",
            "label of the container metrics for the namespace",
        ),
    ]
    container_pod_name_label: Annotated[
        str,
        Flag(
            "container-pod-name-label",
            TEXT,
            "pod_name",
            "label of the container metrics for the pod",
        ),
    ]
    container_name_label: Annotated[
        str,
        Flag(
            "container-name-label", TEXT, "name", "label of the container metrics for the container"
        ),
    ]


@dataclass(frozen=True, slots=True)
class PrometheusAccessFlags:
    """Who we are to Prometheus: a token, else user name and password."""

    username: Annotated[str, Flag("username", TEXT, "", "user name", "PROMETHEUS_USERNAME")]
    password: Annotated[str, Flag("password", TEXT, "", "password", "PROMETHEUS_PASSWORD")] = field(
        repr=False
    )
    password_file: Annotated[
        str,
        Flag("password-file", TEXT, "", "file with the password; outranks the password"),
    ]
    token: Annotated[str, Flag("prometheus-bearer-token", TEXT, "", "token")] = field(repr=False)
    token_file: Annotated[
        str,
        Flag("prometheus-bearer-token-file", TEXT, "", "file with the token; outranks the token"),
    ]

    def __post_init__(self) -> None:
        if self.username and self.token and self.token_file:
            raise BadSetting(
                "--username, --prometheus-bearer-token and --prometheus-bearer-token-file "
                "exclude one another"
            )


@dataclass(frozen=True, slots=True)
class ExternalMetricsFlags:
    """Usage from external metrics."""

    is_on: Annotated[
        bool,
        Flag("use-external-metrics", SWITCH, "false", "read usage from external metrics"),
    ]
    cpu_metric: Annotated[str, Flag("external-metrics-cpu-metric", TEXT, "", "metric of CPU usage")]
    memory_metric: Annotated[
        str, Flag("external-metrics-memory-metric", TEXT, "", "metric of memory usage")
    ]
