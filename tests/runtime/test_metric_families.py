"""What is published has upstream's names, labels and buckets, from one process or from many."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from app.admission.metrics import AdmissionMetrics, Step
from app.kube.watch_cache import WatchAge
from app.model.update_modes import UpdateMode
from app.recommender.metrics import (
    QualityMetrics,
    RecommenderMetrics,
    ResourcesSource,
    Written,
)
from app.runtime.exposition import CONTENT_TYPE, ProcessMetrics, new_registry, render
from app.runtime.metric_families import size_log2
from app.updater import metrics as updater
from app.updater.metrics import (
    BreakerScope,
    EvictionFailure,
    LeaseTrouble,
    PerRound,
    ResizeFailure,
    Round,
    UpdaterMetrics,
    VpaLabels,
)
from tests import make
from tests.cases import cases

EXECUTION: Final = (
    "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 30 40 50 60 70 80 90 100 120 150 240 300 +Inf"
)
ANSWER: Final = "0.01 0.02 0.05 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 2 5 10 20 30 60 120 300 +Inf"
RELATIVE: Final = (
    "-1 -0.75 -0.5 -0.25 -0.1 -0.05 -0.025 -0.01 -0.005 -0.0025 -0.001 0 "
    "0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 0.75 1 2.5 5 10 25 50 100 +Inf"
)
CORES: Final = (
    "0.01 0.02 0.04 0.08 0.16 0.32 0.64 1.28 2.56 5.12 10.24 20.48 40.96 81.92 163.84 "
    "327.68 655.36 +Inf"
)
BYTES: Final = (
    "1e+06 2e+06 4e+06 8e+06 1.6e+07 3.2e+07 6.4e+07 1.28e+08 2.56e+08 5.12e+08 1.024e+09 "
    "2.048e+09 4.096e+09 8.192e+09 1.6384e+10 3.2768e+10 6.5536e+10 +Inf"
)
VPA: Final = VpaLabels(pods=5, mode="Recreate", name="web", namespace="default")


def exercise_admission(registry: CollectorRegistry) -> None:
    """Let every metric of the webhook have a series."""
    metrics = AdmissionMetrics(registry)
    metrics.pod(applied=True)
    metrics.review("applied", "Pod", 0.003)
    metrics.timer(Step.ADMIT)(0.001)
    metrics.pod_skipped("NoVpa")
    metrics.pod_failed_open("BadPod")
    metrics.vpa_refused("FieldValueInvalid")
    metrics.settle()


def exercise_updater(registry: CollectorRegistry) -> None:
    """Let every metric of the updater have a series."""
    metrics = UpdaterMetrics(registry)
    found = Round()
    for each in PerRound:
        found.add(each, VPA)
    metrics.publish(found)
    metrics.show(VPA, has_selector=False, has_boost=False)
    metrics.eviction_failed(VPA, EvictionFailure.ERROR)
    metrics.resize_failed(VPA, ResizeFailure.UNBOOST)
    metrics.skipped_infeasible(VPA)
    metrics.without_webhook(LeaseTrouble.INVALID)
    metrics.decided({"NoChange": 1})
    metrics.opened(BreakerScope.CLUSTER, 1)
    metrics.step(updater.RoundStep.TOTAL, 1)


def exercise_recommender(registry: CollectorRegistry) -> None:
    """Let every metric of the recommender have a series."""
    metrics = RecommenderMetrics(registry)
    metrics.vpas([])
    metrics.first_recommendation(3)
    metrics.step("LoadVPAs", 1)
    metrics.aggregates(7)
    metrics.usage_answer("default-metrics-client", is_error=False)
    metrics.prometheus_request("200", "GET", 0.1)
    metrics.resources_read(ResourcesSource.SPEC)
    metrics.overlaps({"default": 1})
    metrics.fates({"cpu": 1})
    metrics.write_failed(Written.STATUS)
    metrics.write_put_off(Written.CHECKPOINT)


def exercise_quality(registry: CollectorRegistry) -> None:
    """Let every metric of the quality of recommendations have a series."""
    metrics = QualityMetrics(registry)
    for used, recommended in ((1.0, 2.0), (2.0, 1.0), (1.0, 0.0)):
        metrics.compare("Auto", "cpu", used, recommended)
        metrics.compare("Auto", "memory", used, recommended, is_oom=False)
    metrics.changed("Auto", "cpu", 3, 1.0, 2.0)


def exercise_process(registry: CollectorRegistry) -> None:
    """Let every metric of the process itself have a series."""
    metrics = ProcessMetrics(registry, "1.2.3")
    metrics.watch_age("pods", WatchAge(3))
    metrics.watch_age("horizontalpodautoscalers", WatchAge(3, is_unknown=True))
    metrics.certificate_expires(datetime(2026, 1, 5, tzinfo=UTC))


def text_of(exercise: Callable[[CollectorRegistry], None]) -> str:
    """Return what a scrape says after an exercise."""
    registry = CollectorRegistry()
    exercise(registry)
    return render(registry).decode()


PUBLISHED: Final = [
    (exercise_admission, "vpa_admission_controller_", [
        ("admission_pods_total", "counter", "applied", ""),
        ("admission_latency_seconds", "histogram", "resource status", ANSWER),
        ("execution_latency_seconds", "histogram", "step", EXECUTION),
        ("skipped_pods_total", "counter", "reason", ""),
        ("failed_open_pods_total", "counter", "reason", ""),
        ("refused_vpas_total", "counter", "reason", ""),
        ("dropped_reviews_total", "counter", "reason", ""),
    ]),
    (exercise_updater, "vpa_updater_", [
        ("plumbline_role_changes_total", "counter", "", ""),
        ("controlled_pods_total", "gauge", "update_mode vpa_size_log2", ""),
        ("evictable_pods_total", "gauge", "update_mode vpa_size_log2", ""),
        ("vpas_with_evictable_pods_total", "gauge", "update_mode vpa_size_log2", ""),
        ("vpas_with_evicted_pods_total", "gauge", "update_mode vpa_size_log2", ""),
        ("in_place_updatable_pods_total", "gauge", "vpa_size_log2", ""),
        ("vpas_with_in_place_updatable_pods_total", "gauge", "vpa_size_log2", ""),
        ("vpas_with_in_place_updated_pods_total", "gauge", "vpa_size_log2", ""),
        ("evicted_pods_total", "counter",
            "update_mode vpa_name vpa_namespace vpa_size_log2", ""),
        ("failed_eviction_attempts_total", "counter",
            "reason update_mode vpa_name vpa_namespace vpa_size_log2", ""),
        ("in_place_updated_pods_total", "counter", "vpa_name vpa_namespace vpa_size_log2", ""),
        ("failed_in_place_update_attempts_total", "counter",
            "reason vpa_name vpa_namespace vpa_size_log2", ""),
        ("in_place_infeasible_skip_pods_total", "counter",
            "vpa_name vpa_namespace vpa_size_log2", ""),
        ("admission_controller_status_invalid_total", "counter", "reason", ""),
        ("pod_decisions", "gauge", "reason", ""),
        ("open_breakers", "gauge", "scope", ""),
        ("execution_latency_seconds", "histogram", "step", EXECUTION),
    ]),
    (exercise_recommender, "vpa_", [
        ("recommender_vpa_objects_count", "gauge",
            "api has_recommendation matches_pods unsupported_config update_mode", ""),
        ("recommender_recommendation_latency_seconds", "histogram", "",
            "1 2 5 7.5 10 20 30 40 50 60 90 120 150 180 240 300 600 900 1800 +Inf"),
        ("recommender_execution_latency_seconds", "histogram", "step", EXECUTION),
        ("recommender_aggregate_container_states_count", "gauge", "", ""),
        ("recommender_metric_server_responses", "counter", "client_name is_error", ""),
        ("recommender_prometheus_client_api_requests_count", "counter", "code method", ""),
        ("recommender_prometheus_client_api_requests_duration_seconds", "histogram",
            "code method", ANSWER),
        ("recommender_overlapping_pods", "gauge", "namespace", ""),
        ("recommender_samples_total", "counter", "fate", ""),
        ("recommender_failed_writes_total", "counter", "object", ""),
        ("recommender_put_off_writes_total", "counter", "object", ""),
        ("recommender_refused_checkpoints_total", "counter", "", ""),
        ("recommender_left_out_objects_total", "counter", "", ""),
        ("resources_get_resources_count", "counter", "source", ""),
    ]),
    (exercise_quality, "vpa_quality_", [
        ("usage_recommendation_relative_diffs", "histogram", "is_oom resource update_mode",
            RELATIVE),
        ("usage_sample_missing_recommendation_count", "counter",
            "is_oom resource update_mode", ""),
        ("cpu_recommendation_over_usage_diffs_cores", "histogram",
            "recommendation_missing update_mode", CORES),
        ("cpu_recommendation_lower_equal_usage_diffs_cores", "histogram",
            "recommendation_missing update_mode", CORES),
        ("mem_recommendation_over_usage_diffs_bytes", "histogram",
            "is_oom recommendation_missing update_mode", BYTES),
        ("mem_recommendation_lower_equal_usage_diffs_bytes", "histogram",
            "is_oom recommendation_missing update_mode", BYTES),
        ("cpu_recommendations_cores", "histogram", "update_mode", CORES),
        ("mem_recommendations_bytes", "histogram", "is_oom update_mode", BYTES),
        ("relative_recommendation_changes", "histogram", "resource update_mode vpa_size_log2",
            RELATIVE),
    ]),
    (exercise_process, "plumbline_", [
        ("watch_last_event_age_seconds", "gauge", "resource", ""),
        ("horizontal_unknown", "gauge", "resource", ""),
        ("certificate_expiry_timestamp_seconds", "gauge", "certificate", ""),
        ("build_info", "gauge", "version", ""),
    ]),
]  # fmt: skip


def described(text: str) -> list[tuple[str, str, str, str]]:
    """Return name, type, labels and buckets of every metric of a scrape."""
    found = []
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        suffix = "(?:_bucket|_sum|_count)" if kind == "histogram" else ""
        series = re.findall(rf"^{name}{suffix}(?:{{(.*)}})? \S+$", text, re.MULTILINE)
        labels = {label for each in series for label in re.findall(r'(\w+)="', each)} - {"le"}
        bounds = dict.fromkeys(re.findall(rf'^{name}_bucket{{.*le="(.*?)"', text, re.MULTILINE))
        found.append((name, kind, " ".join(sorted(labels)), " ".join(bounds)))
    return found


@pytest.mark.parametrize(
    ("exercise", "prefix", "expected"), PUBLISHED, ids=[entry[0].__name__ for entry in PUBLISHED]
)
def test_names_types_labels_and_buckets(
    exercise: Callable[[CollectorRegistry], None],
    prefix: str,
    expected: list[tuple[str, str, str, str]],
) -> None:
    """Nothing is published beside these metrics, and none under another name."""
    ours = "plumbline_"  # what upstream's process has no like of
    wanted = [(name if name.startswith(ours) else prefix + name, *rest) for name, *rest in expected]
    assert sorted(described(text_of(exercise))) == sorted(wanted)


def test_reviews_are_counted_and_timed() -> None:
    """An observation lands in the series of its labels; both kinds of pods show from the start."""
    text = text_of(exercise_admission)
    assert 'vpa_admission_controller_admission_pods_total{applied="true"} 1.0' in text
    assert 'vpa_admission_controller_admission_pods_total{applied="false"} 0.0' in text
    series = (
        'vpa_admission_controller_admission_latency_seconds_{}resource="Pod",status="applied"}}'
    )
    assert f"{series.format('count{')} 1.0" in text
    assert f"{series.format('sum{')} 0.003" in text


def test_a_round_replaces_the_one_before() -> None:
    """Gauges tell the last round alone; sizes without a mode stay, at zero."""
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    before = Round()
    before.add(PerRound.CONTROLLED_PODS, VPA, 5)
    before.add(PerRound.IN_PLACE_UPDATABLE_PODS, VPA, 2)
    metrics.publish(before)
    name = "vpa_updater_controlled_pods_total"
    text = render(registry).decode()
    assert f'{name}{{update_mode="Recreate",vpa_size_log2="2"}} 5.0' in text
    assert 'vpa_updater_in_place_updatable_pods_total{vpa_size_log2="2"} 2.0' in text
    metrics.publish(Round())
    text = render(registry).decode()
    assert f"{name}{{" not in text
    sizes = re.findall(r'updatable_pods_total\{vpa_size_log2="(\d+)"\} 0.0', text)
    assert sizes.count("19") == 2
    assert "20" not in sizes


def test_evictions_and_resizes_are_counted() -> None:
    """A VPA's counters are visible at zero and grow with what is done for it."""
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    metrics.show(VPA, has_selector=False, has_boost=False)
    labels = {"vpa_size_log2": "2", "vpa_name": "web", "vpa_namespace": "default"}
    evicted = ("evicted_pods_total", labels | {"update_mode": "Recreate"})
    resized = ("in_place_updated_pods_total", labels)

    def value(name: str, labels: dict[str, str]) -> float | None:
        return registry.get_sample_value(f"vpa_updater_{name}", labels)

    assert (value(*evicted), value(*resized)) == (0, 0)
    metrics.evicted(VPA)
    metrics.resized(VPA)
    metrics.resized(VPA)
    assert (value(*evicted), value(*resized)) == (1, 2)


