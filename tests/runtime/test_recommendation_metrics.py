"""What is recommended, as numbers that Prometheus scrapes."""

from __future__ import annotations

from dataclasses import replace

from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from app.model.vpa import Vpa, read_vpa
from app.recommender.api import add_recommendation_metrics
from app.runtime.access import Guard
from tests import make
from tests.reached_limits import ReachedLimits
from tests.runtime.serving import asked


def scraped(*vpas: Vpa) -> dict[tuple[str, ...], float]:
    """Return the values of a scrape by their labels."""
    app = FastAPI()
    add_recommendation_metrics(app, lambda: vpas, Guard(), ReachedLimits())

    (family,) = text_string_to_metric_families(asked(app, "/metrics/recommendations").text)
    assert (family.name, family.type) == ("plumbline_recommendation", "gauge")
    names = ("namespace", "vpa", "container", "resource", "bound")
    return {tuple(sample.labels[name] for name in names): sample.value for sample in family.samples}


def test_recommendations_are_shown() -> None:
    """Each bound of each container and resource is one series, in cores and bytes."""
    found = scraped(read_vpa(make.vpa_json(cpu="250m", memory="1Gi")))

    owner = ("default", "web", "app")
    assert found[(*owner, "cpu", "target")] == 0.25
    assert found[(*owner, "memory", "target")] == 2**30


def test_names_are_escaped() -> None:
    """A status may hold any text as the name of a container; the scrape stays readable."""
    vpa = read_vpa(make.vpa_json(cpu="1"))
    (one,) = vpa.recommendation or ()
    name = 'a"b\\c\nd'

    found = scraped(replace(vpa, recommendation=(replace(one, container=name),)))

    assert {labels[2] for labels in found} == {name}


def test_nothing_is_recommended() -> None:
    """Without recommendations the family is there, and empty."""
    assert scraped(replace(read_vpa(make.vpa_json()), recommendation=None)) == {}
