"""The built-in shop: two hours of it, in which every workload shows what it is there for."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from app.settings.command_line import parse
from app.settings.run import RunSettings
from app.wiring.brought import manifests
from app.wiring.brought import shop as shop_file
from app.wiring.scenes import InMemory
from app.wiring.screen.picture import told
from app.wiring.screen.view import Happening, View, What
from tests.flows.test_admission_process import free_port
from tests.flows.whole import listeners

STEP_SECONDS = 10.0


@dataclass(frozen=True)
class Story:
    """What happened, and how it stood at the end."""

    happenings: list[Happening]
    view: View
    held: list[int]  # pieces of memory after each hour

    def who(self, what: What) -> set[str]:
        """Return whom something happened to, without the endings of pods' names."""
        return {one.who.split("-")[0] for one in self.happenings if one.what is what}

    def pods(self, what: What, workload: str) -> list[str]:
        """Return to which pods of a workload something happened, in order."""
        found = [one.who for one in self.happenings if one.what is what]
        return [who for who in found if who.startswith(f"{workload}-")]


@contextmanager
def shop(seed: int = 0) -> Iterator[InMemory]:
    """Open the shop."""
    words = [f"--seed={seed}"]
    words += [f"--{name}-port={free_port()}" for name in ("recommender", "updater")]
    scene = InMemory(parse(RunSettings, words, {}), manifests([shop_file()]), listeners())
    try:
        scene.start()
        yield scene
    finally:
        scene.stop()


def played(minutes: int, seed: int = 0) -> Story:
    """Let some minutes pass."""
    with shop(seed) as scene:
        happenings: list[Happening] = []
        held: list[int] = []
        for step in range(1, int(minutes * 60 / STEP_SECONDS) + 1):
            scene.advance(STEP_SECONDS)
            happenings += scene.onlooker.news()
            view = scene.onlooker.view("", "")
            if step * STEP_SECONDS % 3600 == 0:
                gc.collect()
                held.append(sys.getallocatedblocks())
        return Story(happenings, view, held)


@pytest.fixture(scope="module")
def story() -> Story:
    """Return two hours."""
    return played(120)


def test_nothing_goes_wrong(story: Story) -> None:
    """There is no error of ours in it, and no object of the shop is refused."""
    assert story.view.totals.troubles == 0
    assert story.who(What.REFUSE) == set()


def test_what_is_too_small_grows_where_it_is(story: Story) -> None:
    """Three pods are resized, one after the other, and none of them is evicted."""
    assert len(set(story.pods(What.RESIZE, "web"))) == 3
    assert story.pods(What.EVICT, "web") == []


def test_what_is_too_big_comes_back_smaller(story: Story) -> None:
    """Both pods are evicted, and created with less."""
    created = [one for one in story.happenings if one.what is What.CREATE]

    assert len(story.pods(What.EVICT, "reports")) == 2
    assert sum("cpu 3 → " in one.why for one in created if "reports" in one.who) == 2


def test_boosts_come_and_go(story: Story) -> None:
    """Each pod of the slow starter is boosted once, and brought back once."""
    boosted = story.pods(What.BOOST, "checkout")

    assert len(boosted) >= 4
    assert sorted(story.pods(What.UNBOOST, "checkout")) == sorted(boosted)


def test_kills_for_memory_end(story: Story) -> None:
    """The cache is killed until its limit fits, and not after the first quarter of an hour."""
    kills = [one for one in story.happenings if one.what is What.KILL]

    assert {one.who.split("-")[0] for one in kills} == {"cache"}
    assert max(one.at for one in kills) - kills[0].at < story.view.lasted / 8


def test_leaders_and_followers(story: Story) -> None:
    """The first leader is resized, and the one that is promoted later; no other database."""
    assert story.pods(What.RESIZE, "orders") == ["orders-0", "orders-1"]
    assert story.pods(What.EVICT, "orders") == []


def test_upscale_only_evicts_to_give_more(story: Story) -> None:
    """What had too little memory is evicted for it."""
    assert len(story.pods(What.EVICT, "search")) == 2


@pytest.mark.parametrize(
    ("vpa", "reason"),
    [
        pytest.param("billing", "TooFewReplicas", id="a singleton"),
        pytest.param("gateway", "PDBBlocked", id="a disruption budget"),
    ],
)
def test_who_may_not_be_evicted_is_not(story: Story, vpa: str, reason: str) -> None:
    """The screen says why nothing is done although something is wanted."""
    standing = {row.vpa: row.standing for row in story.view.rows}

    assert standing[vpa] == reason
    assert story.pods(What.EVICT, vpa) == []
    assert story.view.totals.refusals[reason] >= 1


def test_the_summary_adds_up(story: Story) -> None:
    """Less is requested than the templates say, and deeds are those that were told."""
    totals = story.view.totals

    assert totals.after.cpu_millicores < totals.before.cpu_millicores * 0.7
    assert totals.after.memory_bytes < totals.before.memory_bytes * 0.7
    assert totals.evictions == sum(one.what is What.EVICT for one in story.happenings)
    assert totals.pods_changed >= totals.evictions


def test_at_first_nobody_knows() -> None:
    """Before the updater has looked, the screen does not say that there are no pods."""
    with shop() as scene:
        scene.advance(STEP_SECONDS)
        assert {row.standing for row in scene.onlooker.view("", "").rows} == {"not yet seen"}


def test_memory_does_not_grow(story: Story) -> None:
    """What is held after the second hour is what was held after the first."""
    assert story.held[1] < story.held[0] * 1.004


def test_equal_seeds_make_equal_stories() -> None:
    """Another run with the same seed tells the same, line by line; another seed does not."""
    first, second, other = ([*map(told, played(4, seed).happenings)] for seed in (0, 0, 1))

    assert first == second
    assert first != other
