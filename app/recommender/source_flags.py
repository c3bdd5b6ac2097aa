"""Settings of where usage is read: Prometheus and external metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.flags.flags import PROMETHEUS_DURATION, SWITCH, TEXT, chosen, flag
from app.model.errors import BadSetting
from app.model.times import PrometheusDuration


@dataclass(frozen=True, slots=True)
class PrometheusFlags:
    """Prometheus."""

    address: str = flag(
        "prometheus-address", TEXT, "http://prometheus.monitoring.svc", "URL of Prometheus"
    )
    insecure: bool = flag(
        "prometheus-insecure", SWITCH, "false", "skip verification of its certificate"
    )
    ca_file: str = flag(
        "prometheus-ca-file",
        TEXT,
        "",
        "file with the CA of its certificate; empty for the system's",
    )
    cadvisor_job: str = flag(
        "prometheus-cadvisor-job-name",
        TEXT,
        "kubernetes-cadvisor",
        "job of the container metrics; empty for any",
    )
    cpu_metric: str = flag(
        "history-cpu-metric", TEXT, "container_cpu_usage_seconds_total", "metric of CPU usage"
    )
    memory_metric: str = flag(
        "history-memory-metric",
        TEXT,
        "container_memory_working_set_bytes",
        "metric of memory usage",
    )
    query_timeout: PrometheusDuration = flag(
        "prometheus-query-timeout", PROMETHEUS_DURATION, "5m", "timeout of a query"
    )
    container_namespace_label: str = flag(
        "container-namespace-label",
        TEXT,
        "namespace",
        "label of the container metrics for the namespace",
    )
    container_pod_name_label: str = flag(
        "container-pod-name-label",
        TEXT,
        "pod_name",
        "label of the container metrics for the pod",
    )
    container_name_label: str = flag(
        "container-name-label", TEXT, "name", "label of the container metrics for the container"
    )


@dataclass(frozen=True, slots=True)
class KubeletPrometheusFlags(PrometheusFlags):
    """Prometheus, with the names that current kubelets use."""

    cadvisor_job: str = flag(
        "prometheus-cadvisor-job-name", TEXT, "", "job of the container metrics; empty for any"
    )
    container_pod_name_label: str = flag(
        "container-pod-name-label", TEXT, "pod", "label of the container metrics for the pod"
    )
    container_name_label: str = flag(
        "container-name-label",
        TEXT,
        "container",
        "label of the container metrics for the container",
    )


@dataclass(frozen=True, slots=True)
class PastFlags:
    """History from Prometheus."""

    length: PrometheusDuration = flag(
        "history-length", PROMETHEUS_DURATION, "8d", "how far back history is read"
    )
    resolution: PrometheusDuration = flag(
        "history-resolution", PROMETHEUS_DURATION, "1h", "resolution of history queries"
    )
    pod_label_prefix: str = flag(
        "pod-label-prefix", TEXT, "pod_label_", "prefix of pod labels in the metric"
    )
    pod_labels_metric: str = flag(
        "metric-for-pod-labels", TEXT, 'up{job="kubernetes-pods"}', "metric with pod labels"
    )
    pod_namespace_label: str = flag(
        "pod-namespace-label", TEXT, "kubernetes_namespace", "its label for the namespace"
    )
    pod_name_label: str = flag(
        "pod-name-label", TEXT, "kubernetes_pod_name", "its label for the pod"
    )


class CloudProvider(StrEnum):
    """Whose credentials requests carry."""

    NONE = "none"
    GOOGLE = "google"
    AWS = "aws"
    AZURE = "azure"


@dataclass(frozen=True, slots=True)
class PrometheusAccessFlags:
    """Prometheus credentials: of a cloud, else a token, else user name and password."""

    username: str = flag("username", TEXT, "", "user name", "PROMETHEUS_USERNAME")
    password: str = flag("password", TEXT, "", "password", "PROMETHEUS_PASSWORD", secret=True)
    password_file: str = flag(
        "password-file", TEXT, "", "file with the password; takes precedence over the password"
    )
    token: str = flag("prometheus-bearer-token", TEXT, "", "token", secret=True)
    token_file: str = flag(
        "prometheus-bearer-token-file",
        TEXT,
        "",
        "file with the token; takes precedence over the token",
    )

    tenant: str = flag(
        "prometheus-tenant", TEXT, "", "tenant of Mimir, Cortex or Thanos: header X-Scope-OrgID"
    )
    client_certificate: str = flag(
        "prometheus-client-certificate", TEXT, "", "file with our certificate, for mutual TLS"
    )
    client_key: str = flag(
        "prometheus-client-key", TEXT, "", "file with its key; empty: the same file"
    )
    cloud: CloudProvider = flag(
        "prometheus-cloud",
        chosen(CloudProvider),
        CloudProvider.NONE,
        "credentials of a cloud, found as its own tools find them; google: of the metadata server; "
        "aws: Signature V4; azure: workload identity",
    )
    aws_region: str = flag(
        "prometheus-aws-region",
        TEXT,
        "",
        "AWS region; empty: that in the address, else $AWS_REGION",
    )
    azure_scope: str = flag(
        "prometheus-azure-scope",
        TEXT,
        "https://prometheus.monitor.azure.com/.default",
        "scope of the token of Azure",
    )

    def __post_init__(self) -> None:
        if self.username and self.token and self.token_file:
            raise BadSetting(
                "--username, --prometheus-bearer-token and --prometheus-bearer-token-file "
                "exclude one another"
            )


@dataclass(frozen=True, slots=True)
class ExternalMetricsFlags:
    """Usage from external metrics."""

    is_on: bool = flag("use-external-metrics", SWITCH, "false", "read usage from external metrics")
    cpu_metric: str = flag("external-metrics-cpu-metric", TEXT, "", "metric of CPU usage")
    memory_metric: str = flag("external-metrics-memory-metric", TEXT, "", "metric of memory usage")
