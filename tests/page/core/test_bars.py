"""Small bars show five amounts on one scale."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.model.quantity import CPU
from app.page.core.bars import HEIGHT, WIDTH, bar_html
from app.page.core.rows import ResourceTotals
from tests.page.core.drawn import misplaced, of_class, parsed, texts


def test_bar() -> None:
    """All five are drawn, and named for those who point at it."""
    root = parsed(bar_html(CPU, ResourceTotals(500, 250, 100, 200, 400)))

    drawn = {css: of_class(root, css)[0].get("d") for css in ("usage", "request", "target")}
    assert drawn == {"usage": "M0 8H22.6", "request": "M113.2 1V15", "target": "M56.6 1V15"}
    assert of_class(root, "bounds")[0].get("d") == "M45.3 2H90.6V14H45.3Z"
    assert (
        texts(root) == "usage 100m, request 500m, target 250m, lower bound 200m, upper bound 400m"
    )


def test_an_upper_bound_far_off() -> None:
    """It reaches to the end, so that the others stay apart."""
    root = parsed(bar_html(CPU, ResourceTotals(500, 250, 100, 200, 999_999)))

    assert of_class(root, "bounds")[0].get("d") == "M45.3 2H120V14H45.3Z"


def test_nothing() -> None:
    """Without amounts there is an empty bar."""
    root = parsed(bar_html(CPU, ResourceTotals()))

    assert texts(root) == "nothing is known"
    assert [one.get("class") for one in root.iter("path")] == ["base"]


AMOUNT = st.one_of(st.none(), st.integers(0, 10**14))


@given(st.builds(ResourceTotals, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT))
def test_all_is_inside(amounts: ResourceTotals) -> None:
    """Every coordinate lies inside, also where a lower bound is above the upper one."""
    root = parsed(bar_html(CPU, amounts))

    assert list(misplaced(root, WIDTH, HEIGHT)) == []