def test_a_vpa_that_is_gone_is_told_of_no_more() -> None:
    """Its series go with it, whatever sizes it had; those of others stay."""
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    metrics.show(VPA, has_selector=False, has_boost=False)
    metrics.show(VPA._replace(pods=40), has_selector=False, has_boost=False)
    metrics.show(VPA._replace(name="other"), has_selector=False, has_boost=False)
    metrics.eviction_failed(VPA, EvictionFailure.ERROR)
    metrics.forget_gone(make.snapshot(make.vpa_json("other")))
    text = render(registry).decode()
    assert 'vpa_name="web"' not in text
    assert text.count('vpa_name="other"') == 4
    metrics.show(VPA, has_selector=False, has_boost=False)
    assert 'vpa_name="web"' in render(registry).decode()


def test_decisions_are_counted_by_reason() -> None:
    """A reason that no pod has any more is told as zero."""
    registry = CollectorRegistry()
    metrics = UpdaterMetrics(registry)
    metrics.decided({"NoChange": 2, "Evicted": 1})
    metrics.decided({"NoChange": 3})
    name = "vpa_updater_pod_decisions"
    assert registry.get_sample_value(name, {"reason": "NoChange"}) == 3
    assert registry.get_sample_value(name, {"reason": "Evicted"}) == 0


