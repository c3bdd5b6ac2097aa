"""What happened as plain lines, and the summary at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from app.run.view import ActivityKind, Sums, Totals, activity_line, summary
from tests.run.views import MIB, TOTALS, VIEW


def test_a_line_an_activity() -> None:
    """Where nothing is drawn, an activity is one line."""
    activity = replace(VIEW.activities[0], namespace="shop")

    assert activity_line(activity) == "10:42:10 evict     shop/web-1: outside of its bounds"


def test_the_last_words() -> None:
    """The summary says what was saved, what was done, and what had to wait."""
    totals = replace(TOTALS, done=TOTALS.done + Counter({ActivityKind.TROUBLE: 2}))

    assert list(summary(replace(VIEW, totals=totals))) == [
        "After 42m of the cluster's time:",
        "  requests of all pods under VPAs  CPU 9.9 → 4.62 cores, memory 16 → 7 GiB"
        "  (5.28 cores saved, 9 GiB saved)",
        "  reviews answered                 41, 24 pods changed",
        "  VPAs refused                     1",
        "  pods evicted, resized in place   6, 8, and 4 startup boosts ended",
        "  OOM kills                        11",
        "  pods that had to wait            2 PDBBlocked, 1 TooFewReplicas",
        "  errors of ours                   2",
    ]


def test_what_was_added_is_not_called_saved() -> None:
    """Pods that asked for too little cost more now."""
    found = "\n".join(summary(replace(VIEW, totals=Totals(after=Sums(500, 512 * MIB)))))

    assert "(0.5 cores added, 0.5 GiB added)" in found
    assert "pods that had to wait            none" in found


def test_a_dry_run_says_that_it_was_one() -> None:
    """What would have been done is not taken for what was done."""
    first = next(summary(replace(VIEW, is_dry=True)))

    assert first == (
        "After 42m of the cluster's time, in which nothing was written; this would have been done:"
    )
