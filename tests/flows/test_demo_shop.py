"""The built-in shop: two hours of it, in which every workload shows what it is there for."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from app.diagnosis.core.attention import Attention
from app.output import line
from app.run.terminal import Terminal
from app.run.view import Activity, ActivityKind, View, activity_line
from app.run.world import shop_file
from tests.cases import cases
from tests.flows.autoscaler import in_memory
from tests.flows.demo_picture import HEIGHT, MINUTES, PACE, STEP_SECONDS, WIDTH, drawn, in_readme
from tests.run.glass import panes


@dataclass(frozen=True)
class PlayedShop:
    """What happened, and how it stood at the end."""

    activities: list[Activity]
    view: View
    held: list[int]  # pieces of memory after each hour
    picture: str  # as it is in the README, at the time that is shown there

    def who(self, what: ActivityKind) -> set[str]:
        """Return whom something happened to, without the endings of pods' names."""
        return {one.who.split("-")[0] for one in self.activities if one.kind is what}

    def pods(self, what: ActivityKind, workload: str) -> list[str]:
        """Return to which pods of a workload something happened, in order."""
        found = [one.who for one in self.activities if one.kind is what]
        return [who for who in found if who.startswith(f"{workload}-")]


def played(minutes: int, seed: int = 0) -> PlayedShop:
    """Let some minutes pass."""
    with in_memory(shop_file(), f"--seed={seed}") as mode:
        activities: list[Activity] = []
        held: list[int] = []
        picture = ""
        for step in range(1, int(minutes * 60 / STEP_SECONDS) + 1):
            mode.advance(STEP_SECONDS)
            activities += mode.feed.news()
            view = mode.view(PACE)
            if step * STEP_SECONDS == MINUTES * 60:
                picture = drawn(view)
            if step * STEP_SECONDS % 3600 == 0:
                gc.collect()
                held.append(sys.getallocatedblocks())
        return PlayedShop(activities, view, held, picture)


@pytest.fixture(scope="module")
def story() -> PlayedShop:
    """Return two hours."""
    return played(120)


def test_the_readme_shows_what_there_is_to_see(story: PlayedShop) -> None:
    """The picture in the README is the screen as it is at that time, to the character."""
    assert in_readme() == story.picture, "run 'make generate'"


def test_a_terminal_shows_that_picture(story: PlayedShop, tmp_path: Path) -> None:
    """What is sent for the picture makes a terminal show it, to the character."""
    expected = story.picture.splitlines()
    sent = Terminal(StringIO(), {}).changes([line(text) for text in expected], (WIDTH, HEIGHT))

    for shown in panes(tmp_path, sent, WIDTH, HEIGHT):
        assert shown == expected


def test_nothing_goes_wrong(story: PlayedShop) -> None:
    """There is no error of ours in it, and no object of the shop is refused."""
    assert story.view.totals.done[ActivityKind.TROUBLE] == 0
    assert story.who(ActivityKind.REFUSE) == set()


def test_what_is_too_small_grows_where_it_is(story: PlayedShop) -> None:
    """Three pods are resized, one after the other, and none of them is evicted."""
    assert len(set(story.pods(ActivityKind.RESIZE, "web"))) == 3
    assert story.pods(ActivityKind.EVICT, "web") == []


def test_what_is_too_big_comes_back_smaller(story: PlayedShop) -> None:
    """Both pods are evicted, and created with less."""
    created = [one for one in story.activities if one.kind is ActivityKind.CREATE]

    assert len(story.pods(ActivityKind.EVICT, "reports")) == 2
    assert sum("cpu 3 -> " in one.why for one in created if "reports" in one.who) == 2


def test_boosts_come_and_go(story: PlayedShop) -> None:
    """Each pod of the slow starter is boosted once, and brought back once."""
    boosted = story.pods(ActivityKind.BOOST, "checkout")

    assert len(boosted) >= 4
    assert sorted(story.pods(ActivityKind.UNBOOST, "checkout")) == sorted(boosted)


def test_kills_for_memory_end(story: PlayedShop) -> None:
    """The cache is killed until its limit fits, and not after the first quarter of an hour."""
    kills = [one for one in story.activities if one.kind is ActivityKind.KILL]

    assert {one.who.split("-")[0] for one in kills} == {"cache"}
    assert max(one.at for one in kills) - kills[0].at < story.view.lasted / 8


