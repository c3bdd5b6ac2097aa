"""What is told of the installation depends on what a viewer may see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.diagnosis.core.facts import Check, Finding, Level
from app.page.core.installation import banners, emptiness, installation_view
from app.page.core.picture import Picture, WatchLine
from tests.page.core.test_rows import picture
from tests.page.shown import shop

FINDINGS: dict[Check, Sequence[Finding]] = {
    Check.SERVER: [Finding(Level.FINE, "server", "works")],
    Check.VPAS: [
        Finding(Level.WARNING, "vpa/web -n shop", "is wrong"),
        Finding(Level.SERIOUS, "vpa/api -n secret", "is broken", "kubectl edit"),
        Finding(Level.SERIOUS, "vpa", "is broken too"),
    ],
}


def looked(**more: object) -> Picture:
    """Return a picture with findings."""
    changes: dict[str, object] = {
        "findings": FINDINGS,
        "watches": [WatchLine("pods", 1.0, is_unknown=False)],
        "notes": ["usage cannot be read"],
    }
    return replace(picture(*shop()), **(changes | more))  # type: ignore[arg-type]


def all_of_it(_namespace: str) -> bool:
    """See everything."""
    return True


def shop_only(namespace: str) -> bool:
    """See one namespace."""
    return namespace == "shop"


def abouts(may_see: Callable[[str], bool]) -> list[str]:
    """Return what the findings are about that are shown."""
    view = installation_view(looked(), may_see)
    return [one.about for check in view.checks for one in check.findings]


def test_who_sees_all_is_told_all() -> None:
    """The most serious finding of a check stands first."""
    assert abouts(all_of_it) == ["vpa/api -n secret", "vpa", "vpa/web -n shop", "server"]
    view = installation_view(looked(), all_of_it)
    assert (view.counts, len(view.watches)) == ({"serious": 2, "warning": 1, "fine": 1}, 1)


def test_who_sees_a_namespace_is_told_of_its_vpas() -> None:
    """Neither findings nor their number tell of anything else."""
    view = installation_view(looked(), shop_only)
    assert abouts(shop_only) == ["vpa/web -n shop"]
    assert (view.counts, view.watches, view.sees_all) == ({"warning": 1}, (), False)


def test_before_the_first_check_nothing_is_found() -> None:
    """The view says so."""
    assert not installation_view(looked(findings=None), all_of_it).is_checked


def test_what_is_bad_stands_above_everything() -> None:
    """First that the picture is old, then what keeps evictions back, then the worst finding."""
    old = looked(problem="no answer", webhook="its Lease is stale")
    told = [one.text for one in banners(old, all_of_it)]
    assert told == [
        "This is not up to date: no answer",
        "No pod would be evicted now: its Lease is stale",
        "vpa/api -n secret: is broken (1 more under Installation)",
        "usage cannot be read",
    ]
    assert list(banners(looked(), shop_only)) == []


def test_one_serious_finding_is_alone() -> None:
    """There is nothing more to look for then."""
    alone = {Check.VPAS: [Finding(Level.SERIOUS, "vpa", "is broken")]}
    assert next(banners(looked(findings=alone), all_of_it)).text == "vpa: is broken"


def test_an_empty_page_says_why() -> None:
    """Either there is nothing, or the viewer may not see it."""
    assert "plumbline init" in emptiness(picture()).fix
    assert "You may not list" in emptiness(looked()).text
