"""Small bars for tables: usage, request, target and bounds of one resource on one scale."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from app.page.core.axes import shown_amount, top_of
from app.page.core.charts import Drawing
from app.page.core.rows import ResourceTotals

WIDTH: Final = 120
HEIGHT: Final = 16


def bar_html(resource: str, amounts: ResourceTotals) -> Drawing:
    """Draw a bar; its words are for those who point at it, as the table has the numbers."""
    parts = "".join(_parts(amounts))
    title = escape(_words(resource, amounts))
    return Drawing(
        f'<svg class="bar" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' role="img"><title>{title}</title>{parts}</svg>'
    )


def _parts(amounts: ResourceTotals) -> Iterator[str]:
    decide = (amounts.usage, amounts.request, amounts.target, amounts.lower)
    top = top_of([one for one in decide if one is not None], [])

    def x(amount: int) -> str:
        return f"{min(amount / top, 1.0) * WIDTH:.1f}".removesuffix(".0")

    yield f'<path class="base" d="M0 8H{WIDTH}"/>'
    if amounts.lower is not None and amounts.upper is not None:
        low, high = x(amounts.lower), x(max(amounts.lower, amounts.upper))
        yield f'<path class="bounds" d="M{low} 2H{high}V14H{low}Z"/>'
    if amounts.usage is not None:
        yield f'<path class="usage" d="M0 8H{x(amounts.usage)}"/>'
    for css, amount in (("request", amounts.request), ("target", amounts.target)):
        if amount is not None:
            yield f'<path class="{css}" d="M{x(amount)} 1V15"/>'


def _words(resource: str, amounts: ResourceTotals) -> str:
    named = (
        ("usage", amounts.usage),
        ("request", amounts.request),
        ("target", amounts.target),
        ("lower bound", amounts.lower),
        ("upper bound", amounts.upper),
    )
    told = [f"{name} {shown_amount(resource, one)}" for name, one in named if one is not None]
    return ", ".join(told) or "nothing is known"
