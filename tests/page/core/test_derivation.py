"""The steps that are worked out from checkpoints end at what the recommender published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.model.vpa import Vpa
from app.page.core.derivation import AmountDerivation, derivations
from app.ports import CHECKPOINTS
from app.recommender.core.checkpoints import Checkpoint, read_checkpoint
from tests import make
from tests.recommender.core.test_checkpoints import CHECKPOINT
from tests.recommender.scenes import Scene
from tests.sandbox.worlds import snapshot_of


def learned() -> tuple[Vpa, Sequence[Checkpoint]]:
    """Return a VPA after an hour of rounds, with its checkpoints."""
    scene = Scene()
    scene.rounds(60)
    vpa = snapshot_of(scene.sandbox).of("default").vpas["web"]
    found = scene.sandbox.cluster.list(CHECKPOINTS).items
    return vpa, [read_checkpoint(item) for item in found]


def told(vpa: Vpa, checkpoint: Checkpoint = CHECKPOINT) -> dict[tuple[str, str], AmountDerivation]:
    """Return what is worked out, by resource and word."""
    return {(one.resource, one.word): one for one in derivations(vpa, [checkpoint])}


def texts(one: AmountDerivation) -> list[str]:
    """Return the steps as sentences."""
    return [f"{step.text} {step.amount}" for step in one.steps]


def test_steps_end_at_what_is_published() -> None:
    """The target and both bounds of both resources come out as the recommender wrote them."""
    vpa, checkpoints = learned()
    found = list(derivations(vpa, checkpoints))
    assert [(one.resource, one.word) for one in found] == [
        (resource, word)
        for resource in ("cpu", "memory")
        for word in ("target", "lower bound", "upper bound")
    ]
    targets = [one for one in found if one.word == "target"]
    assert all(one.is_published for one in targets), found


def test_each_step_that_changes_something_is_told() -> None:
    """Percentile, margin, confidence, floor and caps, in this order."""
    policy = make.policy_json("hamster", min_allowed={"cpu": "1"}, max_allowed={"memory": "250Mi"})
    vpa = make.vpa(policies=[policy], recommendations=[make.recommendation_json("hamster")])
    found = told(vpa)
    assert texts(found["cpu", "target"])[-1] == "held by minAllowed 1"
    assert texts(found["memory", "target"])[-1] == "held by maxAllowed 250Mi"
    upper = texts(found["cpu", "upper bound"])
    assert upper[0].startswith("95% of the CPU samples, weighted by age, are at or below")
    assert upper[1].startswith("with a margin of 15%")
    assert upper[2].startswith("x 2, because of 1 days of history")
    assert not found["cpu", "target"].is_published


def test_little_usage_is_held_by_the_smallest_pod() -> None:
    """A container gets its share of what every pod gets at least."""
    small = replace(CHECKPOINT, cpu=replace(CHECKPOINT.cpu, weights={0: 10000}))
    steps = texts(told(make.vpa(), small)["cpu", "target"])
    assert steps[-1] == "at least the container's share of the smallest pod 25m"


def test_without_any_history_the_upper_bound_is_open() -> None:
    """Of one sample nothing is known about how the usage moves."""
    young = replace(CHECKPOINT, last_ns=CHECKPOINT.first_ns, count=1)
    steps = texts(told(make.vpa(), young)["cpu", "upper bound"])
    assert any(step.startswith("without any bound") for step in steps)


def test_what_is_not_recommended_has_no_steps() -> None:
    """A container that is off, and one of which nothing is known."""
    off = make.vpa(policies=[make.policy_json("hamster", mode="Off")])
    nothing = Checkpoint("default", "a", "web", "hamster", updated_ns=CHECKPOINT.updated_ns)
    assert (told(off), told(make.vpa(), nothing)) == ({}, {})
    assert list(derivations(make.vpa(), [])) == []
