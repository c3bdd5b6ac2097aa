"""Reports in all formats."""

from __future__ import annotations

import csv
import io

import orjson
import pytest
import yaml

from app.model.fields import Json
from app.output import Output, Piece, Report, Table, Text, Tone, folded, line, shown
from tests.cases import cases

SHARED = {"cpu": "250m"}
ITEMS: list[Json] = [
    {"name": "web", "is": True, "request": SHARED, "limit": SHARED, "notes": ["a, b", 'say "c"']},
    {"name": "db", "is": False, "request": {"memory": "1Gi"}, "limit": None},
]
TABLE = Table(
    ("NAME", "CPU"),
    [
        (Piece("web"), Piece("250m", Tone.BAD)),
        (Piece("statefulset"), Piece("-", Tone.FAINT)),
    ],
)
REPORT = Report(TABLE, ITEMS, ["vpa/web", "vpa/db", "vpa/web"])


def lines(output: Output, report: Report = REPORT, *, is_coloured: bool = False) -> list[str]:
    """Return a report as lines."""
    return list(shown(report, output, is_coloured=is_coloured))


def test_a_table_has_straight_columns() -> None:
    """Every column is as wide as its widest piece, and no line ends in blanks."""
    assert lines(Output.TABLE) == ["NAME         CPU", "web          250m", "statefulset  -"]


def test_colours_change_no_width() -> None:
    """Colours surround the texts and leave the columns where they are."""
    _, first, second = lines(Output.TABLE, is_coloured=True)
    assert first == "web          \033[31m250m\033[0m"
    assert second == "statefulset  \033[2m-\033[0m"


@cases(
    "told expected",
    {
        "few": ({"a": 1, "b": 2, "c": 1, "d": 1}, [("a", 1), ("b", 2), ("c", 1), ("d", 1)]),
        "many": ({"a": 1, "b": 2, "c": 1, "d": 1, "e": 1}, [("a and 3 more", 1), ("b", 2)]),
        "none": ({}, []),
    },
)
def test_what_is_told_of_many(told: dict[str, int], expected: list[tuple[str, int]]) -> None:
    """More than three of which the same is told are counted, where the first of them stands."""
    assert list(folded(list(told.items()))) == expected


def test_a_text_is_shown_as_it_is() -> None:
    """Lines of a text stay lines, also empty ones."""
    report = Report(Text([line("Pod web-0", Tone.STRONG), (), line("  fine  ")]), [], [])
    assert lines(Output.TABLE, report) == ["Pod web-0", "", "  fine"]


SENTENCES = Table(
    ("POD", "WHY"),
    [(Piece("web-0"), Piece("the canary goes first (cpu 100m -> 350m)")), (Piece("b"), Piece(""))],
    [line("2 pods: would evict 1, waiting 1 (ProofPending)")],
    ends_in_sentences=True,
)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            40,
            [
                "POD    WHY",
                "web-0  the canary goes first (cpu",
                "       100m -> 350m)",
                "b",
                "2 pods: would evict 1, waiting 1",
                "(ProofPending)",
            ],
        ),
        (
            35,
            [
                "POD",
                "web-0",
                "    the canary goes first (cpu",
                "    100m -> 350m)",
                "b",
                "2 pods: would evict 1, waiting 1",
                "(ProofPending)",
            ],
        ),
    ],
)
def test_sentences_are_wrapped(width: int, expected: list[str]) -> None:
    """A terminal shows all of a sentence, beside its row or below it, and no change is parted."""
    assert list(shown(Report(SENTENCES, [], []), Output.TABLE, width=width)) == expected
    for output in (Output.TABLE, Output.WIDE):
        whole = shown(Report(SENTENCES, [], []), output, width=None if output == "table" else width)
        assert len(list(whole)) == len(SENTENCES.rows) + 2


def test_lines_of_a_text_are_wrapped() -> None:
    """They keep their place and their tones; a command stays whole, so that it can be copied."""
    told = (Piece("  now: ", Tone.GOOD), Piece("waits for the canary: web-0 goes", Tone.BAD))
    command = line("  $ kubectl -n default edit vpa web", Tone.STRONG)
    report = Report(Text([told, command]), [], [])
    assert list(shown(report, Output.TABLE, width=25)) == [
        "  now: waits for the",
        "      canary: web-0 goes",
        "  $ kubectl -n default edit vpa web",
    ]
    coloured = list(shown(report, Output.TABLE, width=25, is_coloured=True))
    assert coloured[:2] == [
        "\033[32m  now:\033[0m \033[31mwaits for the\033[0m",
        "      \033[31mcanary: web-0 goes\033[0m",
    ]


@pytest.mark.parametrize("output", Output)
def test_nothing_is_no_line(output: Output) -> None:
    """A report of nothing shows nothing, so that a program reads nothing."""
    assert lines(output, Report(Table(("NAME",), []), [], [])) == []


def test_programs_read_back_what_was_found() -> None:
    """JSON has an object a line, YAML a document, without anchors."""
    assert [orjson.loads(text) for text in lines(Output.JSON)] == ITEMS
    text = "\n".join(lines(Output.YAML))
    assert list(yaml.safe_load_all(text)) == ITEMS
    assert "&" not in text


def test_csv_has_a_column_for_every_path() -> None:
    """A table program finds every leaf under its path, and nothing where there is none."""
    rows = list(csv.DictReader(io.StringIO("\n".join(lines(Output.CSV)))))
    assert rows[0]["notes[1]"] == 'say "c"'
    assert (rows[0]["is"], rows[1]["is"]) == ("true", "false")
    assert (rows[0]["request.cpu"], rows[1]["request.cpu"]) == ("250m", "")
    assert rows[1]["request.memory"] == "1Gi"


FOLDED = Table(
    ("POD", "CPU", "WHY"),
    [(Piece("web-0"), Piece("100m"), Piece("the canary goes first")), (Piece("b"),) * 3],
    ends_in_sentences=True,
    is_folded=True,
)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (60, ["POD    CPU   WHY", "web-0  100m  the canary goes first", "b      b     b"]),
        (
            20,
            ["POD    CPU", "web-0  100m", "    the canary goes", "    first", "b      b", "    b"],
        ),
    ],
)
def test_folded_tables(width: int, expected: list[str]) -> None:
    """Columns stand beside each other as far as there is room, and then sentences below them."""
    report = Report(FOLDED, [], [])
    assert list(shown(report, Output.TABLE, width=width)) == expected


def test_names_come_once() -> None:
    """Names are for other commands, which want each of them once."""
    assert lines(Output.NAME) == ["vpa/web", "vpa/db"]
