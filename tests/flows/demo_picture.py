"""The picture of the demo in the README, and its remaking.

    python -m tests.flows.demo_picture

The demo is played as `plumbline run` plays it and drawn as its screen is; only the name of its
folder, which is another each time, is made up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from app.output import Output, Report, Text, shown
from app.run.run import ASK
from app.run.screen import picture
from app.run.view import ClusterSpeed, View
from app.run.world import shop_file
from tests.flows.autoscaler import in_memory

README: Final = Path(__file__).parents[2] / "README.md"
MINUTES: Final = 45
STEP_SECONDS: Final = 10.0
PACE: Final = ClusterSpeed(60.0)  # unless another one is asked for
WIDTH, HEIGHT = 100, 32
_BEGIN, _END = "```text\nPlumbline demo ", "```"
_PAGE: Final = "Page: http://localhost:8945/"
_TRIES: Final = "Try elsewhere: sh /tmp/pl-hm2pbphm/1-new-pod · 2-why · 3-bad-vpa · 4-decisions"


def drawn(view: View) -> str:
    """Return the picture of a view, as it is in the README."""
    report = Report(Text(picture(view, [_PAGE, _TRIES, ASK], WIDTH, HEIGHT)), (), ())
    return "".join(f"{line}\n" for line in shown(report, Output.TABLE))


def in_readme() -> str:
    """Return the picture that the README has now."""
    before, begin, rest = README.read_text("utf-8").partition(_BEGIN)
    assert begin, f"no picture begins in {before[:40]}…"
    return begin.partition("\n")[2] + rest.partition(_END)[0]


def _remake() -> None:
    with in_memory(shop_file()) as mode:
        for _ in range(int(MINUTES * 60 / STEP_SECONDS)):
            mode.advance(STEP_SECONDS)
            list(mode.feed.news())  # decisions are compared whenever somebody looks
        README.write_text(README.read_text("utf-8").replace(in_readme(), drawn(mode.view(PACE))))


if __name__ == "__main__":
    _remake()
