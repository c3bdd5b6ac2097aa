"""Back-tests as they are asked for and told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
import yaml

from app.backtest.core.recorded_fleet import RecordedWorkload
from app.backtest.core.setting_outcomes import (
    HistoryQuality,
    Interval,
    Price,
    ResourceOutcome,
    SettingOutcome,
)
from app.backtest.recording import MEASURES
from app.backtest.recording_file import load_recording, save_recording
from app.commands.backtest import backtest_report
from app.commands.backtest_flags import BacktestSettings
from app.commands.backtest_settings import PRESENT, UPSTREAM, compared, given_by, prices_of
from app.commands.backtest_text import doubts, sentence
from app.commands.choose import PROFILES, choose_report, profiles_of
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.model.update_modes import UpdateMode
from app.output import Output, Report, shown
from app.ports import Clock
from app.recommender.core.rules import RecommenderRules
from tests import make
from tests.backtest.core.scored import CART
from tests.backtest.core.scored import WEB as WEBS
from tests.backtest.example import EXAMPLE, example
from tests.backtest.fleet import Fleet, Load
from tests.backtest.recordings import WEB, recording
from tests.cases import cases
from tests.prometheus_server import prometheus
from tests.stepped_clock import SteppedClock

DAY = 288  # steps
CLOCK = SteppedClock()


def settings(*words: str) -> BacktestSettings:
    """Read a command line."""
    return parse(BacktestSettings, words, {})


def printed(report: Report, output: Output = Output.TABLE) -> str:
    """Return what people see."""
    return "\n".join(shown(report, output))


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write fourteen days of a container that uses a tenth of what it has."""
    told = recording(count=14 * DAY, cpu=0.1, memory=200 * 2**20, cpu_request=1)
    told.memory_request[:], told.memory_limit[:] = 2**31, 2**32
    told.cpu[0, ::2] = 0.12
    path = tmp_path_factory.mktemp("steady") / "steady.npz"
    save_recording(told, path)
    return str(path)


def test_the_example_is_what_its_script_makes() -> None:
    """The file of the documentation can be made again."""
    found, made = load_recording(EXAMPLE), example()
    assert (found.rows, found.start, found.step) == (made.rows, made.start, made.step)
    for measure in MEASURES:
        assert np.array_equal(found.measured(measure), made.measured(measure), equal_nan=True)


def test_the_sentence_comes_first(steady: str) -> None:
    """Of the first set, else of the present flags, and flags to use come last."""
    usual = printed(backtest_report(settings(steady), CLOCK)).splitlines()
    assert usual[0] == (
        "With the present flags you would have reserved 86% less CPU (85.7 to 85.7%) and 88% less "
        "memory (87.8 to 87.8%) with no more kills and no resize, over 13 days; 0% of samples were "
        "cut off by limits."
    )
    told = printed(backtest_report(settings(steady, "--set=target-cpu-percentile=0.5"), CLOCK))
    assert told.startswith("With CPU p50 you would have reserved 8")
    assert told.endswith("to use CPU p50:\n  --target-cpu-percentile=0.5")
    told = printed(backtest_report(settings(steady, "--set=update-mode=Off"), CLOCK))
    assert told.startswith("With mode Off you would have reserved as much CPU and as much memory")


def test_formats(steady: str) -> None:
    """Programs get an object for each setting, with every digit."""
    report = backtest_report(settings(steady, "--set=update-mode=Initial"), CLOCK)
    items = [orjson.loads(line) for line in shown(report, Output.JSON)]
    names = ["as it was", PRESENT, "mode Initial"]
    assert [item["setting"] for item in items] == names
    assert list(shown(report, Output.NAME)) == names
    assert items[0]["cpu"]["reservedCoreHours"] == pytest.approx(13 * 24)
    assert items[2]["cpu"]["change"]["value"] == 0
    assert items[0]["history"]["workloads"] == 1
    header = next(shown(report, Output.CSV))
    assert {"setting", "kills", "cpu.change.least"} <= set(header.split(","))
    assert len(list(yaml.safe_load_all(printed(report, Output.YAML)))) == 3


