"""The past is read piece by piece, whatever Prometheus answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from app.model.times import PrometheusDuration
from app.recommender.core.promql import PastRules
from app.recommender.core.reading import Question, Reading, ReadingStage
from app.recommender.core.usage import ABSENT

END = datetime(2026, 1, 13, 12, 0, 0, 123_456, tzinfo=UTC)
CUT = END.replace(microsecond=123_000)
HOUR = timedelta(hours=1)
RULES = PastRules(
    container_pod_name_label="pod",
    container_name_label="container",
    pod_namespace_label="namespace",
    pod_name_label="pod",
    pod_label_prefix="label_",
)
SHORT = replace(RULES, length=PrometheusDuration("3h", 3 * HOUR))


def container(pod: str = "web-0", name: str = "app", **more: str) -> dict[str, str]:
    """Return the labels of a container's series."""
    return {"namespace": "default", "pod": pod, "container": name, **more}


def series(labels: Mapping[str, str], *points: tuple[datetime, object]) -> dict[str, Any]:
    """Return a series of an answer."""
    return {"metric": labels, "values": [[time.timestamp(), f"{value}"] for time, value in points]}


def answer(*found: dict[str, Any]) -> dict[str, Any]:
    """Return an answer."""
    return {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}


def asked(reading: Reading) -> Question:
    """Return the question that stands."""
    found = reading.question()
    assert found is not None
    return found


def read(reading: Reading, *answers: dict[str, Any]) -> Reading:
    """Take answers, and nothing for the rest of the questions."""
    for one in answers:
        reading.take(one)
    while reading.question() is not None:
        reading.take(answer())
    return reading


def test_questions() -> None:
    """First CPU, then memory, over the whole time, and the labels at its end."""
    reading = Reading(SHORT, END, "default")
    cpu = asked(reading)
    assert cpu.query.startswith("rate(container_cpu_usage_seconds_total{")
    assert 'namespace="default"' in cpu.query
    assert (cpu.start, cpu.end, cpu.step) == (CUT - 3 * HOUR, CUT, HOUR)

    reading.take(answer())
    assert asked(reading).query.startswith("container_memory_working_set_bytes{")
    reading.take(answer())
    labels = asked(reading)
    assert reading.stage is ReadingStage.LABELS
    assert (labels.query, labels.end, labels.start) == ('up{job="kubernetes-pods"}[3h]', CUT, None)
    reading.take(answer())
    assert reading.question() is None


def test_pieces() -> None:
    """The first piece is small, the next ones as large as the number of series allows."""
    reading = Reading(replace(RULES, length=PrometheusDuration("10d", 240 * HOUR)), END)
    first = asked(reading)
    assert (first.start, first.end) == (CUT - 240 * HOUR, CUT - 217 * HOUR)

    reading.take(answer(*(series(container(f"web-{n}")) for n in range(2500))))
    second = asked(reading)
    assert (second.start, second.end) == (CUT - 216 * HOUR, CUT - 117 * HOUR)
    reading.take(answer(series(container())))
    last = asked(reading)
    assert (last.start, last.end) == (CUT - 116 * HOUR, CUT)
    assert "cpu" in last.query
    reading.take(answer())
    assert asked(reading).start == CUT - 240 * HOUR


def test_pieces_before_there_was_anything() -> None:
    """A server that remembers less is not asked for all it has at once."""
    reading = Reading(RULES, END)
    reading.take(answer())
    reading.take(answer())
    third = asked(reading)
    assert (third.start, third.end) == (CUT - 144 * HOUR, CUT - 121 * HOUR)

    reading.take(answer(*(series(container(f"web-{n}")) for n in range(2500))))
    fourth = asked(reading)
    assert (fourth.start, fourth.end) == (CUT - 120 * HOUR, CUT - 21 * HOUR)


def test_pieces_of_many_series() -> None:
    """However many series there are, a piece has some points, unless that was refused."""
    reading = Reading(RULES, END)
    reading.take(answer(*[series(container())] * 30_000))
    question = asked(reading)
    assert question.start is not None
    assert question.end - question.start == 11 * HOUR
    assert reading.was_refused(is_too_much=True)
    assert asked(reading).end - question.start == 5 * HOUR


