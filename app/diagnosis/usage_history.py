"""What would be recommended for workloads without a VPA, from the usage that a Prometheus has.

Strategy: the recommender's own model is told of VPAs in mode Off that nothing but this program
knows, of the pods, and of the past, and does one round. So the numbers are those of a recommender
that starts now with the same history; nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from app.diagnosis.core.comparisons import UsageAnswer, learned_history
from app.diagnosis.core.uncovered import TopWorkload
from app.diagnosis.gathering import GatheredObjects
from app.flags.command_line import parse
from app.model.errors import BadObject, ClusterError, Unavailable
from app.model.vpa import Vpa, read_vpa
from app.ports import Clock
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.configuration import past_rules, round_rules
from app.recommender.core.promql import cpu_query
from app.recommender.core.reading import Reading
from app.recommender.core.status import VpaStatus
from app.recommender.core.usage import PastUsage
from app.recommender.flags import RecommenderSettings
from app.recommender.past_reader import read_once
from app.recommender.prometheus import PrometheusServer
from app.recommender.prometheus_connection import connection_of
from app.recommender.source_flags import PrometheusAccessFlags, PrometheusFlags

PROMETHEUS = "Prometheus"  # the reason of errors, so that they are told apart


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """The Prometheus that is asked."""

    prometheus: PrometheusFlags
    access: PrometheusAccessFlags


def recommended_from_usage(
    seen: GatheredObjects,
    bare: Sequence[TopWorkload],
    settings: UsageSettings,
    namespace: str,
    clock: Clock,
) -> UsageAnswer:
    """Return what a recommender with its usual flags would recommend now.

    Raises:
        BadSetting: the Prometheus cannot be asked with these settings.
        Unavailable: it does not answer, refuses, or its answer cannot be read.
    """
    recommender = replace(
        parse(RecommenderSettings, ["--storage=prometheus"], {}),
        prometheus=settings.prometheus,
        prometheus_access=settings.access,
    )
    now = clock.now()
    reading = Reading(past_rules(recommender), now - Reading.live_age, namespace)
    past = _read(reading, settings)
    rules = round_rules(recommender)
    model = rules.variant.make_model(replace(rules.model_rules, gathers_quality=False))
    vpas = [read_vpa(workload.vpa) for workload in bare]
    alone = seen.with_answers(vpas, ()).snapshot
    feed = ClusterFeed(model, seen.owners, clock)
    feed.tell_vpas(alone, now)
    feed.tell_pods(alone, now)
    model.restore((), now)
    model.learn_past(past, now)
    published = {(one.namespace, one.name): one.status for one in model.tick(now)}
    histories = {
        (one.namespace, one.vpa, one.container): learned_history(one)
        for one in model.checkpoints(now, None)
    }
    notes = list(reading.flaws.sentences)
    if not past.containers:
        query = cpu_query(past_rules(recommender), namespace)
        told = "Prometheus has no such usage; do its labels have other names? It was asked for"
        notes.append(f"{told} {query}")
    return UsageAnswer(
        [_with_status(vpa, published.get((vpa.namespace, vpa.name))) for vpa in vpas],
        histories,
        notes,
    )


def _read(reading: Reading, settings: UsageSettings) -> PastUsage:
    access = connection_of(settings.prometheus, settings.access)
    with closing(PrometheusServer(access, lambda *_: None)) as server:
        try:
            return read_once(server, reading)
        except (ClusterError, BadObject) as error:
            status = error.status if isinstance(error, ClusterError) else 0
            raise Unavailable(str(error), status=status, reason=PROMETHEUS) from error


def _with_status(vpa: Vpa, status: VpaStatus | None) -> Vpa:
    if status is None:
        return vpa
    return replace(vpa, recommendation=status.recommendation, conditions=status.conditions)