@cases(
    "width head rows",
    {
        "as wide as it is": (None, "SETTING            CPU", 3),
        "80 columns": (80, "  CPU    UNUSED  SHORT  MEMORY  UNUSED  SHORT  KILLS  RESIZES", 5),
        "60 columns": (60, "  CPU    SHORT  MEMORY  SHORT  KILLS  RESIZES", 5),
    },
)
@cases(
    "words ends",
    {
        "without prices": ([], {None: ["-", "0.0"], 80: ["-", "0.0"], 60: ["-", "0.0"]}),
        "with prices": (
            ["--price-core=0.03", "--price-gib=0.004"],
            {width: ["11.86", "1.64"] for width in (None, 80, 60)},
        ),
    },
)
def test_tables_fit(
    steady: str,
    words: Sequence[str],
    ends: Mapping[int | None, Sequence[str]],
    width: int | None,
    head: str,
    rows: int,
) -> None:
    """Names stand above their numbers where there is little room; every number stays in its row."""
    report = backtest_report(settings(steady, *words), CLOCK)
    found = list(shown(report, Output.TABLE, width=width))
    table = found[found.index("") + 1 :][:rows]
    assert table[0].startswith(head)
    assert [one.split()[-1] for one in table if "%" in one] == ends[width]
    assert width is None or max(map(len, found)) <= width
    wide = list(shown(report, Output.WIDE, width=60))
    assert wide == list(shown(report, Output.TABLE))


def test_requests_that_are_not_known(tmp_path: Path) -> None:
    """Nothing is said of what was requested, neither as a number nor as none."""
    told = recording(count=4 * 288, cpu=0.1, memory=2**28)
    save_recording(told, tmp_path / "x.npz")
    report = backtest_report(settings(str(tmp_path / "x.npz")), CLOCK)
    found = printed(report).splitlines()

    assert "as it is not known what was requested" in found[0]
    assert found[3].split() == ["as", "it", "was", *"------0--"]
    assert "not known of any container: CPU requests, memory requests, CPU limits" in found[-1]
    assert report.items[0]["cpu"] is None
    assert report.items[1]["cpu"]["reservedCoreHours"] > 0


def test_prices_make_a_column(steady: str, tmp_path: Path) -> None:
    """Money is what was reserved, at the prices of flags or of a file."""
    flags = settings(steady, "--price-core=2", "--price-gib=0.5")
    table = printed(backtest_report(flags, CLOCK)).splitlines()
    assert table[2].split()[-1] == "COST"
    assert table[3].split()[-1] == f"{13 * 24 * (2 + 2 * 0.5):.2f}"
    file = tmp_path / "prices.yaml"
    file.write_text("core: 1\ngib: 0\nnamespaces: {shop: {core: 2, gib: 0.5}}\n")
    told = printed(backtest_report(settings(steady, f"--price-file={file}"), CLOCK)).splitlines()
    assert told[3] == table[3]


def test_what_is_compared() -> None:
    """The present flags, upstream's default where it differs, and each set."""
    found = compared(
        settings("--recommendation-margin-fraction=0.3", "--feature-gates=PerVPAConfig=true"),
        ["--target_cpu_percentile=0.95, update-mode=Recreate"],
    )
    assert [one.name for one in found] == [PRESENT, UPSTREAM, "CPU p95, mode Recreate"]
    assert [one.rules.estimator.margin_fraction for one in found] == [0.3, 0.15, 0.3]
    assert [one.rules.per_vpa_config for one in found] == [True, False, True]
    assert [one.mode for one in found] == [UpdateMode.IN_PLACE_OR_RECREATE] * 2 + ["Recreate"]
    assert [one.flags for one in found] == [(), (), ("--target-cpu-percentile=0.95",)]
    assert compared(settings(), [])[0].rules == RecommenderRules()


@cases(
    "text name",
    {
        "both percentiles": (
            "target-cpu-percentile=0.95,target-memory-percentile=0.95",
            "p95",
        ),
        "one": ("target-memory-percentile=0.975", "memory p97.5"),
        "two": ("target-cpu-percentile=0.9,target-memory-percentile=1", "CPU p90, memory p100"),
        "half-lives": ("cpu-histogram-decay-half-life=72h", "CPU half-life 72h"),
        "margin": ("recommendation-margin-fraction=0.05", "5% margin"),
        "no margin": ("recommendation-margin-fraction=0", "no margin"),
        "others": ("oom-bump-up-ratio=1.5", "oom-bump-up-ratio=1.5"),
    },
)
def test_names(text: str, name: str) -> None:
    """Settings are called by what differs."""
    assert compared(settings(), [text])[1].name == name