def test_more_points_than_prometheus_gives() -> None:
    """No piece has more points than Prometheus answers with."""
    second = timedelta(seconds=1)
    reading = Reading(replace(RULES, resolution=PrometheusDuration("1s", second)), END)
    sizes = []
    while "cpu" in (question := asked(reading)).query:
        assert question.start is not None
        sizes.append((question.end - question.start) // second + 1)
        reading.take(answer())

    assert max(sizes) == 10_000
    assert sum(sizes) == 8 * 86_400 + 1


def test_refused_questions() -> None:
    """What was too much is halved, down to one point; without labels it goes on."""
    reading = Reading(SHORT, END)
    assert not reading.was_refused(is_too_much=False)
    spans = []
    while reading.was_refused(is_too_much=True):
        spans.append(asked(reading))

    assert [(one.end - CUT) // HOUR for one in spans] == [-2, -3]
    assert asked(reading).start == asked(reading).end == CUT - 3 * HOUR
    reading.take(answer())
    assert asked(reading).start == CUT - 2 * HOUR
    while reading.stage is not ReadingStage.LABELS:
        reading.take(answer())
    assert reading.was_refused(is_too_much=False)
    assert reading.question() is None
    assert reading.flaws.sentences == ["labels: pods that are gone stay without"]


def test_usage() -> None:
    """Amounts stand at their times, CPU cut to millicores; labels are those of pods."""
    labels = series(
        {"namespace": "default", "pod": "web-0", "label_app": "web", "x": "y"}, (CUT, 1)
    )
    cpu = series(container(), (CUT, 0.2509), (CUT - 2 * HOUR, 1))
    memory = series(container(name="log"), (CUT - HOUR, 2**20))
    found = read(Reading(SHORT, END), answer(cpu), answer(memory), answer(labels)).usage()

    assert found.labels == {("default", "web-0"): {"app": "web"}}
    assert found.containers == [("default", "web-0", "app"), ("default", "web-0", "log")]
    assert found.cpu_millicores.tolist() == [[ABSENT, 1000, ABSENT, 250], [ABSENT] * 4]
    assert found.memory_bytes.tolist() == [[ABSENT] * 4, [ABSENT, ABSENT, 2**20, ABSENT]]
    assert (np.diff(found.times) == 3600 * 10**9).all()
    assert found.times[-1] == int(CUT.timestamp() * 1000) * 10**6
    assert (found.window_ns, found.stands_for) == (3600 * 10**9, 60.0)


def test_nothing_is_known() -> None:
    """No series at all is a past as well."""
    found = read(Reading(SHORT, END)).usage()
    assert (len(found.containers), found.cpu_millicores.shape) == (0, (0, 4))


def test_pieces_make_a_whole() -> None:
    """However it is cut, the same is read."""
    hours = 30
    whole = [(CUT - HOUR * back, back) for back in range(hours)]

    def told(limit: int) -> list[list[int]]:
        reading = Reading(replace(RULES, length=PrometheusDuration("29h", (hours - 1) * HOUR)), END)
        while (question := reading.question()) is not None:
            start = question.start or question.end
            points = [one for one in whole if start <= one[0] <= question.end]
            if len(points) > limit and reading.was_refused(is_too_much=True):
                continue
            reading.take(answer(series(container(), *points)))
        found: list[list[int]] = reading.usage().memory_bytes.tolist()
        return found

    assert told(100) == told(7) == told(1) == [list(range(hours))[::-1]]


def test_several_series_of_one_container() -> None:
    """After a restart a container has two series; where both have an amount, the higher counts."""
    one, other = container(id="a"), container(id="b")
    memory = answer(series(one, (CUT - HOUR, 5), (CUT, 7)), series(other, (CUT, 6)))
    found = read(Reading(SHORT, END), answer(), memory).usage()

    assert found.memory_bytes.tolist() == [[ABSENT, ABSENT, 5, 7]]


@pytest.mark.parametrize("swaps", [False, True])
def test_newest_labels(swaps: bool) -> None:
    """Of several series of a pod the one with the youngest point tells its labels."""
    pod = {"namespace": "default", "pod": "web-0"}
    old = series({**pod, "label_role": "old"}, (CUT - 2 * HOUR, 1), (CUT - HOUR, 1))
    new = series({**pod, "label_role": "new"}, (CUT, 1))
    labels = answer(*([new, old] if swaps else [old, new]))
    found = read(Reading(SHORT, END), answer(), answer(), labels)

    assert found.usage().labels == {("default", "web-0"): {"role": "new"}}


def test_flaws_are_counted() -> None:
    """Series without names and points that cannot be cost themselves alone."""
    nameless = series({"namespace": "default", "pod": "web-0"}, (CUT, 1))
    stray = [(CUT + HOUR, 1), (CUT, "NaN"), (CUT, -1), (CUT - HOUR, 3)]
    reading = read(
        Reading(SHORT, END),
        answer(nameless, series(container(), *stray)),
        answer(),
        answer(series({"pod": "x"}, (CUT, 1)), {"metric": {}}),
    )

    assert reading.usage().cpu_millicores.tolist() == [[ABSENT, ABSENT, 3000, ABSENT]]
    assert (reading.usage().refused_series, reading.usage().refused_points) == (3, 3)
    assert reading.flaws.sentences[1] == "cpu: default/web-0/app has amounts that cannot be"
    assert reading.flaws.sentences[2] == "labels: a series has no label namespace: pod=x"
