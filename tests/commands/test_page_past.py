"""A page tells of each workload what other settings would have requested over a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.backtest.core.settings import AS_IT_WAS, Setting
from app.backtest.recording import RecordedContainer, Recording
from app.backtest.recording_file import save_recording
from app.commands.backtest import backtest_report
from app.commands.backtest_flags import BacktestSettings
from app.commands.backtest_settings import PRESENT, UPSTREAM
from app.commands.page_past import PastBounds, RecordedPast, recorded_past
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.model.kinds import owner_key
from app.model.snapshot import Snapshot
from app.page.core.past import WorkloadPast
from app.page.flags import PageSettings
from app.page.process import look_back
from app.recommender.core.rules import RecommenderRules
from tests import make
from tests.backtest.example import EXAMPLE
from tests.backtest.recordings import recording
from tests.page.shown import answer, pictures, shop
from tests.stepped_clock import SteppedClock

NOTHING = Snapshot({})
SETTING = Setting(PRESENT, RecommenderRules())
SHOP = (
    ("Deployment", "web"),
    ("Deployment", "cart"),
    ("StatefulSet", "db"),
    ("Deployment", "search"),
    ("CronJob", "report"),
)


def of_flags(*words: str) -> RecordedPast:
    """Return what a command line asks for."""
    found = recorded_past(parse(PageSettings, words, {}))
    assert found is not None
    return found


def told_of(days: float, workloads: int = 1) -> Recording:
    """Return a recording of some days."""
    rows = [
        RecordedContainer("default", "StatefulSet", name, f"{name}-0", "app")
        for name in ("web", "xtra")[:workloads]
    ]
    told = recording(rows, count=round(days * 288), cpu=0.1, cpu_request=1)
    told.memory[:], told.memory_request[:] = 2**28, 2**30
    told.oom_kills[:, 500:501] = 1
    return told


def of_days(days: float, folder: Path) -> RecordedPast:
    """Return what is told of a recording of some days in a file."""
    save_recording(told_of(days), folder / "web.npz")
    return of_flags(f"--recording={folder / 'web.npz'}", "--recommendation-margin-fraction=0.3")


def ended(past: RecordedPast) -> RecordedPast:
    """Work until there is nothing left to do."""
    while not past.tick(NOTHING):
        pass
    return past


def about(past: RecordedPast, name: str = "web") -> WorkloadPast:
    """Return what is told of a workload."""
    found = past.of("default", owner_key("apps/v1", "StatefulSet", name))
    assert found is not None
    return found


def test_settings_are_compared(tmp_path: Path) -> None:
    """There is a line and a level for the recording, the present flags and upstream's default."""
    found = about(ended(of_days(3, tmp_path)))

    assert found.about.startswith("web.npz: 3.0 days, 2026-01-05 10:00 to 2026-01-08 10:00 UTC.")
    assert [one.setting for one in found.lines] == [AS_IT_WAS, PRESENT, UPSTREAM]
    assert found.lines[0].cpu_unused == pytest.approx(0.9)
    assert (found.lines[0].cpu_short, found.lines[0].kills) == (0, 1)
    was, present, usual = (one.now for one in found.charts[0].levels.values())
    assert was == 1000 > present > usual


def test_kills_are_those_of_a_back_test() -> None:
    """Kills, and what is only a lower bound, are as `plumbline backtest` says of a recording."""
    past = ended(of_flags(f"--recording={EXAMPLE}"))
    told = backtest_report(parse(BacktestSettings, [str(EXAMPLE)], {}), SteppedClock())
    found = [past.of("shop", owner_key("apps/v1", kind, name)) for kind, name in SHOP]
    lines = [one.lines for one in found if one is not None]

    assert len(lines) == len(SHOP)
    bounds = [at for at, one in enumerate(found) if one is not None and "lower bound" in one.about]
    assert [SHOP[at][1] for at in bounds] == ["cart", "search"]
    for at, item in enumerate(told.items):
        assert sum(each[at].kills for each in lines) == item["kills"]