@cases(
    "sets told",
    {
        "unknown": (
            ["target-cpu=0.9"],
            '--set=target-cpu=0.9: the recommender has no flag "target-cpu"; did you mean ',
        ),
        "value": (
            ["target-cpu-percentile=high"],
            "--set=target-cpu-percentile=high: --target-cpu-percentile takes a number from 0 to 1",
        ),
        "no value": (["target-cpu-percentile"], '"target-cpu-percentile" is no NAME=VALUE'),
        "mode": (["update-mode=Always"], "--set=update-mode=Always: Always is no update mode"),
        "twice": (["update-mode=Off"] * 2, "--set=update-mode=Off is there twice"),
    },
)
def test_sets_that_are_wrong(sets: Sequence[str], told: str) -> None:
    """A sentence names the set and what is wrong with it."""
    with pytest.raises(BadSetting) as error:
        compared(settings(), sets)
    assert told in str(error.value)


@cases(
    "words file told",
    {
        "one alone": (["--price-core=1"], None, "--price-core and --price-gib go together"),
        "both": (["--price-core=1", "--price-file={}"], "core: 1", "exclude each other"),
        "no file": (["--price-file={}"], None, "cannot be read"),
        "no YAML": (["--price-file={}"], "core: [", "is no YAML"),
        "no object": (["--price-file={}"], "- 1", "has no members core and gib"),
        "no namespaces": (["--price-file={}"], "namespaces: 1", "has no members core and gib"),
        "no number": (["--price-file={}"], "core: x\ngib: 1", "core is x, and not a price"),
        "negative": (["--price-file={}"], "core: 1\ngib: -1", "gib is -1, and not a price"),
        "in a namespace": (
            ["--price-file={}"],
            "{core: 1, gib: 1, namespaces: {a: {core: 1}}}",
            "namespaces.a: gib is None, and not a price",
        ),
    },
)
def test_prices_that_are_wrong(
    words: Sequence[str], file: str | None, told: str, tmp_path: Path
) -> None:
    """A sentence names the file and what is wrong."""
    path = tmp_path / "prices.yaml"
    if file is not None:
        path.write_text(file)
    with pytest.raises(BadSetting) as error:
        prices_of(settings(*(word.format(path) for word in words)).prices)
    assert told in str(error.value)


def test_prices_of_flags() -> None:
    """Without any there is no money."""
    assert prices_of(settings().prices) is None
    found = prices_of(settings("--price-core=1", "--price-gib=2").prices)
    assert found is not None
    assert found.usual == Price(1, 2)


def test_objects_of_the_cluster(tmp_path: Path) -> None:
    """VPAs are found by their targets, the stronger one first; what cannot be read is told."""
    vpas = [
        make.vpa_json("old", created="2025-01-01T00:00:00Z"),
        make.vpa_json("new", created="2025-02-01T00:00:00Z"),
        make.vpa_json("aimless", target=None),
        make.limit_range_json(most={"cpu": "1"}),
        {"kind": "LimitRange", "metadata": {"name": "bad", "namespace": "a"}, "spec": 1},
    ]
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(vpas))
    notes = list[str]()
    found = given_by([tmp_path], notes)
    assert found.vpa(RecordedWorkload("default", "StatefulSet", "web")).name == "old"
    assert found.limits_of("default").container is not None
    assert len(found.vpas) == 1
    assert len(notes) == 1


@cases(
    "words told",
    {
        "no file": ([], "name one recording"),
        "two files": (["a", "b"], "name one recording"),
        "not there": (["/nowhere/a.npz"], "/nowhere/a.npz: cannot be read"),
    },
)
def test_files_that_are_wrong(words: Sequence[str], told: str) -> None:
    """One recording is needed."""
    with pytest.raises(BadSetting, match=told):
        backtest_report(settings(*words), CLOCK)


def test_a_recording_without_workloads(tmp_path: Path) -> None:
    """Nothing can be said of pods whose owners are not known."""
    path = tmp_path / "strays.npz"
    save_recording(recording([WEB._replace(owner_kind="", owner_name="")], count=7 * DAY), path)
    with pytest.raises(BadSetting, match="no container of a known workload"):
        backtest_report(settings(str(path)), CLOCK)


@pytest.mark.parametrize(("report", "days"), [(backtest_report, 1.0), (choose_report, 11.0)])
def test_too_little_history(report: object, days: float, tmp_path: Path) -> None:
    """It is told how much is missing, and no number."""
    path = tmp_path / "short.npz"
    save_recording(recording(count=2 * DAY, cpu=1), path)
    assert callable(report)
    found = report(settings(str(path)), CLOCK)
    assert found.is_bad
    assert printed(found).startswith(f"usage is known of 2.0 days, and {days} days are missing")
    assert found.items == [{"missingDays": days}]


