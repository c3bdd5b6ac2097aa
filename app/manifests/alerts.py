"""What somebody should be woken for, or told in the morning.

Strategy: expressions ask only for our own series and, where only it can know, for the API
server's; none depends on how scraped jobs are called. docs/alerts.md has a heading for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.ports import Json

_RUNBOOKS: Final = "docs/alerts.md#"


class Severity(StrEnum):
    """Who hears of it."""

    CRITICAL = "critical"  # somebody, now
    WARNING = "warning"  # somebody, in the morning


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert."""

    name: str
    expression: str
    minutes: int  # it has to hold for so long
    severity: Severity
    summary: str

    def rule(self) -> Json:
        """Return it as Prometheus takes it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": f"{self.minutes}m",
            "labels": {"severity": self.severity.value},
            "annotations": {
                "summary": self.summary,
                "runbook": f"{_RUNBOOKS}{self.name.lower()}",
            },
        }


# Who is gone, or dies before its first round is over, tells nothing; that it was there within a day
# counts as no round.
_ROUNDS: Final = (
    '(sum(increase({0}_execution_latency_seconds_count{{step="total"}}[10m]))'
    ' or 0 * sum(count_over_time({0}_execution_latency_seconds_count{{step="total"}}[1d]))) == 0'
)
ALERTS: Final = (
    Alert(
        "PlumblineWebhookNotAnswering",
        "sum(increase(vpa_updater_admission_controller_status_invalid_total[5m])) > 0",
        5,
        Severity.CRITICAL,
        "The webhook's Lease is not renewed: new pods are not sized, and nobody is evicted.",
    ),
    Alert(
        "PlumblineWebhookFailsOpen",
        'sum(increase(apiserver_admission_webhook_fail_open_count{name="vpa.k8s.io"}[10m])) > 0',
        5,
        Severity.WARNING,
        "The API server gives up waiting for the webhook, and pods pass unchanged.",
    ),
    Alert(
        "PlumblinePodsLetPass",
        "sum(increase(vpa_admission_controller_failed_open_pods_total[10m])) > 0",
        10,
        Severity.WARNING,
        "The webhook lets pods pass unchanged because it cannot decide about them.",
    ),
    Alert(
        "PlumblineCertificateExpiring",
        "min(plumbline_certificate_expiry_timestamp_seconds) - time() < 3 * 86400",
        60,
        Severity.CRITICAL,
        "The webhook's certificate ends within three days and has not been replaced.",
    ),
    Alert(
        "PlumblineClusterNotSeen",
        "max by (resource) (plumbline_watch_last_event_age_seconds) > 300",
        5,
        Severity.WARNING,
        "Nothing was heard of {{ $labels.resource }} for minutes: decisions rest on old knowledge.",
    ),
    Alert(
        "PlumblineRecommenderBehind",
        _ROUNDS.format("vpa_recommender"),
        5,
        Severity.CRITICAL,
        "The recommender finishes no round, or is gone: recommendations stand still.",
    ),
    Alert(
        "PlumblineUsageNotRead",
        'sum(rate(vpa_recommender_metric_server_responses{is_error="true"}[10m]))'
        " > 0.5 * sum(rate(vpa_recommender_metric_server_responses[10m]))",
        10,
        Severity.WARNING,
        "Most questions about usage fail: recommendations are not learning.",
    ),
    Alert(
        "PlumblineCheckpointsFailing",
        'sum(increase(vpa_recommender_failed_writes_total{object="checkpoint"}[10m])) > 0',
        30,
        Severity.WARNING,
        "Checkpoints are not stored: a restart would lose what was learnt since.",
    ),
    Alert(
        "PlumblineVpasOverlap",
        "max(vpa_recommender_overlapping_pods) > 0",
        15,
        Severity.WARNING,
        "Pods are claimed by more than one VPA; only one of them counts.",
    ),
    Alert(
        "PlumblineUpdaterBehind",
        _ROUNDS.format("vpa_updater"),
        5,
        Severity.WARNING,
        "The updater finishes no round, or is gone: pods keep sizes that are off.",
    ),
    Alert(
        "PlumblineEvictionBreakerOpen",
        'sum(vpa_updater_pod_decisions{reason="RecreatedWithoutChange"}) > 0',
        10,
        Severity.WARNING,
        "Evicted pods came back without their new size; their workloads are left alone.",
    ),
    Alert(
        "PlumblineUnboostStuck",
        'sum(vpa_updater_pod_decisions{reason="UnboostStuck"}) > 0',
        10,
        Severity.WARNING,
        "Pods keep their start-up boost after its end, because their resize does not succeed.",
    ),
)


def groups() -> Json:
    """Return the alerts as a file of rules that Prometheus itself reads."""
    return {"groups": [{"name": "plumbline", "rules": [one.rule() for one in ALERTS]}]}
