"""The dashboards that are shipped: the fleet, and one workload.

Strategy: queries ask by names of series alone, so that a dashboard works however jobs are called.
"""

from __future__ import annotations

from typing import Final

from app.manifests.grafana import COLUMNS, Dashboard, Panel, Query, Row


def _quantiles(series: str, by: str = "", label: str = "") -> tuple[Query, ...]:
    """Return the median and the 99th percentile of a histogram."""
    grouped = f"le, {by}" if by else "le"
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by ({grouped}) (rate({series}[$__rate_interval])))",
            f"{name}{f' {{{{{label}}}}}' if label else ''}",
        )
        for share, name in (("0.5", "median"), ("0.99", "p99"))
    )


def _rates(series: str, by: str, factor: str = "") -> Query:
    return Query(f"sum by ({by}) (rate({series}[$__rate_interval])){factor}", f"{{{{{by}}}}}")


def _mean_steps(prefix: str) -> Query:
    series = f"{prefix}_execution_latency_seconds"
    times, counts = (
        f"sum by (step) (rate({series}_{part}[$__rate_interval]))" for part in ("sum", "count")
    )
    return Query(f"{times} / {counts}", "{{step}}")


_PER_MINUTE: Final = " * 60"
FLEET: Final = Dashboard(
    uid="plumbline-fleet",
    title="Plumbline / Fleet",
    rows=(
        Row(
            "Recommendations",
            (
                Panel(
                    "VPAs",
                    (
                        Query(
                            "sum by (update_mode) (vpa_recommender_vpa_objects_count)",
                            "{{update_mode}}",
                        ),
                        Query(
                            'sum(vpa_recommender_vpa_objects_count{has_recommendation="false"})',
                            "without a recommendation",
                        ),
                        Query(
                            'sum(vpa_recommender_vpa_objects_count{matches_pods="false"})',
                            "without pods",
                        ),
                    ),
                ),
                Panel(
                    "Slack: recommended above used, as a share",
                    tuple(
                        Query(
                            "-histogram_quantile(0.5, sum by (le) (rate("
                            "vpa_quality_usage_recommendation_relative_diffs_bucket"
                            f'{{resource="{resource}"}}[$__rate_interval])))',
                            f"{resource}, median",
                        )
                        for resource in ("cpu", "memory")
                    ),
                    "percentunit",
                    "Half of all usage samples are further below their recommendation.",
                ),
                Panel(
                    "Claims that overlap, histories",
                    (
                        Query("sum(vpa_recommender_overlapping_pods)", "overlapping pods"),
                        Query("vpa_recommender_aggregate_container_states_count", "histories"),
                    ),
                ),
            ),
        ),
        Row(
            "Actions and refusals",
            (
                Panel(
                    "Actions a minute",
                    (
                        Query(
                            "sum(rate(vpa_updater_evicted_pods_total[$__rate_interval]))"
                            f"{_PER_MINUTE}",
                            "evicted",
                        ),
                        Query(
                            "sum(rate(vpa_updater_in_place_updated_pods_total[$__rate_interval]))"
                            f"{_PER_MINUTE}",
                            "resized",
                        ),
                    ),
                ),
                Panel(
                    "Pods by what was decided about them",
                    (Query("sum by (reason) (vpa_updater_pod_decisions)", "{{reason}}"),),
                    about="docs/updating.md explains each reason.",
                    is_stacked=True,
                ),
                Panel(
                    "Failures a minute",
                    (
                        _rates("vpa_updater_failed_eviction_attempts_total", "reason", _PER_MINUTE),
                        _rates(
                            "vpa_updater_failed_in_place_update_attempts_total",
                            "reason",
                            _PER_MINUTE,
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Webhook",
            (
                Panel(
                    "Reviews a second",
                    (_rates("vpa_admission_controller_admission_latency_seconds_count", "status"),),
                    "reqps",
                ),
                Panel(
                    "Time to answer",
                    _quantiles("vpa_admission_controller_admission_latency_seconds_bucket"),
                    "s",
                ),
                Panel(
                    "As the API server sees it",
                    (
                        *_quantiles(
                            "apiserver_admission_webhook_admission_duration_seconds_bucket"
                            '{name="vpa.k8s.io"}'
                        ),
                    ),
                    "s",
                ),
                Panel(
                    "Pods that no VPA changes, a second",
                    (_rates("vpa_admission_controller_skipped_pods_total", "reason"),),
                    about="docs/webhook.md explains each reason.",
                    is_stacked=True,
                ),
                Panel(
                    "Let pass undecided, refused, a minute",
                    (
                        _rates(
                            "vpa_admission_controller_failed_open_pods_total", "reason", _PER_MINUTE
                        ),
                        _rates(
                            "vpa_admission_controller_refused_vpas_total", "reason", _PER_MINUTE
                        ),
                    ),
                ),
                Panel(
                    "Certificates end in",
                    (
                        Query(
                            "min by (certificate) "
                            "(plumbline_certificate_expiry_timestamp_seconds) - time()",
                            "{{certificate}}",
                        ),
                    ),
                    "s",
                ),
            ),
        ),
        Row(
            "Loops",
            (
                Panel("Recommender, by step", (_mean_steps("vpa_recommender"),), "s"),
                Panel("Updater, by step", (_mean_steps("vpa_updater"),), "s"),
                Panel(
                    "What was not heard of for",
                    (
                        Query(
                            "max by (resource) (plumbline_watch_last_event_age_seconds)",
                            "{{resource}}",
                        ),
                    ),
                    "s",
                ),
            ),
        ),
    ),
)

_CONTAINER: Final = 'namespace="$namespace", container="$container"'


def _against_usage(resource: str, usage: str, unit: str) -> Panel:
    bounds = f'plumbline_recommendation{{{_CONTAINER}, vpa="$vpa", resource="{resource}"}}'
    requests = f'kube_pod_container_resource_requests{{{_CONTAINER}, resource="{resource}"}}'
    return Panel(
        f"{resource}: usage against request, target and bounds",
        (
            Query(f"max({usage})", "used, the busiest pod"),
            Query(f"max({requests})", "requested"),
            Query(f"max by (bound) ({bounds})", "{{bound}}"),
        ),
        unit,
        width=COLUMNS // 2,
    )


WORKLOAD: Final = Dashboard(
    uid="plumbline-workload",
    title="Plumbline / Workload",
    variables=(
        ("namespace", "label_values(plumbline_recommendation, namespace)"),
        ("vpa", 'label_values(plumbline_recommendation{namespace="$namespace"}, vpa)'),
        (
            "container",
            'label_values(plumbline_recommendation{namespace="$namespace", vpa="$vpa"}, container)',
        ),
    ),
    rows=(
        Row(
            "Usage and recommendation",
            (
                _against_usage(
                    "cpu",
                    f"rate(container_cpu_usage_seconds_total{{{_CONTAINER}}}[$__rate_interval])",
                    "short",
                ),
                _against_usage(
                    "memory", f"container_memory_working_set_bytes{{{_CONTAINER}}}", "bytes"
                ),
            ),
        ),
        Row(
            "What was done",
            tuple(
                Panel(
                    title,
                    (
                        Query(
                            f'sum(increase({series}{{vpa_namespace="$namespace", vpa_name="$vpa"}}'
                            "[$__rate_interval]))",
                            title.lower(),
                        ),
                    ),
                    width=COLUMNS // 2,
                )
                for title, series in (
                    ("Evicted", "vpa_updater_evicted_pods_total"),
                    ("Resized", "vpa_updater_in_place_updated_pods_total"),
                )
            ),
        ),
    ),
)