def test_vpas_are_counted_by_state() -> None:
    """Every usual state is told, also at zero; an unusual mode only while it is there."""
    registry = CollectorRegistry()
    metrics = RecommenderMetrics(registry)
    name = "vpa_recommender_vpa_objects_count"
    usual = ("true", "v1", "true", "false")
    metrics.vpas([("Recreate", *usual), ("Recreate", *usual), ("Odd", *usual)])
    text = render(registry).decode()
    assert text.count(f"{name}{{") == len(UpdateMode) * 3 * 2**3 + 1
    labels = 'api="v1",has_recommendation="true",matches_pods="true",unsupported_config="false"'
    assert f'{name}{{{labels},update_mode="Recreate"}} 2.0' in text
    assert f'{name}{{{labels},update_mode="Odd"}} 1.0' in text
    metrics.vpas([])
    text = render(registry).decode()
    assert "Odd" not in text
    assert text.count(f"{name}{{") == len(UpdateMode) * 3 * 2**3


OVER = "cpu_recommendation_over_usage_diffs_cores_sum"
UNDER = "cpu_recommendation_lower_equal_usage_diffs_cores_sum"
TOLD = "cpu_recommendations_cores_sum"
NONE = "usage_sample_missing_recommendation_count"


@cases(
    "used recommended series",
    {
        "above usage": (1, 2, {OVER: 1, TOLD: 2}),
        "below usage": (3, 2, {UNDER: 1, TOLD: 2}),
        "at usage": (2, 2, {UNDER: 0, TOLD: 2}),
        "missing": (3, 0, {NONE: 1, UNDER: 3}),
    },
)
def test_usage_is_compared(used: float, recommended: float, series: dict[str, float]) -> None:
    """A sample tells how far its recommendation was off, and on which side."""
    text = text_of(lambda found: QualityMetrics(found).compare("Auto", "cpu", used, recommended))
    found = re.findall(r"^vpa_quality_(\w+(?:_sum|recommendation_count))\{.*\} (\S+)$", text, re.M)
    assert {name: float(value) for name, value in found} == series


