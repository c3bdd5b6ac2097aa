"""What the recommender is told."""

from __future__ import annotations

import pytest

from app.model.selectors import EVERYTHING
from app.recommender.core.targets import ObservedVpa, handles
from app.recommender.core.usage import ABSENT, UsageBatch
from tests import make


def test_batch() -> None:
    """Samples are laid out in columns."""
    batch = UsageBatch.of([(("default", "web-0", "app"), 100, ABSENT, 5, 3)])

    assert len(batch) == 1
    assert batch.containers == [("default", "web-0", "app")]
    columns = (batch.cpu_millicores, batch.memory_bytes, batch.times, batch.windows_ns)
    assert [column.tolist() for column in columns] == [[100], [ABSENT], [5], [3]]


def test_empty_batch() -> None:
    """No samples are a batch too."""
    assert len(UsageBatch.of([])) == 0


def test_key() -> None:
    """A VPA is known by namespace and name."""
    assert ObservedVpa(make.vpa(), EVERYTHING).key == ("default", "web")


@pytest.mark.parametrize(
    ("named", "by_default", "by_perf"),
    [
        pytest.param([], True, False, id="none named"),
        pytest.param(["default"], True, False, id="the default one"),
        pytest.param(["perf"], False, True, id="another one"),
    ],
)
def test_handles(named: list[str], by_default: bool, by_perf: bool) -> None:
    """W86: a VPA is for the recommenders it names, else for the default one."""
    vpa = make.vpa(spec={"recommenders": [{"name": name} for name in named]})

    assert (handles(vpa, "default"), handles(vpa, "perf")) == (by_default, by_perf)
