"""What a replay prints."""

from __future__ import annotations

import io

import orjson

from app.commands.replaying.playback import ReplayLook
from app.commands.replaying.printing import Bar, csv_lines, json_lines
from app.model.fields import Json
from tests import make
from tests.cases import cases


class Terminal(io.StringIO):
    """A screen that somebody looks at."""

    def isatty(self) -> bool:
        """Somebody does."""
        return True


def test_json_of_a_vpa_without_status() -> None:
    """All members are there, though there is nothing to say."""
    (line,) = json_lines(ReplayLook(make.NOW, [make.vpa()], []), checkpoints=True)
    assert line == (
        b'{"time":"2026-01-05T10:00:00Z","namespace":"default","name":"web",'
        b'"recommendation":null,"conditions":[]}\n'
    )


def test_json_of_empty_lists() -> None:
    """Every container has all lists, also those without amounts, which a status leaves out."""
    look = ReplayLook(make.NOW, [make.vpa(recommendations=[app({})])], [])
    (line,) = json_lines(look, checkpoints=True)
    assert orjson.loads(line)["recommendation"] == {
        "containerRecommendations": [
            {
                "containerName": "app",
                "target": {},
                "lowerBound": {},
                "upperBound": {},
                "uncappedTarget": {},
            }
        ]
    }


@cases(
    "target row",
    {
        "both": ({"cpu": "1500m", "memory": "1Gi"}, b"1500,1073741824"),
        "memory alone": ({"memory": "1k"}, b",1000"),
        "cpu alone": ({"cpu": "2"}, b"2000,"),
    },
)
def test_csv(target: dict[str, str], row: bytes) -> None:
    """Targets are plain numbers: millicores and bytes."""
    look = ReplayLook(make.NOW, [make.vpa("a"), make.vpa(recommendations=[app(target)])], [])
    assert list(csv_lines(look)) == [b"2026-01-05T10:00:00Z,default,web,app," + row + b"\n"]


def app(target: dict[str, str]) -> Json:
    """Return a recommendation for the container `app`."""
    return {"containerName": "app", "target": target}


def test_bar() -> None:
    """The bar is drawn when its percentage changes, and leaves nothing behind."""
    screen = Terminal()
    bar = Bar(screen)
    for share in (0.5, 0.501, 2.0):
        bar.show("playing", share)
    bar.clear()
    bar.clear()
    empty, half, full, gone = screen.getvalue().split("\r")
    assert (empty, gone) == ("", "\x1b[K")
    assert half == f"playing  [{'#' * 20}{' ' * 20}]  50%"
    assert full == f"playing  [{'#' * 40}] 100%"


def test_no_bar_where_nobody_looks() -> None:
    """Files and pipes get no bar."""
    screen = io.StringIO()
    Bar(screen).show("playing", 0.5)
    Bar(None).show("playing", 0.5)
    assert screen.getvalue() == ""