@pytest.mark.parametrize(
    ("used", "bound"), [(1.0, "-0.5"), (2.0, "0"), (2.5, "0.25"), (2.6, "0.5"), (900.0, "+Inf")]
)
def test_relative_differences(used: float, bound: str) -> None:
    """A sample falls into the bucket of its distance, as a share of what was recommended."""
    text = text_of(lambda found: QualityMetrics(found).compare("Auto", "cpu", used, 2.0))
    buckets = re.findall(r'relative_diffs_bucket\{.*le="(.*?)".*\} 1.0', text)
    assert buckets[0] == bound


def test_overlaps_end() -> None:
    """Namespaces in which no pods overlap any more are told of no more."""
    registry = CollectorRegistry()
    metrics = RecommenderMetrics(registry)
    metrics.overlaps({"a": 2, "b": 1})
    metrics.overlaps({"b": 3})
    name = "vpa_recommender_overlapping_pods"
    assert registry.get_sample_value(name, {"namespace": "a"}) is None
    assert registry.get_sample_value(name, {"namespace": "b"}) == 3


def test_many_samples_are_compared_as_one_is() -> None:
    """An array counts as its samples would one after the other."""
    one_by_one, together = CollectorRegistry(), CollectorRegistry()
    used = [1.0, 2.0, 3.0, 0.0, 0.01, 5e7, 2.5]
    recommended = [2.0, 2.0, 0.0, 1.0, 1.0, 1e7, 0.0]
    metrics = QualityMetrics(one_by_one)
    for pair in zip(used, recommended, strict=True):
        metrics.compare("Auto", "cpu", *pair)
        metrics.compare("", "memory", *pair, is_oom=True)
        metrics.changed("Auto", "cpu", 3, pair[1], pair[0])
    metrics = QualityMetrics(together)
    metrics.compare("Auto", "cpu", used, recommended)
    metrics.compare("", "memory", used, recommended, is_oom=True)
    metrics.changed("Auto", "cpu", 3, recommended, used)
    assert sorted(render(together).split(b"\n")) == sorted(render(one_by_one).split(b"\n"))


