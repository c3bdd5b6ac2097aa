"""The screen as text: what is shown where, and what is left out when there is no room."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.output import Tone
from app.run.picture import (
    Activity,
    ActivityKind,
    ResourceAmounts,
    ReviewCounts,
    Sums,
    Totals,
    View,
    VpaRow,
    activity_line,
    picture,
    summary,
)
from tests.cases import cases

NOW = datetime(2026, 1, 5, 10, 42, 10, tzinfo=UTC)
MIB = 2**20
ROW = VpaRow(
    "shop",
    "web",
    3,
    ResourceAmounts(request=50, usage=402, target=627, lower=590, upper=17000),
    ResourceAmounts(400 * MIB, 320 * MIB, 392 * MIB, 373 * MIB, 9953 * MIB),
    "PDBBlocked",
)
TOTALS = Totals(
    ReviewCounts(reviews=41, pods_changed=24, vpas_refused=1),
    Counter(
        {
            ActivityKind.EVICT: 6,
            ActivityKind.RESIZE: 8,
            ActivityKind.UNBOOST: 4,
            ActivityKind.KILL: 11,
        }
    ),
    Counter(PDBBlocked=2, TooFewReplicas=1),
    before=Sums(9900, 16 * 2**30),
    after=Sums(4620, 7 * 2**30),
)
VIEW = View(
    "Plumbline",
    NOW,
    timedelta(minutes=42),
    "60x",
    1.44,
    [ROW],
    [Activity(NOW, ActivityKind.EVICT, "web-1", "outside of its bounds")],
    TOTALS,
)
COMMANDS = ["# what was decided", "curl -s 'http://localhost:8943/v1/decisions'"]


def drawn(view: View = VIEW, width: int = 100, height: int = 24, *commands: str) -> list[str]:
    """Return a picture as plain text."""
    lines = picture(view, commands, width, height)
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def test_the_whole_picture() -> None:
    """Totals above, one line a VPA, then what happened, then what can be pasted."""
    expected = Path(__file__).with_name("picture.txt").read_text("utf-8")
    assert drawn(VIEW, 100, 14, *COMMANDS) == expected.splitlines()


@pytest.mark.parametrize("width", [20, 60, 100, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """What is too wide is cut, and shows that it is."""
    long = replace(VIEW, activities=[Activity(NOW, ActivityKind.WAIT, "w" * 99, "y" * 99)])
    lines = drawn(long, width)

    assert max(map(len, lines)) <= width
    assert any(line.endswith("…") for line in lines) == (width < 130)


@pytest.mark.parametrize("height", [6, 10, 24, 60])
def test_no_more_lines_than_the_screen_has(height: int) -> None:
    """Rows that find no room are counted, and the latest happenings stay."""
    many = replace(
        VIEW,
        rows=[replace(ROW, vpa=f"vpa-{number}") for number in range(30)],
        activities=[Activity(NOW, ActivityKind.EVICT, f"pod-{number}", "") for number in range(90)],
    )
    lines = drawn(many, 100, height)

    assert len(lines) == height
    assert ("pod-89" in lines[-1]) == (height > 6)
    assert any(line.startswith("and ") for line in lines) == (height < 40)


def test_commands_that_cannot_be_copied_are_not_shown() -> None:
    """Half a command is worse than none."""
    assert "# what was decided" in drawn(VIEW, 100, 24, *COMMANDS)
    assert "# what was decided" not in drawn(VIEW, 40, 24, *COMMANDS)


@cases(
    "amounts tone",
    {
        "within its bounds": (ResourceAmounts(500, 1, 1, 400, 600), Tone.GOOD),
        "outside of them": (ResourceAmounts(300, 1, 1, 400, 600), Tone.BAD),
        "not recommended yet": (ResourceAmounts(300), Tone.PLAIN),
        "no request": (ResourceAmounts(None, 1, 1, 400, 600), Tone.PLAIN),
    },
)
def test_requests_out_of_bounds_stand_out(amounts: ResourceAmounts, tone: Tone) -> None:
    """The tone of a request tells whether something has to be done."""
    lines = picture(replace(VIEW, rows=[replace(ROW, cpu=amounts)]), (), 100, 24)

    assert lines[4][1].tone is tone


def test_a_line_an_event() -> None:
    """Where nothing is drawn, a happening is one line."""
    happening = replace(VIEW.activities[0], namespace="shop")

    assert activity_line(happening) == "10:42:10 evict     shop/web-1: outside of its bounds"


def test_names_of_several_namespaces() -> None:
    """Where VPAs of more than one namespace are shown, each is told with its own."""
    rows = [ROW, replace(ROW, namespace="bank")]

    assert [row.split()[0] for row in drawn(replace(VIEW, rows=rows))[4:6]] == [
        "shop/web",
        "bank/web",
    ]


def test_the_last_words() -> None:
    """The summary says what was saved, what was done, and what was not."""
    totals = replace(TOTALS, done=TOTALS.done + Counter({ActivityKind.TROUBLE: 2}))

    assert list(summary(replace(VIEW, totals=totals))) == [
        "After 42m of the cluster's time:",
        "  requests of all pods under VPAs  9.9 → 4.62 CPU, 16Gi → 7Gi"
        "  (5.28 CPU saved, 9Gi saved)",
        "  reviews answered                 41, 24 pods changed",
        "  VPAs refused                     1",
        "  pods evicted, resized in place   6, 8, and 4 start-up boosts ended",
        "  containers killed for memory     11",
        "  pods held back                   2 PDBBlocked, 1 TooFewReplicas",
        "  errors of ours                   2",
    ]


def test_what_was_added_is_not_called_saved() -> None:
    """Pods that asked for too little cost more now."""
    found = "\n".join(summary(replace(VIEW, totals=Totals(after=Sums(500, MIB)))))

    assert "(500m CPU added, 1Mi added)" in found
    assert "pods held back                   none" in found


def test_a_dry_run_says_that_it_was_one() -> None:
    """Nobody shall take what would have been done for what was done."""
    first = next(summary(replace(VIEW, is_dry=True)))

    assert first == (
        "After 42m of the cluster's time, in which nothing was written; this would have been done:"
    )
