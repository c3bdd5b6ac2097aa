"""Answers of a recommender as objects and histories."""

from __future__ import annotations

import pytest

from app.diagnosis.core.answers import answered_histories, vpa_object
from app.model.errors import BadObject
from app.model.vpa import read_vpa
from tests import make
from tests.kube.recommender_server import answer_json


def test_an_answer_is_its_vpa() -> None:
    """Target, mode and amounts are those that the VPA has in the cluster."""
    vpa = read_vpa(vpa_object(answer_json()))
    assert (vpa.namespace, vpa.name, vpa.mode) == ("default", "web", "Recreate")
    assert vpa.target is not None
    assert str(vpa.target.key) == "StatefulSet/web"
    recommended = vpa.recommended("app")
    assert recommended is not None
    assert recommended.target == make.quantities(cpu="350m")
    assert recommended.upper_bound == make.quantities(cpu="1")


def test_an_answer_without_amounts_recommends_nothing() -> None:
    """A container of which nothing is known is no recommendation of nothing."""
    assert read_vpa(vpa_object(answer_json(cpu=None))).recommendation is None
    assert list(answered_histories(answer_json(cpu=None))) == []


def test_evidence_is_history() -> None:
    """Confidence is that of the resource which is known least."""
    ((key, history),) = answered_histories(answer_json())
    assert key == ("default", "web", "app")
    assert (history.samples, history.confidence) == (720, 0.5)
    assert make.time(history.updated) == "2026-01-05T09:59:00Z"


def test_evidence_without_confidence() -> None:
    """What is not told counts as nothing."""
    answer = answer_json()
    answer["containers"][0]["evidence"]["confidence"] = {"cpu": "much"}
    ((_, history),) = answered_histories(answer)
    assert history.confidence == 0.0


def test_garbage_is_no_history() -> None:
    """What cannot be read tells nothing, and stops nothing."""
    assert list(answered_histories(answer_json() | {"containers": 7})) == []


def test_garbage_is_named() -> None:
    """An answer of another form is refused with the field that is wrong."""
    with pytest.raises(BadObject, match="containers"):
        vpa_object(answer_json() | {"containers": 7})