def test_no_change_is_told_without_a_former_recommendation() -> None:
    """A first recommendation is no change."""
    text = text_of(lambda found: QualityMetrics(found).changed("Auto", "cpu", 3, 0, 2))
    assert "relative_recommendation_changes_count" not in text


@pytest.mark.parametrize(
    ("size", "most"), [(0, 1), (1, 3), (2, 7), (4, 31), (19, 2**20 - 1), (20, 2**40)]
)
def test_sizes(size: int, most: int) -> None:
    """A size is a whole logarithm that ends at 20."""
    assert (size_log2(most), size_log2(most + 1)) == (size, min(size + 1, 20))
    assert size_log2(0) == 0


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.booleans())
def test_any_memory_can_be_compared(used: float, recommended: float, is_oom: bool) -> None:
    """Whatever usage and recommendation are, one comparison is told."""
    registry = CollectorRegistry()
    QualityMetrics(registry).compare("", "memory", used, recommended, is_oom=is_oom)
    compared = re.findall(r"_usage_diffs_bytes_count\{.*\} 1.0", render(registry).decode())
    assert len(compared) == 1


def test_a_registry_tells_of_its_process() -> None:
    """What every process tells of itself comes along."""
    text = render(new_registry()).decode()
    for name in ("process_resident_memory_bytes", "python_info", "python_gc_collections_total"):
        assert f"\n{name}" in text
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


def test_first_failures_are_seen() -> None:
    """What alerts wait for stands at zero from the start: a rise from nothing is none to them."""
    registry = CollectorRegistry()
    AdmissionMetrics(registry, ["OwnerUnknown"])
    UpdaterMetrics(registry)
    page = render(registry).decode()
    for series in (
        'vpa_admission_controller_failed_open_pods_total{reason="OwnerUnknown"} 0.0',
        'vpa_updater_admission_controller_status_invalid_total{reason="invalid"} 0.0',
    ):
        assert f"\n{series}\n" in page


WORKER: Final = """
import sys
from prometheus_client import CollectorRegistry
from app.admission.metrics import AdmissionMetrics
from app.kube.watch_cache import WatchAge
from app.runtime.exposition import ProcessMetrics
from app.recommender.metrics import RecommenderMetrics
registry = CollectorRegistry()
admission = AdmissionMetrics(registry)
admission.pod(applied=True)
admission.review("applied", "Pod", 0.5)
admission.settle()
ProcessMetrics(registry, "1.2.3").watch_age("pods", WatchAge(float(sys.argv[1])))
RecommenderMetrics(registry).usage_answer("x", is_error=False)
"""


def test_several_processes_are_added_up(tmp_path: Path) -> None:
    """Counters and histograms of processes behind one port are summed; the worst gauge counts."""
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for age in ("3", "40"):
        subprocess.run([sys.executable, "-c", WORKER, age], env=environment, check=True)
    text = render(tmp_path).decode()
    assert 'vpa_admission_controller_admission_pods_total{applied="true"} 2.0' in text
    bucket = 'latency_seconds_bucket{le="1",resource="Pod",status="applied"} 2.0'
    assert f"vpa_admission_controller_admission_{bucket}" in text
    assert 'metric_server_responses{client_name="x",is_error="false"} 2.0' in text
    assert 'plumbline_watch_last_event_age_seconds{resource="pods"} 40.0' in text
    assert 'plumbline_build_info{version="1.2.3"} 1.0' in text
    assert "process_resident_memory_bytes" in text