def test_it_is_told_how_far_it_is(tmp_path: Path) -> None:
    """Before numbers are there the box says why not; of what was not recorded there is none."""
    past = of_days(3, tmp_path)
    assert "It is being computed: 0% is done." in about(past).about
    for _ in range(36):
        past.tick(NOTHING)
    assert "It is being computed: 50% is done." in about(past).about
    assert past.of("default", owner_key("apps/v1", "StatefulSet", "other")) is None


def test_a_short_history_gives_no_numbers(tmp_path: Path) -> None:
    """How much is missing is said in their place."""
    found = about(ended(of_days(2, tmp_path)))

    assert found.about.endswith("1.0 days are missing for anything to be said.")
    assert (found.lines, found.charts) == ((), ())


def test_it_is_bounded() -> None:
    """Of workloads beyond the bound it is told that they are not computed."""
    bounds = PastBounds(workloads=1, rows=1)
    past = ended(RecordedPast(told_of(3, workloads=2), "web.npz", [SETTING], bounds))

    assert about(past).lines
    assert about(past, "xtra").about.endswith(
        "1 of 2 workloads are computed; this is not among them."
    )


def test_without_a_recording_there_is_nothing(tmp_path: Path) -> None:
    """Nothing is computed unless a file is named, and one that is none is an error."""
    assert recorded_past(parse(PageSettings, [], {})) is None
    with pytest.raises(BadSetting, match=r"none\.npz: cannot be read"):
        of_flags(f"--recording={tmp_path / 'none.npz'}")


def test_the_page_of_a_workload_has_it(tmp_path: Path) -> None:
    """The box stands on the page, and its numbers in the JSON beside it."""
    found, past = pictures(*shop()), of_days(3, tmp_path)
    latest, found.latest = found.latest, None
    assert look_back(found, past, make.NOW) > 0
    found.latest = latest
    while not look_back(found, past, make.NOW):
        pass
    path = "/namespaces/default/vpas/web"
    page, told = answer(found, path, past=past).text, answer(found, f"{path}.json", past=past)

    assert "With other settings" in page
    assert "upstream&#39;s default" in page
    assert [one["setting"] for one in told.json()["past"]["lines"]] == [
        AS_IT_WAS,
        PRESENT,
        UPSTREAM,
    ]
    assert "With other settings" not in answer(found, path).text


@pytest.mark.parametrize("has_vpa", [True, False])
def test_the_page_of_a_pod_has_it(tmp_path: Path, *, has_vpa: bool) -> None:
    """It is that of the pod's workload, with a VPA or without."""
    objects = [one for one in shop() if has_vpa or one["kind"] != "VerticalPodAutoscaler"]
    past = ended(of_days(3, tmp_path))
    pod = next(one["metadata"]["name"] for one in objects if one["kind"] == "Pod")
    told = answer(pictures(*objects), f"/namespaces/default/pods/{pod}.json", past=past)

    assert told.json()["past"]["lines"][0]["setting"] == AS_IT_WAS
    page = answer(pictures(*objects), f"/namespaces/default/pods/{pod}", past=past).text
    assert "With other settings" in page


def test_a_role_has_none(tmp_path: Path) -> None:
    """A recording knows no labels, so nothing true can be said of some pods of a workload."""
    found = pictures(*shop(selector={"matchLabels": {"role": "leader"}}))
    told = answer(found, "/namespaces/default/vpas/web.json", past=of_days(3, tmp_path))

    assert "past" not in told.json()


def test_a_workload_without_a_vpa_has_it(tmp_path: Path) -> None:
    """It is computed as if a VPA asked for nothing."""
    objects = [one for one in shop() if one["kind"] != "VerticalPodAutoscaler"]
    past = ended(of_days(3, tmp_path))
    path = "/namespaces/default/workloads/StatefulSet/web.json"

    assert answer(pictures(*objects), path, past=past).json()["past"]["charts"]