def test_leaders_and_followers(story: PlayedShop) -> None:
    """Who holds the Lease is resized, at first and after the fall of that; no other database."""
    assert story.pods(ActivityKind.RESIZE, "orders") == ["orders-0", "orders-2"]
    assert story.pods(ActivityKind.EVICT, "orders") == []
    told = [one for one in story.activities if one.kind is ActivityKind.STORY]
    assert [one.why for one in told if one.who.startswith("orders")] == [
        "becomes the leader: it takes Lease orders",
        "is deleted: Lease orders is not renewed any more",
        "is promoted: it takes Lease orders from orders-0",
    ]


def test_a_promotion_is_carried_out_at_once(story: PlayedShop) -> None:
    """The next leader grows within two seconds; the former one comes back as a follower."""
    (promoted,) = (one for one in story.activities if "is promoted" in one.why)
    of_orders = [one for one in story.activities if one.who.startswith("orders-")]
    resized = next(one for one in of_orders[of_orders.index(promoted) :] if "cpu 300m" in one.why)
    (created,) = (one for one in of_orders if one.kind is ActivityKind.CREATE)

    assert (resized.who, resized.kind) == (promoted.who, ActivityKind.RESIZE)
    assert (resized.at - promoted.at).total_seconds() <= 2
    assert (created.who, "cpu 300m -> 109m" in created.why) == ("orders-0", True)
    (followers,) = (row for row in story.view.rows if row.vpa == "orders-followers")
    assert followers.pods == 2


def test_upscale_only_evicts_to_give_more(story: PlayedShop) -> None:
    """What had too little memory is evicted for it."""
    assert len(story.pods(ActivityKind.EVICT, "search")) == 2


def test_an_hpa_and_a_vpa_share_a_workload(story: PlayedShop) -> None:
    """One adds pods by their CPU, which stays as it is; the other sizes their memory."""
    (row,) = (row for row in story.view.rows if row.vpa == "catalog")

    assert row.status.text == "held"
    assert (row.cpu.request, row.cpu.target) == (200, None)
    assert row.pods > 2
    assert row.memory.request == row.memory.target
    assert len(set(story.pods(ActivityKind.RESIZE, "catalog"))) >= 2
    assert story.pods(ActivityKind.EVICT, "catalog") == []


@cases(
    "vpa reason text",
    {
        "a singleton": ("billing", "TooFewReplicas", "blocked: minReplicas"),
        "a disruption budget": ("gateway", "PDBBlocked", "blocked: PDB gateway"),
    },
)
def test_who_may_not_be_evicted_is_not(story: PlayedShop, vpa: str, reason: str, text: str) -> None:
    """The screen says why nothing is done although something is wanted, before all else."""
    status = {row.vpa: row.status for row in story.view.rows[:2]}

    assert status[vpa].text == text
    assert status[vpa].level is Attention.BLOCKED
    assert story.pods(ActivityKind.EVICT, vpa) == []
    assert story.view.totals.refusals[reason] >= 1


def test_the_summary_adds_up(story: PlayedShop) -> None:
    """Less is requested than the templates say, and deeds are those that were told."""
    totals = story.view.totals

    assert totals.after.cpu_millicores < totals.before.cpu_millicores * 0.7
    assert totals.after.memory_bytes < totals.before.memory_bytes * 0.7
    evictions = totals.done[ActivityKind.EVICT]
    assert evictions == sum(one.kind is ActivityKind.EVICT for one in story.activities)
    assert totals.reviewed.pods_changed >= evictions


def test_at_first_nobody_knows() -> None:
    """Before the updater has looked, the screen does not say that there are no pods."""
    with in_memory(shop_file()) as mode:
        mode.advance(STEP_SECONDS)
        assert {row.status.text for row in mode.view().rows} == {"not yet seen"}


def test_memory_does_not_grow(story: PlayedShop) -> None:
    """What is held after the second hour is what was held after the first."""
    assert story.held[1] < story.held[0] * 1.004


def test_equal_seeds_make_equal_stories() -> None:
    """Another run with the same seed tells the same, line by line; another seed does not."""
    first, second, other = ([*map(activity_line, played(4, seed).activities)] for seed in (0, 0, 1))

    assert first == second
    assert first != other
