"""The screen as text: what is shown where, and what is left out when there is no room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from app.output import Tone
from app.run.screen import picture
from app.run.view import Activity, ActivityKind, ClusterSpeed, ResourceAmounts, Totals, View
from tests.cases import cases
from tests.run.views import FINE, NOW, ROW, VIEW

COMMANDS = ["In another terminal: sh /tmp/pl-x/1-new-pod 2-why", "Or ask: plumbline plan --demo"]
SENTENCE = (
    "cpu 100m is below its lower bound 200m: 100m -> 350m; "
    "memory 128Mi is below its lower bound 300Mi: 128Mi -> 400Mi"
)


def drawn(view: View = VIEW, width: int = 100, height: int = 24, *commands: str) -> list[str]:
    """Return a picture as plain text."""
    lines = picture(view, commands, width, height)
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


@pytest.mark.parametrize("size", [(80, 24), (100, 40), (200, 30)])
def test_the_whole_picture(size: tuple[int, int]) -> None:
    """Totals, a line a VPA, a legend, what happened, what comes next, and what can be tried."""
    width, height = size
    path = Path(__file__).with_name("pictures") / f"{width}x{height}.txt"

    assert drawn(VIEW, width, height, *COMMANDS) == path.read_text("utf-8").splitlines()


@pytest.mark.parametrize("width", [1, 20, 59, 60, 79, 80, 81, 100, 137, 200])
@pytest.mark.parametrize("height", [1, 6, 10, 24, 29, 30, 60])
def test_it_fits_every_screen(width: int, height: int) -> None:
    """There are as many lines as the screen has, and none is wider, whatever is to be shown."""
    rows = [replace(ROW, vpa=f"vpa-{number}" * (1 + number % 3)) for number in range(30)]
    activities = [Activity(NOW, ActivityKind.WAIT, "w" * 99, "y" * 99 + SENTENCE)] * 40
    lines = drawn(replace(VIEW, rows=rows, activities=activities), width, height, *COMMANDS)

    assert len(lines) == height
    assert max(map(len, lines)) <= width


def test_a_small_screen() -> None:
    """VPAs that are in order give way to what happened and what comes next."""
    view = replace(VIEW, rows=[ROW, ROW, *[FINE] * 7])
    lines = drawn(view, 60, 15, *COMMANDS)

    assert sum(line.startswith("web ") for line in lines) == 2
    assert any(line.endswith(" more, all ok") for line in lines)
    assert any(line.startswith("10:42:10 evict") for line in lines)
    assert lines[-1].startswith("next: 11:42 ")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_sentence_is_cut(width: int) -> None:
    """A reason is wrapped beside the rest, and can be read as a whole."""
    view = replace(VIEW, activities=[Activity(NOW, ActivityKind.RESIZE, "web-1", SENTENCE)])
    told = " ".join(" ".join(drawn(view, width, 30)).split())

    assert SENTENCE in told


@pytest.mark.parametrize("kind", [ActivityKind.REFUSE, ActivityKind.WRITE, ActivityKind.TROUBLE])
def test_names_of_objects_are_not_cut(kind: ActivityKind) -> None:
    """Who is refused is named as a whole, and what is wrong with it stands below."""
    name = "VerticalPodAutoscaler a-name-that-is-rather-long"
    refused = Activity(NOW, kind, name, SENTENCE)
    told = " ".join(" ".join(drawn(replace(VIEW, activities=[refused]), 80)).split())

    assert f"{kind} {name}: {SENTENCE}" in told


@cases(
    "width columns",
    {
        "for one resource": (52, ["VPA", "STATUS", "CPU"]),
        "too narrow for memory": (60, ["VPA", "STATUS", "PODS", "CPU"]),
        "usual": (80, ["VPA", "STATUS", "PODS", "CPU", "MEMORY"]),
        "with usage": (120, ["VPA", "STATUS", "PODS", "CPU", "used", "MEMORY", "used"]),
        "with the mode": (
            140,
            ["VPA", "STATUS", "PODS", "CPU", "used", "MEMORY", "used", "MODE"],
        ),
        "with why": (
            180,
            ["VPA", "STATUS", "PODS", "CPU", "used", "MEMORY", "used", "MODE", "WHY"],
        ),
    },
)
def test_columns_are_shown_whole_or_not_at_all(width: int, columns: list[str]) -> None:
    """Each column has all of its amounts; wider terminals have more columns."""
    head = next(line for line in drawn(width=width) if line.startswith("VPA"))

    assert head.replace("→ target", "").split() == columns


@pytest.mark.parametrize("height", [10, 24, 60])
def test_rows_that_find_no_room_are_counted(height: int) -> None:
    """The first rows stay, the others are counted to the last one."""
    many = replace(VIEW, rows=[replace(ROW, vpa=f"vpa-{number}") for number in range(30)])
    lines = drawn(many, 100, height)
    shown = sum(line.startswith("vpa-") for line in lines)
    counted = [line for line in lines if line.startswith("and ")]

    assert counted == ([f"and {30 - shown} more"] if shown < 30 else [])


def test_the_latest_activities_stay() -> None:
    """Those that find no room are the older ones."""
    many = [
        Activity(NOW, ActivityKind.EVICT, f"pod-{number}", f"for reason {number}")
        for number in range(90)
    ]
    found = [line.split()[-1] for line in drawn(replace(VIEW, activities=many)) if "pod-" in line]

    assert found == [str(number) for number in range(90 - len(found), 90)]
    assert len(found) > 5


def kills(*minutes: float, why: str = "redis OOM-killed at 200Mi") -> list[Activity]:
    """Return kills of different pods of a workload, so many minutes ago."""
    return [
        Activity(
            NOW - timedelta(minutes=ago), ActivityKind.KILL, f"cache-{ago}", why, "shop", "cache"
        )
        for ago in minutes
    ]


@cases(
    "activities shown",
    {
        "soon again": (kills(12, 7, 2), ["cache (x3)"]),
        "by a bound that moved": (
            [
                *kills(3, why="cpu 1 is above its upper bound 980m: 1 -> 49m"),
                *kills(2, why="cpu 1 is above its upper bound 0.9: 1 -> 49m"),
            ],
            ["cache (x2)"],
        ),
        "much later": (kills(30, 12, 2), ["cache-30", "cache-12", "cache-2"]),
        "for another reason": ([*kills(3), *kills(2, why="other")], ["cache-3", "cache-2"]),
        "of another namespace": (
            [*kills(3), replace(kills(2)[0], namespace="bank")],
            ["cache-3", "cache-2"],
        ),
        "once": (kills(2), ["cache-2"]),
    },
)
def test_repeats_are_folded(activities: Sequence[Activity], shown: list[str]) -> None:
    """What happens again within ten minutes for the same reason is one line with a count."""
    lines = drawn(replace(VIEW, activities=activities))

    assert [line[19:45].strip() for line in lines if " kill " in line] == shown


@cases(
    "amounts text tone",
    {
        "at its target": (ResourceAmounts(500, 1, 500, 400, 600), " 500m", Tone.PLAIN),
        "too small": (ResourceAmounts(300, 1, 500, 400, 600), " 300m →  500m ▲", Tone.BAD),
        "too large": (ResourceAmounts(9000, 1, 500, 400, 600), "9000m →  500m ▼", Tone.BAD),
        "a little too small": (ResourceAmounts(450, 1, 500, 400, 600), " 450m →  500m △", None),
        "a little too large": (ResourceAmounts(550, 1, 500, 400, 600), " 550m →  500m ▽", None),
        "not recommended yet": (ResourceAmounts(300), " 300m", Tone.PLAIN),
        "no request": (ResourceAmounts(None, 1, 500, 400, 600), "    - →  500m", Tone.PLAIN),
        "nothing": (ResourceAmounts(), "    -", Tone.PLAIN),
    },
)
def test_what_has_to_change_stands_out(
    amounts: ResourceAmounts, text: str, tone: Tone | None
) -> None:
    """An arrow leads to the target, marks also say without colours what is out of bounds."""
    (row,) = (
        line
        for line in picture(replace(VIEW, rows=[replace(ROW, cpu=amounts)]), (), 100, 24)
        if line[0].text.startswith("web")
    )

    assert (row[3].text.rstrip(), row[3].tone) == (text, tone or Tone.PLAIN)


def test_one_unit_a_column() -> None:
    """Amounts that would not fit turn all of their column to the larger unit."""
    large = replace(ROW, cpu=ResourceAmounts(250_000, 1, 627), memory=ResourceAmounts(2**37, 1))
    lines = drawn(replace(VIEW, rows=[large, FINE]), 100, 24)

    assert [line[50:].split() for line in lines if line.startswith(("web", "api"))] == [
        ["3", "250.00", "→", "0.63", "▽", "128.00Gi"],
        ["2", "0.20", "0.06Gi"],
    ]


def test_names_of_several_namespaces() -> None:
    """Where VPAs of more than one namespace are shown, each has its own before its name."""
    rows = [ROW, replace(ROW, namespace="bank")]
    lines = drawn(replace(VIEW, rows=rows))

    assert [line.split()[0] for line in lines if "/web" in line] == ["shop/web", "bank/web"]


@cases(
    "pace title next_one",
    {
        "60x": (ClusterSpeed(60.0), "42m in, 60x   space pauses, + - speed, q ends", "(in 60 s)"),
        "slow": (ClusterSpeed(1.0), "42m in, 1x   space pauses, + - speed, q ends", "(in 60m)"),
        "max": (ClusterSpeed(float("inf")), "max speed   space pauses", ""),
        "paused": (ClusterSpeed(60.0, is_paused=True), "60x   PAUSED   space", ""),
        "real": (ClusterSpeed(), "42m in, real time   q ends", "(in 60m)"),
    },
)
def test_time(pace: ClusterSpeed, title: str, next_one: str) -> None:
    """The title says how time passes and which keys there are, below is what comes next."""
    lines = drawn(replace(VIEW, pace=pace))

    assert title in lines[0]
    assert lines[-1] == f"next: 11:42 a new version of web {next_one}".rstrip()


def test_nothing_is_to_come() -> None:
    """Without anything to come there is no such line."""
    assert "next:" not in " ".join(drawn(replace(VIEW, upcoming=None)))


@cases(
    "refused text",
    {
        "none was refused": (0, "there is no VPA yet, so no pod is sized; "),
        "all were": (1, "no VPA was accepted, so there is nothing to watch"),
    },
)
def test_without_vpas(refused: int, text: str) -> None:
    """An empty table says why it is empty."""
    totals = Totals(done=Counter({ActivityKind.REFUSE: refused}))
    lines = drawn(replace(VIEW, rows=[], totals=totals))

    assert any(line.startswith(text) for line in lines)
    assert "STATUS" not in " ".join(lines)


def test_savings_are_shares() -> None:
    """What is saved stands as a share, in green; what is added as well, without."""
    lines = picture(VIEW, (), 100, 24)
    cpu, memory = (piece for piece in lines[1] if piece.text.startswith(("CPU", "memory")))

    assert (cpu.text, cpu.tone) == ("CPU 9.9 → 4.62 cores (-53%)", Tone.GOOD)
    assert memory.text == "memory 16 → 7 GiB (-56%)"
