"""All pages as one file that opens from a disk: fleet, feed, installation, and each workload.

Strategy: the pages are those that a browser is shown, made from one picture and laid below each
other, but pods of which the same is decided share a line. Links to pages that the file holds become
links within it, and all others become text. Style and script stand in the file, which is allowed
nothing else: no request, and no other script.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from typing import Final

from app.model.errors import Unavailable
from app.model.text import size
from app.model.times import rfc3339
from app.output import folded
from app.page.core.charts import Chart, Drawing
from app.page.core.installation import banners
from app.page.core.rows import WorkloadRow
from app.page.core.usage_series import coarser
from app.page.core.workload import PodTurn, WorkloadView
from app.page.flags import ReportSettings
from app.page.pasts import PastSettings
from app.page.pictures import Pictures, decision_rules
from app.page.process import source_of
from app.page.rendering import Templates
from app.page.site import EVERYONE, PageProblem, ShownPage, Site, fleet_path, row_path
from app.page.usage_over_time import Patience
from app.ports import Clock

_LINK: Final = re.compile(r'<a ([^>]*?)href="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
_ID: Final = re.compile(r'\b(id|data-copy|aria-labelledby|for)="([^"]+)"')
_LIVE: Final = re.compile(r" data-live\b")
_POINTS: Final = 48  # of a chart, because there may be hundreds
_LOOK_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 120.0
_QUERIES: Final = 2  # that a chart's question takes, one after the other
_USAGE_SECONDS: Final = 300.0  # of waiting for a Prometheus, of all charts together
_LATE: Final = "Prometheus did not answer in time"


@dataclass(frozen=True, slots=True)
class _Part:
    """A page of the file."""

    anchor: str
    path: str
    page: ShownPage


def write_report(settings: ReportSettings, clock: Clock, past: PastSettings | None = None) -> str:
    """Write the file; return a sentence about it.

    Raises:
        Unavailable: the cluster cannot be read.
    """
    seconds = settings.usage.query_timeout.span.total_seconds() * _QUERIES
    with source_of(settings, clock, Patience(seconds, _USAGE_SECONDS, _LATE)) as source:
        pictures = Pictures(source, decision_rules(settings), 0.0, settings.asking.at)
        source.start()
        try:
            _await(pictures, clock)
            site = Site(pictures, past)
            while past is not None and not past.tick(site.picture().snapshot):
                pass  # it goes on where it was
            parts = list(_parts(site))
            body = _html(site, parts)
        finally:
            source.stop()
    path = settings.file.path
    path.write_bytes(body)
    at = rfc3339(site.picture().now)
    return f"{path}: {size(len(body))}, as of {at}{_without_usage(parts)}"


def _without_usage(parts: Iterable[_Part]) -> str:
    """Say how many charts show no usage, and why most of them do not; nothing if all do."""
    charts = [
        one
        for part in parts
        if isinstance(part.page.view, WorkloadView)
        for one in part.page.view.charts
    ]
    why = Counter(one.problem for one in charts if one.usage is None)
    if not why:
        return ""
    return f"; {why.total()} of {len(charts)} charts have no usage: {why.most_common(1)[0][0]}"


def _await(pictures: Pictures, clock: Clock) -> None:
    """Make a picture with usage and findings, or give up.

    Raises:
        Unavailable: what is needed cannot be read in time.
    """
    until = clock.monotonic() + _PATIENCE_SECONDS
    while pictures.source.problem() or not pictures.source.is_measured:
        if clock.monotonic() > until:
            raise Unavailable(pictures.source.problem() or "usage is not read yet")
        clock.wait(_LOOK_SECONDS)
    pictures.tick(clock.now())
    pictures.check(clock.now())
    pictures.tick(clock.now())


def report_html(site: Site) -> bytes:
    """Return the file.

    Raises:
        PageProblem: there is no picture.
    """
    return _html(site, list(_parts(site)))


def _html(site: Site, parts: Sequence[_Part]) -> bytes:
    templates = Templates({"fleet_path": fleet_path, "row_path": row_path})
    anchors = {part.path: part.anchor for part in parts}
    picture = site.picture()
    style, script = (_static(name) for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; "
        f"script-src 'sha256-{_digest(script)}'"
    )
    return templates.page(
        "report",
        policy=policy,
        style=Drawing(style),
        script=Drawing(script),
        at=rfc3339(picture.now),
        banners=list(banners(picture, EVERYONE.may_see)),
        sections=[(part.anchor, Drawing(_section(part, templates, anchors))) for part in parts],
    )


def _parts(site: Site) -> Iterator[_Part]:
    """Yield the pages of the file; a workload of which none can be made is left out."""
    yield _Part("fleet", "/", site.whole_fleet(EVERYONE))
    yield _Part("feed", "/feed", site.feed(EVERYONE))
    yield _Part("installation", "/installation", site.installation(EVERYONE))
    rows = [row for part in site.picture().fleet.values() for row in part.rows]
    for number, row in enumerate(rows, start=1):
        found = _workload(site, row)
        if found is not None:
            yield _Part(f"w{number}", row_path(row), found)


def _workload(site: Site, row: WorkloadRow) -> ShownPage | None:
    try:
        page = site.of_row(EVERYONE, row)
    except PageProblem:  # it went meanwhile
        return None
    if not isinstance(page.view, WorkloadView):
        return page
    view, past = page.view, page.view.past
    if past is not None:
        past = replace(past, charts=_smaller(past.charts))
    found = replace(view, charts=_smaller(view.charts), past=past, pods=_alike(view.pods))
    return replace(page, view=found)


def _alike(pods: Iterable[PodTurn]) -> list[PodTurn]:
    """Return pods, of many of which the same is decided the first, and how many there are."""
    told = [(turn.pod, replace(turn, pod="", next=_nameless(turn.next))) for turn in pods]
    return [replace(turn, pod=name) for name, turn in folded(told)]


def _nameless(turn: PodTurn | None) -> PodTurn | None:
    return None if turn is None else replace(turn, pod="", next=_nameless(turn.next))


def _smaller(charts: Sequence[Chart]) -> list[Chart]:
    return [
        replace(one, usage=coarser(one.usage, _POINTS)) if one.usage is not None else one
        for one in charts
    ]


def _section(part: _Part, templates: Templates, anchors: Mapping[str, str]) -> str:
    """Return a page as a part of the file."""
    page = part.page
    html = templates.page(
        page.template,
        layout="part.html",
        title=page.title,
        here="",
        places=(),
        view=page.view,
        picture=page.picture,
        now=page.picture.now,
        json_path="",
        banners=(),
        refresh_seconds=0,
        **page.around,
    ).decode()

    def linked(found: re.Match[str]) -> str:
        before, path, after, text = found.groups()
        anchor = anchors.get(path)
        if anchor is None:
            return f"<span {before}{after}>{text}</span>"
        return f'<a {before}href="#{anchor}"{after}>{text}</a>'

    def named(found: re.Match[str]) -> str:
        names = " ".join(f"{part.anchor}-{name}" for name in found[2].split())
        return f'{found[1]}="{names}"'

    return _ID.sub(named, _LIVE.sub("", _LINK.sub(linked, html)))


def _static(name: str) -> str:
    return files("app.page").joinpath("static", name).read_text("utf-8")


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
