"""Writes views as HTML: the templates, and the words in which they show amounts and times.

Strategy: a template shows values and decides nothing. All text is escaped, and a name that a
template does not know is an error, so that no page is half a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from app.diagnosis.core.attention import Attention
from app.diagnosis.core.facts import Level
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.quantity import CPU, Quantity
from app.model.text import amount, cores, percent, size, span
from app.model.times import rfc3339
from app.page.core.bars import bar_html
from app.page.core.charts import Drawing, chart_html
from app.page.core.rows import ResourceTotals
from app.page.core.visible import visible
from app.updater.core.decisions import Action

NOTHING: Final = "–"
_WIDEST: Final = 1000  # so that no text is folded
_TONES: Final[Mapping[Attention | str, str]] = {
    Attention.BLOCKED: "bad",
    Attention.WAITING: "careful",
    Attention.UPDATING: "good",
    Attention.IDLE: "faint",
    Level.SERIOUS: "bad",
    Level.WARNING: "careful",
    Level.UNKNOWN: "careful",
    Level.FINE: "good",
    "error": "bad",
    Action.EVICT: "careful",
    Action.RESIZE: "good",
    Action.UNBOOST: "good",
    Action.WAIT: "careful",
    Action.NONE: "faint",
}
_DOING: Final[Mapping[str, str]] = {
    Action.EVICT: "evicts it",
    Action.RESIZE: "resizes it",
    Action.UNBOOST: "ends its boost",
    Action.WAIT: "waits",
    Action.NONE: "leaves it",
}


class Templates:
    """The templates of all pages."""

    def __init__(self, functions: Mapping[str, Callable[..., str]]) -> None:
        self._environment = Environment(
            loader=PackageLoader("app.page"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            ahead=ahead,
            arrow=arrow,
            bar=bar,
            chart=chart_html,
            doing=doing,
            clock=clock,
            exact=exact,
            figure=figure,
            moment=rfc3339,
            part=part,
            percent=percent,
            range=exact_range,
            share=share,
            since=since,
            tone=tone,
            whole=whole,
            words=words,
            yaml=as_yaml,
        )
        self._environment.globals.update(functions)

    def page(self, name: str, **values: object) -> bytes:
        """Return a page."""
        return self._environment.get_template(f"{name}.html").render(**values).encode()


def _shown(value: object) -> object:
    """Return what a template writes: text of others with nothing unseen in it."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return visible(str(value)) if is_text else value


def figure(count: int | None, resource: str) -> str:
    """Write a headline: cores are called so, as nothing beside it tells what they are."""
    told = whole(count, resource)
    return f"{told} cores" if count and resource == CPU and told[-1].isdigit() else told


def whole(count: int | None, resource: str) -> str:
    """Write millicores, or bytes."""
    if count is None:
        return NOTHING
    return cores(count) if resource == CPU else size(count)


def exact(text: str, resource: str) -> str:
    """Write an exact amount with three digits; what is no amount stays as it is."""
    try:
        return amount(resource, Quantity.parse(text)) if text else NOTHING
    except BadObject:
        return text


def exact_range(low: str, high: str, resource: str) -> str:
    """Write two exact amounts, one if they are equal."""
    least, most = exact(low, resource), exact(high, resource)
    return most if low == high else f"{least} to {most}"


def arrow(found: ResourceTotals, resource: str) -> str:
    """Write how a request becomes its target, one amount if they are equal."""
    request, target = whole(found.request, resource), whole(found.target, resource)
    return request if found.target is None or request == target else f"{request} → {target}"


def bar(found: ResourceTotals, resource: str) -> Drawing | str:
    """Draw usage, request, target and bounds, if anything is known."""
    known = (found.request, found.target, found.usage)
    return "" if known == (None, None, None) else bar_html(resource, found)


def share(found: float | None) -> str:
    """Write a share, which may not be known."""
    return NOTHING if found is None else percent(found)


def tone(level: Attention | str) -> str:
    """Return the class of a level of attention, of a finding or of an action."""
    return _TONES.get(level, "")


def doing(action: str) -> str:
    """Write what the updater does with a pod."""
    return _DOING[action]


def as_yaml(content: Json, comments: Sequence[str] = ()) -> str:
    """Write an object as YAML, below what is to be said about it."""
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=_WIDEST)
    if visible(text) != text:  # what is unseen is written as its number, in quotes
        text = yaml.safe_dump(content, sort_keys=False, width=_WIDEST)
    return "".join(f"# {' '.join(one.split())}\n" for one in comments) + text


def part(name: str) -> str:
    """Write a name as a part of a path."""
    return quote(name, safe="")


def words(text: str) -> str:
    """Write a sentence of the updater; its arrow is not broken at the end of a line."""
    return text.replace(" -> ", " → ")


def since(moment: datetime | None, now: datetime) -> str:
    """Write how long ago something was."""
    return NOTHING if moment is None else span(now - moment)


def clock(moment: datetime) -> str:
    """Write a moment for people."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def ahead(moment: datetime, now: datetime) -> str:
    """Write in what time something is."""
    return f"in {span(moment - now)}"