# --- from Prometheus


def test_a_recording_is_made_first(tmp_path: Path) -> None:
    """It is read out of Prometheus into the file, which then is used without it."""
    path = tmp_path / "fleet.npz"
    with prometheus() as server:
        server.otherwise = Fleet((Load("db-0"),))
        words = ("--days=3", "--step=1h", f"--prometheus-address={server.url}", str(path))
        first = backtest_report(settings(*words), CLOCK)
    assert "recorded" in first.notes[0]
    assert printed(first) == printed(backtest_report(settings(str(path)), CLOCK))
    with pytest.raises(BadSetting, match="is there already; without --prometheus-address"):
        backtest_report(settings(*words), CLOCK)


def test_a_recording_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies in the folder of the moment, for the next back-test."""
    monkeypatch.chdir(tmp_path)
    with prometheus() as server:
        server.otherwise = Fleet((Load("db-0"),))
        address = f"--prometheus-address={server.url}"
        choose_report(settings("--days=1", "--step=1h", address), CLOCK)
    assert load_recording(tmp_path / "recording.npz").count == 24


# --- choose


def test_what_is_chosen(steady: str) -> None:
    """Less margin is better for what never changes; the flags to use come first."""
    found = choose_report(settings(steady, "--price-core=0.1", "--price-gib=0"), CLOCK)
    told = printed(found).splitlines()
    assert told[0].startswith("Use p90, half-life 24h, 5% margin: --target-cpu-percentile=0.9 ")
    assert told[1].endswith("That is compared with the present flags.")
    assert told[2].startswith("It costs 0.8")
    assert found.items[0]["proposed"] == "p90, half-life 24h, 5% margin"
    assert [turn["isWon"] for turn in found.items[0]["turns"]] == [True] * 3
    assert len(found.items[0]["settings"]) == 13


def test_what_is_kept(steady: str) -> None:
    """What reserves more for nothing is not proposed."""
    found = choose_report(settings(steady, "--set=recommendation-margin-fraction=0.5"), CLOCK)
    told = printed(found)
    assert told.startswith("Keep what you have: no other setting was better in two of three parts")
    assert "part 1 of 3: the present flags were the best of the other two parts" in told
    assert found.items[0]["proposed"] is None
    assert found.items[0]["flags"] == []


def test_killed_containers_keep_what_they_need(tmp_path: Path) -> None:
    """What a container had is told as minAllowed, also if the flags give it today."""
    told = recording(count=13 * DAY, cpu=0.1, memory=300 * 2**20, cpu_request=1)
    told.memory_request[:] = told.memory_limit[:] = 2**30
    told.oom_kills[0, 3] = 1
    save_recording(told, path := tmp_path / "killed.npz")
    short = "memory-aggregation-interval=1h,memory-histogram-decay-half-life=1h"
    found = choose_report(
        settings(str(path), f"--set=recommendation-margin-fraction=0.01,{short}"), CLOCK
    )
    assert "set minAllowed.memory of container app of shop/Deployment/web to 1Gi" in printed(found)
    assert found.items[0]["minAllowed"] == [
        {"workload": "shop/Deployment/web", "container": "app", "memory": 2**30}
    ]


@cases(
    "text problem",
    {
        "a mode": ("update-mode=Recreate", "flags are chosen, not modes; backtest has both"),
        "nothing new": ("target-cpu-percentile=0.9", "is what the present flags say"),
    },
)
def test_sets_that_cannot_be_chosen(text: str, problem: str) -> None:
    """What would be left out of the comparison is refused."""
    with pytest.raises(BadSetting) as found:
        profiles_of(settings("x.npz", f"--set={text}"))
    assert str(found.value) == f"--set={text}: {problem}"


def test_at_most_twelve() -> None:
    """Many settings would only find out which one is lucky."""
    assert len(profiles_of(settings())) == len(PROFILES) == 12
    others = settings("--recommendation-margin-fraction=0.4")
    assert len(profiles_of(others)) == 12
    many = [f"--set=target-cpu-percentile=0.{digits}" for digits in range(10, 22)]
    with pytest.raises(BadSetting, match="12 settings are too many"):
        profiles_of(settings(*many))
    assert len(profiles_of(settings(*many[1:]))) == 12


# --- what people read


def told(name: str = "p95, no margin", **more: object) -> SettingOutcome:
    """Return what came of a setting: everything less by half unless told otherwise."""
    half = Interval(-0.5, -0.6, -0.4)
    both = ResourceOutcome(used=50, reserved=100, slack=50, unmet=0, over_share=0.1, change=half)
    usual = SettingOutcome(name, both, both, 2, 1.0, 0.0, None, None, flags=("--a=b",))
    return replace(usual, **more)  # type: ignore[arg-type]


def changed(share: float, least: float, most: float) -> ResourceOutcome:
    """Return a resource of which another share was reserved."""
    return replace(told().cpu, change=Interval(share, least, most))


BELIEVED = HistoryQuality(13, 4, 1000, 0.0, 0.031, (), 0)
LESS = "50% less CPU (40 to 60%) and 50% less memory (40 to 60%)"


@cases(
    "one sentence_part",
    {
        "less of both": (told(), f"With p95 and no margin you would have reserved {LESS} with "),
        "more": (told(cpu=changed(0.2, 0.1, 0.3)), " reserved 20% more CPU (10 to 30%) and "),
        "unsure": (told(cpu=changed(0.2, -0.1, 0.5)), " reserved 20% more CPU (-10 to 50%) and "),
        "as much": (told(cpu=changed(0.001, 0, 0.1)), " reserved as much CPU and 50% less memory"),
        "no requests": (
            told(cpu=replace(told().cpu, change=None), memory=replace(told().cpu, change=None)),
            "reserved nothing else than before, as nothing was requested with ",
        ),
        "a kill": (
            told(more_kills=1, killed_more=(WEBS,)),
            "with 1 more kill of shop/Deployment/web, and 7 resizes a week, over 13 days; 3% of ",
        ),
        "two fewer": (told(fewer_kills=2), "with 2 fewer kills and 7 resizes a week"),
        "as many, of others": (
            told(fewer_kills=4, more_kills=4, killed_more=(WEBS, CART)),
            "with 4 fewer kills, but 4 more of shop/Deployment/web, cart/Deployment/cart, and 7 ",
        ),
        "short more often": (
            told(cpu=replace(told().cpu, over_share=0.1512)),
            "cut off by limits. CPU would have been short 15.1% of the time, not 10.0%.",
        ),
        "short less often": (told(cpu=replace(told().cpu, over_share=0.05)), "by limits."),
        "none more": (told(), "with no more kills and 7 resizes a week"),
        "evictions": (told(evictions_a_day=2.0), "and 14 evictions a week"),
        "no resize": (told(resizes_a_day=0.0), "and no resize, over"),
        "few days": (told(cpu=replace(told().cpu, change=Interval(-0.5))), "50% less CPU and 50%"),
    },
)
def test_sentences(one: SettingOutcome, sentence_part: str) -> None:
    """What would have been reserved, killed and changed, how surely, and over how long."""
    assert sentence_part in sentence(one, told(), BELIEVED)


def test_doubts() -> None:
    """What cannot be believed is told, and nothing if all can be."""
    names = tuple(RecordedWorkload("shop", "Deployment", name) for name in "abcde")
    found = list(
        doubts(
            replace(BELIEVED, gap_share=0.02, lower_bounds=names, unknown_owners=1, empty_days=1)
        )
    )
    assert found == [
        "of shop/Deployment/a, shop/Deployment/b, shop/Deployment/c and 2 more the results are a "
        "lower bound: limits may have cut off what was used",
        "1 day without any usage, left out",
        "2% of samples are missing and left out",
        "unknown owner: 1 container, left out",
    ]
    assert list(doubts(BELIEVED)) == []


@pytest.mark.parametrize("report", [backtest_report, choose_report])
def test_a_page_in_one_file(report: Callable[[BacktestSettings, Clock], Report]) -> None:
    """It has the sentence, a row for each setting, and needs no other file."""
    asked = settings(str(EXAMPLE), "-ohtml", "--set=target-cpu-percentile=0.95")
    page = printed(report(asked, CLOCK), asked.showing.output)
    assert page.startswith("<!doctype html>\n")
    assert "CPU p95</th>" in page
    assert page.count('<div class="hours"') == 2 * page.count('<th scope="row">')
    assert "<link" not in page
    assert "<script" not in page
