"""Results are kept for one version of an object, go with it, and are never too many."""

from __future__ import annotations

import gc
import weakref

from app.admission.core.mutate import PodAdmission, PodRules, PodVerdict, Remembered
from app.model.kinds import CacheKey
from app.model.review import read_review
from app.model.snapshot import Snapshot
from app.model.workloads import NOTHING_LOOKED_UP
from tests import make

LIMITS = object()


def test_a_result_is_kept_for_a_version() -> None:
    """It is found for the same version, the same object beside it and the same key only."""
    kept: Remembered[CacheKey, str] = Remembered(1_000)
    version = CacheKey()
    kept.keep(version, LIMITS, b"pod", "sizes", 10)
    assert kept.get(version, LIMITS, b"pod") == "sizes"
    assert kept.get(version, LIMITS, b"other") is None
    assert kept.get(version, object(), b"pod") is None
    assert kept.get(CacheKey(), LIMITS, b"pod") is None


def test_another_object_beside_it_takes_the_place() -> None:
    """What was found beside an object is forgotten when it is found beside another one."""
    kept: Remembered[CacheKey, str] = Remembered(1_000)
    version = CacheKey()
    kept.keep(version, LIMITS, b"pod", "before", 10)
    kept.keep(version, None, b"pod", "after", 10)
    assert kept.get(version, LIMITS, b"pod") is None
    assert kept.get(version, None, b"pod") == "after"


def test_all_is_forgotten_when_it_is_too_much() -> None:
    """The result that does not fit any more is the first of the next ones."""
    kept: Remembered[CacheKey, str] = Remembered(160)
    version = CacheKey()
    for number in range(17):
        kept.keep(version, None, b"%d" % number, "sizes", 10)
    found = [number for number in range(17) if kept.get(version, None, b"%d" % number)]
    assert found == [16]


def test_a_large_result_is_not_kept() -> None:
    """Nothing pushes all others out alone."""
    kept: Remembered[CacheKey, str] = Remembered(160)
    version = CacheKey()
    kept.keep(version, None, b"small", "sizes", 10)
    kept.keep(version, None, b"large", "sizes", 11)
    assert kept.get(version, None, b"small")
    assert kept.get(version, None, b"large") is None


def test_versions_of_a_vpa_go_when_others_come() -> None:
    """A VPA that was changed or deleted stays in memory for no pod that it sized."""
    admission = PodAdmission(PodRules())
    snapshot = make.snapshot(make.vpa(cpu="250m"), make.workload())
    review = read_review(make.review_json(make.pod_json(cpu="100m")))

    def sized(moment: Snapshot) -> weakref.ref[object]:
        found = admission.admit(review, moment.of("default"), NOTHING_LOOKED_UP)
        assert isinstance(found, PodVerdict)
        assert found.sizes is not None
        return weakref.ref(moment.of("default").vpas["web"].index)

    gone = []
    for number in range(3):
        snapshot = snapshot.changed([make.change(make.vpa(cpu=f"{number + 1}00m"))])
        gone.append(sized(snapshot))
    snapshot = make.snapshot(make.workload())
    gc.collect()
    assert not any(one() for one in gone)
