"""The feed shows what happened, the latest first, and what waits, the most urgent first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.diagnosis.core.pod_events import PodEvent
from app.page.core.charts import Mark, MarkKind
from app.page.core.feed import feed_view
from app.page.core.picture import Picture
from app.updater.core.decisions import Reason
from tests import make
from tests.page.core.test_rows import killed_json, picture
from tests.page.shown import shop


def event(namespace: str, minutes: int) -> PodEvent:
    """Return an eviction."""
    return PodEvent(
        make.NOW - timedelta(minutes=minutes),
        namespace,
        "web-0",
        "uid",
        "EvictedByVPA",
        "was evicted",
        "vpa-updater",
        1,
        "pod/web-0",
    )


def happened() -> Picture:
    """Return a picture in which one pod was evicted and another one ran out of memory."""
    first, *others = shop(bounds="150m/150Mi 400m/400Mi", count=4)
    killed = killed_json(first, "lastState", timedelta(minutes=5))
    events = [event("default", 2), event("secret", 1), event("default", 9)]
    bare = make.running_json(make.pod_json(name="bare-0", namespace="bare", owner="StatefulSet/b"))
    return replace(picture(killed, *others, bare), events=events)


def test_what_happened_is_sorted_by_time() -> None:
    """Events and kills stand in one list, of the namespaces that may be seen."""
    view = feed_view(happened(), lambda namespace: namespace != "secret")
    assert [one.reason for one in view.entries] == ["EvictedByVPA", "OOMKilled", "EvictedByVPA"]
    assert view.left_out == 0


def test_kills_are_told_with_container_and_count() -> None:
    """Also of pods that are gone; what was noted and is still seen counts once."""
    found, at = happened(), make.NOW - timedelta(minutes=5)
    seen = Mark(at, MarkKind.KILL, "web-0: app", "web-0")
    again = Mark(at - timedelta(hours=1), MarkKind.KILL, "web-0: app", "web-0")
    gone = Mark(at - timedelta(hours=9), MarkKind.KILL, "web-7: app, limit 128Mi", "web-7")
    kills = [("default", one) for one in (seen, again, gone)] + [("secret", gone)]
    view = feed_view(replace(found, kills=kills), lambda namespace: namespace != "secret")
    told = [(one.pod, one.message, one.count) for one in view.entries if "OOM" in one.reason]
    assert told == [
        ("web-0", "app ran out of memory", 2),
        ("web-7", "app, limit 128Mi ran out of memory", 1),
    ]


def test_what_waits_says_what_is_left_out() -> None:
    """The most pods stand first; no more than a page has room for."""
    found = happened()
    part = found.plan.namespaces["default"]
    first = next(one for one in part.decisions if one.reason is Reason.PROOF_PENDING)
    many = [replace(first, vpa=f"vpa-{number}") for number in range(250)]
    decisions = (*many, replace(first, vpa="vpa-9"))
    plan = replace(found.plan, namespaces={"default": replace(part, decisions=decisions)})
    view = feed_view(replace(found, plan=plan), lambda _: True)
    assert (len(view.waiting), view.waiting_left_out) == (200, 50)
    assert (view.waiting[0].vpa, view.waiting[0].pods) == ("vpa-9", 2)


def test_the_feed_of_one_namespace() -> None:
    """All others are left out."""
    view = feed_view(happened(), lambda _: True, "secret")
    assert ({one.namespace for one in view.entries}, list(view.waiting)) == ({"secret"}, [])


def test_what_waits_is_grouped() -> None:
    """Pods of a VPA that wait for the same stand in one line."""
    (waiting,) = feed_view(happened(), lambda _: True).waiting
    assert (waiting.vpa, waiting.reason, waiting.pods) == ("web", "ProofPending", 3)
    assert not waiting.is_blocked


def test_nothing_is_told_of_what_may_not_be_seen() -> None:
    """Who sees no namespace sees an empty feed."""
    view = feed_view(happened(), lambda _: False)
    assert (list(view.entries), list(view.waiting)) == ([], [])
