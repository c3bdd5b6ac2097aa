"""Alerts under Prometheus' own tool: they load, they fire when they should, and only then."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from app.ports import Json
from tests.kube.manifests.monitored import ALERTS, DEPLOY, FLEET, RULES, WORKLOAD, panels

PROMTOOL = shutil.which("promtool")
MINUTES = 120
Series = Mapping[str, str]  # values as promtool writes them

pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not here: install Debian's package prometheus"
)

# For each alert what makes it fire, and what must not.
CASES: Mapping[str, tuple[Series, Series]] = {
    "PlumblineWebhookNotAnswering": (
        {'vpa_updater_admission_controller_status_invalid_total{reason="stale"}': "0+1x120"},
        {'vpa_updater_admission_controller_status_invalid_total{reason="stale"}': "7x120"},
    ),
    "PlumblineWebhookFailsOpen": (
        {'apiserver_admission_webhook_fail_open_count{name="vpa.k8s.io"}': "0+1x120"},
        {'apiserver_admission_webhook_fail_open_count{name="other"}': "0+1x120"},
    ),
    "PlumblinePodsLetPass": (
        {'vpa_admission_controller_failed_open_pods_total{reason="OwnerUnknown"}': "0+1x120"},
        {'vpa_admission_controller_failed_open_pods_total{reason="OwnerUnknown"}': "3x120"},
    ),
    "PlumblineWorkersReplaced": (
        {
            'vpa_admission_controller_replaced_workers_total{reason="hung"}': "0+1x120",
            'vpa_admission_controller_replaced_workers_total{reason="ended"}': "0x120",
        },
        {'vpa_admission_controller_replaced_workers_total{reason="ended"}': "0x100 1x20"},
    ),
    "PlumblineCertificateExpiring": (
        {'plumbline_certificate_expiry_timestamp_seconds{certificate="serving"}': "86400x120"},
        {'plumbline_certificate_expiry_timestamp_seconds{certificate="serving"}': "900000x120"},
    ),
    "PlumblineClusterNotSeen": (
        {'plumbline_watch_last_event_age_seconds{resource="pods"}': "400x120"},
        {'plumbline_watch_last_event_age_seconds{resource="pods"}': "60x120"},
    ),
    "PlumblineRecommenderBehind": (
        {'vpa_recommender_execution_latency_seconds_count{step="total"}': "9x120"},
        {
            'vpa_recommender_execution_latency_seconds_count{step="total",pod="a"}': "0+1x120",
            'vpa_recommender_execution_latency_seconds_count{step="total",pod="b"}': "0x120",
        },
    ),
    "PlumblineUsageNotRead": (
        {
            'vpa_recommender_metric_server_responses{is_error="true"}': "0+3x120",
            'vpa_recommender_metric_server_responses{is_error="false"}': "0+1x120",
        },
        {
            'vpa_recommender_metric_server_responses{is_error="true"}': "0+1x120",
            'vpa_recommender_metric_server_responses{is_error="false"}': "0+3x120",
        },
    ),
    "PlumblineCheckpointsFailing": (
        {'vpa_recommender_failed_writes_total{object="checkpoint"}': "0+1x120"},
        {'vpa_recommender_failed_writes_total{object="status"}': "0+1x120"},
    ),
    "PlumblineVpasOverlap": (
        {'vpa_recommender_overlapping_pods{namespace="shop"}': "2x120"},
        {'vpa_recommender_overlapping_pods{namespace="shop"}': "0x120"},
    ),
    "PlumblineUpdaterBehind": (
        {'vpa_updater_execution_latency_seconds_count{step="total"}': "9x120"},
        {'vpa_updater_execution_latency_seconds_count{step="total"}': "0+1x120"},
    ),
    "PlumblineEvictionBreakerOpen": (
        {'vpa_updater_pod_decisions{reason="RecreatedWithoutChange"}': "1x120"},
        {'vpa_updater_pod_decisions{reason="NoChange"}': "100x120"},
    ),
    "PlumblineUnboostStuck": (
        {'vpa_updater_pod_decisions{reason="UnboostStuck"}': "1x120"},
        {'vpa_updater_pod_decisions{reason="BoostRunning"}': "1x120"},
    ),
}


def promtool(*words: str) -> str:
    """Return what promtool says; it must have nothing against it."""
    done = subprocess.run(
        [str(PROMTOOL), *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rules_load() -> None:
    """Prometheus takes every rule."""
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(RULES))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alerts_fire(alert: Json, tmp_path: Path) -> None:
    """An alert fires for what it is about, after its time, and for nothing else."""
    fires, quiet = CASES[alert["alert"]]
    _try([_case(fires, alert, [MINUTES]), _case(quiet, alert, []), _case({}, alert, [])], tmp_path)


@pytest.mark.parametrize("process", ["recommender", "updater"])
def test_who_is_gone_is_missed(process: str, tmp_path: Path) -> None:
    """A process that tells nothing any more, or starts again and again, finishes no round."""
    alert = next(one for one in ALERTS if one["alert"] == f"Plumbline{process.title()}Behind")
    rounds = f'vpa_{process}_execution_latency_seconds_count{{step="total"}}'
    alive = {'up{pod="a"}': "1x120"}
    _try([_case({rounds: "0+1x30 _x90", **alive}, alert, [MINUTES])], tmp_path)


def _try(cases: list[dict[str, object]], folder: Path) -> None:
    """Let promtool see what becomes of cases."""
    file = folder / "alerts.test.yaml"
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}
    file.write_text(yaml.safe_dump(document), encoding="utf-8")

    promtool("test", "rules", str(file))


def _case(series: Series, alert: Json, firing_at: list[int]) -> dict[str, object]:
    labels = dict(alert["labels"])
    if "by (resource)" in alert["expr"]:
        labels["resource"] = "pods"
    notes = {
        name: text.replace("{{ $labels.resource }}", "pods")
        for name, text in alert["annotations"].items()
    }
    expected = [{"exp_labels": labels, "exp_annotations": notes}] if firing_at else []
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{MINUTES}m", "alertname": alert["alert"], "exp_alerts": expected}
        ],
    }


def test_panels_are_queries(tmp_path: Path) -> None:
    """Every query of a panel is PromQL: as a recording rule Prometheus takes each."""
    found = [*panels(FLEET), *panels(WORKLOAD)]
    queries = [query for _, expressions in found for query in expressions]
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(queries)
    ]
    assert f"{len(queries)} rules found" in checked(rules, tmp_path)


def checked(rules: list[dict[str, str]], folder: Path) -> str:
    """Return what promtool says of rules."""
    file = folder / "panels.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    return promtool("check", "rules", str(file))


def test_an_invalid_query_is_found(tmp_path: Path) -> None:
    """The tool does complain: a query with a mistake does not pass."""
    rules = [{"record": "panel:0", "expr": "sum(rate(vpa_updater_evicted_pods_total[5m])"}]
    with pytest.raises(AssertionError, match="parse error"):
        checked(rules, tmp_path)


def test_what_the_page_says_to_scrape(tmp_path: Path) -> None:
    """Prometheus takes the configuration that stands in the documentation.

    Debian's does not know how to find pods, so that is left out; nor is a token or a CA here.
    """
    page = (DEPLOY.parent / "docs/installing.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(scrape_configs:.*?)```", page, re.DOTALL)
    told = yaml.safe_load(block)
    for job in told["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs")
    file = tmp_path / "prometheus.yaml"
    file.write_text(yaml.safe_dump(told), encoding="utf-8")

    promtool("check", "config", "--syntax-only", str(file))
