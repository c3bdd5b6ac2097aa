"""Usage over time comes from where there is some, and a page never waits for it for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import numpy as np
import pytest

from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.model.quantity import CPU
from app.page.core.recorded_usage import UsageSamples
from app.page.core.usage_ring import UsageRing
from app.page.core.usage_series import ChartRange, UsageQuestion
from app.page.flags import PageSettings
from app.page.usage_over_time import (
    NoUsageHistory,
    Patience,
    PrometheusHistory,
    RecordedUsageHistory,
    SeenUsageHistory,
    prometheus_history,
)
from app.recommender.core.promql import PastRules
from app.recommender.prometheus import PrometheusServer as RealClient
from app.recommender.prometheus_connection import PrometheusConnection
from tests.page.core.usage_samples import batch, minutes, used_at
from tests.prometheus_server import Asked, PrometheusServer, Reply, matrix, prometheus
from tests.stepped_clock import START, SteppedClock

QUESTION = UsageQuestion("default", "web-.*", ChartRange.HOUR, START)
LABELS = {"container": "app", "rank": "median"}


def test_what_was_seen() -> None:
    """What is taken in is found again."""
    history = SeenUsageHistory()
    history.take(batch({"web-0": (100, 512)}), START - minutes(3))

    found = history.read(QUESTION)

    assert used_at(found.series, START - minutes(3)) == [100, 100, 100]
    assert (found.source, found.problem) == ("metrics.k8s.io", "")


def test_a_fortnight_of_what_was_seen() -> None:
    """A day is all there is of a fortnight, and the answer says so."""
    history = SeenUsageHistory()
    history.take(batch({"web-0": (100, 512)}), START - minutes(9))
    history.take(batch({"web-0": (100, 512)}), START)

    found = history.read(UsageQuestion("default", ".*", ChartRange.FORTNIGHT, START))

    assert found.series["app", CPU].step_seconds == ChartRange.DAY.step_seconds
    assert "only the last 24 hours are kept here" in found.problem


def test_more_than_can_be_kept() -> None:
    """Containers that find no place are counted."""
    history = SeenUsageHistory(UsageRing(1))
    history.take(batch({"web-0": (100, 512), "web-1": (100, 512)}), START)

    assert history.read(QUESTION).problem.startswith("usage of 1 containers is not kept")


def test_recording() -> None:
    """A recording answers for the time that it holds."""
    nothing = np.zeros(0, np.int64)
    samples = UsageSamples([], np.zeros(0, np.intp), nothing, nothing, nothing)

    found = RecordedUsageHistory(samples, "events.jsonl").read(QUESTION)

    assert (found.series, found.source, found.problem) == ({}, "events.jsonl", "")


def test_nothing_to_read() -> None:
    """Without any history the answer says how to get one."""
    history = NoUsageHistory()
    history.stop()

    assert "give --events" in history.read(QUESTION).problem


def test_flags() -> None:
    """A Prometheus that flags name is asked as they tell."""
    with prometheus() as server:
        server.otherwise = answer
        words = [
            f"--prometheus-address={server.url}",
            "--container-pod-name-label=pod_name",
            "--prometheus-cadvisor-job-name=cadvisor",
            "--prometheus-bearer-token=secret",
        ]
        settings = parse(PageSettings, words, {})
        clock = SteppedClock()
        history = prometheus_history(settings.usage, settings.prometheus_access, clock)
        history.patience = Patience(10.0)
        found = history.read(QUESTION)
        history.stop()

    assert ("app", CPU) in found.series
    assert server.asked[0].headers["Authorization"] == "Bearer secret"
    assert '{job="cadvisor", pod_name=~"web-.*"' in server.asked[0].told["query"]


def test_an_address_that_is_none() -> None:
    """It is refused at once."""
    settings = parse(PageSettings, ["--prometheus-address=prometheus"], {})
    with pytest.raises(BadSetting, match="--prometheus-address takes an address"):
        prometheus_history(settings.usage, settings.prometheus_access, SteppedClock())


@contextmanager
def asking(
    server: PrometheusServer, patience: Patience | None = None
) -> Iterator[tuple[PrometheusHistory, SteppedClock]]:
    """Ask a Prometheus."""

    def connect() -> RealClient:
        return RealClient(PrometheusConnection(server.url, 30.0), lambda *_: None)

    clock = SteppedClock()
    rules = PastRules(container_name_label="container")
    history = PrometheusHistory(connect, rules, clock, patience or Patience(10.0))
    try:
        yield history, clock
    finally:
        server.stopping.set()
        history.stop()
        history._pool.shutdown()


def answer(_asked: Asked) -> Reply:
    """Return a point."""
    return matrix((LABELS, [(START.timestamp(), 0.1)]))


def test_prometheus() -> None:
    """Series come from Prometheus; equal questions are asked once, another minute again."""
    with prometheus() as server, asking(server) as (history, _):
        server.otherwise = answer
        found = [history.read(QUESTION) for _ in range(3)]
        other = UsageQuestion("default", "web-.*", ChartRange.HOUR, START + minutes(1))
        history.read(other)

    assert found[0].series["app", CPU].median[-1] == 100
    assert (found[0].source, found[0].problem) == ("Prometheus", "")
    assert found[0] is found[2]
    assert len(server.asked) == 4


def test_prometheus_that_is_slow() -> None:
    """The page does not wait; once the answer is there, the next look has it."""
    with prometheus() as server, asking(server, Patience(0.05)) as (history, _):
        may_answer = Event()

        def late(asked: Asked) -> Reply:
            may_answer.wait()
            return answer(asked)

        server.otherwise = late
        first = history.read(QUESTION)
        may_answer.set()
        history.patience = Patience(10.0)
        second = history.read(QUESTION)

    assert (first.series, "has not answered yet" in first.problem) == ({}, True)
    assert ("app", CPU) in second.series


def test_one_who_waits_for_all_usage() -> None:
    """A report waits for answers, but for so long together; what is late is called so."""
    late = "did not answer in time"
    with prometheus() as server, asking(server, Patience(10.0, 20.0, late)) as (history, clock):

        def slow(asked: Asked) -> Reply:
            clock.wait(11.0)
            return answer(asked)

        server.otherwise = slow
        first = history.read(QUESTION)
        server.otherwise = lambda _: Reply(waits=True)
        second = history.read(UsageQuestion("default", "api", ChartRange.HOUR, START))

    assert ("app", CPU) in first.series
    assert (second.series, second.problem) == ({}, late)


def test_an_answer_that_is_too_large() -> None:
    """It is given up after some megabytes, because several may come at once."""
    with prometheus() as server:
        server.otherwise = lambda _: Reply(body=b" " * (9 * 2**20))
        settings = parse(PageSettings, [f"--prometheus-address={server.url}"], {})
        patience = Patience(10.0)
        access = settings.prometheus_access
        history = prometheus_history(settings.usage, access, SteppedClock(), patience)
        found = history.read(QUESTION)
        history.stop()

    assert "the answer is larger than 8388608 bytes" in found.problem


def test_prometheus_that_fails() -> None:
    """A failure is told, is remembered for some seconds, and is not the end."""
    with prometheus() as server, asking(server) as (history, clock):
        server.otherwise = lambda _: Reply.of(503, "unavailable", "starting")
        first = history.read(QUESTION)
        again = history.read(QUESTION)
        asked = len(server.asked)
        server.otherwise = answer
        clock.wait(15.0)
        last = history.read(QUESTION)

    assert "starting" in first.problem
    assert (again.problem, asked) == (first.problem, 1)
    assert last.problem == ""


def test_prometheus_that_is_asked_too_much() -> None:
    """Questions wait in a bounded queue."""
    with prometheus() as server, asking(server, Patience(0.0)) as (history, _):
        server.otherwise = lambda _: Reply(waits=True)
        found = [
            history.read(UsageQuestion("default", f"pod-{number}", ChartRange.HOUR, START))
            for number in range(33)
        ]

    assert "has not answered yet" in found[31].problem
    assert "asked too much" in found[32].problem


def test_answers_are_few() -> None:
    """Only the newest answers are kept."""
    with prometheus() as server, asking(server) as (history, _):
        for number in range(300):
            history.read(UsageQuestion("default", f"pod-{number}", ChartRange.HOUR, START))

        assert len(history._answers) == 256


def test_prometheus_that_cannot_be_asked() -> None:
    """Even a defect is a sentence on the page."""

    def connect() -> RealClient:
        raise RuntimeError

    history = PrometheusHistory(connect, PastRules(), SteppedClock(), Patience(10.0))
    assert history.read(QUESTION).problem == "reading usage failed unexpectedly"
    history.stop()
