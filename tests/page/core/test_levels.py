"""The levels of a workload as they are."""

from __future__ import annotations

from app.model.quantity import CPU, MEMORY
from app.page.core.charts import LevelKind
from app.page.core.levels import current_levels
from tests import make

PODS = [
    make.pod(name="a", cpu="100m", memory="1Mi", cpu_limit="1"),
    make.pod(name="b", cpu="300m", memory="1Mi"),
    make.pod(name="c", cpu="200m"),
]
BOUNDS = make.recommendation_json(
    cpu="250m", lower=make.amounts("200m"), upper=make.amounts("400m")
)
VPA = make.vpa(recommendations=[BOUNDS])


def test_levels() -> None:
    """The request is that of the pod in the middle; what is not said is not there."""
    assert current_levels(VPA, PODS) == {
        ("app", CPU): {
            LevelKind.REQUEST: 200,
            LevelKind.TARGET: 250,
            LevelKind.LOWER: 200,
            LevelKind.UPPER: 400,
            LevelKind.LIMIT: 1000,
        },
        ("app", MEMORY): {LevelKind.REQUEST: 2**20},
    }
    assert current_levels(None, []) == {}


def test_a_container_without_a_recommendation() -> None:
    """What is not recommended has no target."""
    pod = make.pod(make.container_json("side", cpu="5m"))

    assert current_levels(VPA, [pod])["side", CPU] == {LevelKind.REQUEST: 5}
