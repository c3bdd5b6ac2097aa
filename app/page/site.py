"""Which page a question asks for, and what is said where there is none.

Strategy: a viewer is told of the namespaces that it may see, and of others nothing, not even that
they exist. Who asks for what is not there is told what is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Final

from app.model.kinds import ObjectKey
from app.model.text import likeliest, nearest
from app.page.core.feed import feed_view
from app.page.core.fleet import FleetQuery, Only, Sort, fleet_view
from app.page.core.installation import emptiness, installation_view
from app.page.core.picture import Picture
from app.page.core.rows import WorkloadRow
from app.page.core.usage_series import ChartRange
from app.page.core.workload import WorkloadView
from app.page.details import Details
from app.page.pasts import PastSettings
from app.page.pictures import Pictures
from app.page.rendering import part

_MOST_PODS: Final = 100  # on the page of a workload
_MOST_TOLD: Final = 20  # names of what there is instead
_LONGEST_WORDS: Final = 200
_MOST_DIGITS: Final = 6
NOTHING_ASKED: Final[Mapping[str, str]] = MappingProxyType({})
_PARAMETERS: Final = tuple(one.name for one in fields(FleetQuery))


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks, and what it may see."""

    may_see: Callable[[str], bool]  # a namespace
    name: str = ""  # empty if all may look


EVERYONE: Final = Viewer(lambda _namespace: True)


@dataclass(frozen=True, slots=True)
class PageLink:
    """A place to go to."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the fleet's table."""

    text: str
    sort: Sort | None = None
    is_number: bool = False
    about: str = ""
    order: str = "ascending"  # of the rows that are sorted by it


COLUMNS: Final = (
    Column("Workload", Sort.NAME),
    Column("Mode"),
    Column("Pods", Sort.PODS, is_number=True, order="descending"),
    Column("CPU", Sort.CPU, about="all pods together: requested → target", order="descending"),
    Column(
        "Memory", Sort.MEMORY, about="all pods together: requested → target", order="descending"
    ),
    Column("Status", Sort.STATUS),
    Column(
        "Confidence",
        Sort.CONFIDENCE,
        is_number=True,
        about="how much history the recommendation rests on; 100% is a day",
    ),
    Column(
        "Age",
        Sort.AGE,
        is_number=True,
        about="since the recommendation was kept up last",
        order="descending",
    ),
)
PLACES: Final = (
    PageLink("Fleet", "/"),
    PageLink("Feed", "/feed"),
    PageLink("Installation", "/installation"),
    PageLink("Docs", "/docs/page"),
)
ALL: Final = (PageLink("all workloads", "/"),)


class PageProblem(Exception):
    """There is no such page."""

    def __init__(self, status: int, message: str, instead: Sequence[PageLink] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.instead = instead


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A view, and how it is shown."""

    template: str
    title: str
    view: object
    picture: Picture
    around: Mapping[str, object] = field(default_factory=dict)  # what is on the page beside it


class Site:
    """Finds pages; any thread may ask."""

    def __init__(self, pictures: Pictures, past: PastSettings | None = None) -> None:
        self._pictures = pictures
        self.refresh_seconds = pictures.refresh_seconds
        self._details = Details(pictures, past)

    def picture(self) -> Picture:
        """Return the latest picture.

        Raises:
            PageProblem: there is none yet.
        """
        found = self._pictures.shown()
        if found is None:
            raise PageProblem(503, f"nothing can be shown yet: {self._pictures.problem()}")
        return found

    def fleet(self, viewer: Viewer, asked: Mapping[str, str]) -> ShownPage:
        """Return the page of all workloads.

        Raises:
            PageProblem: what is asked for is not there.
        """
        picture, query = self.picture(), _query(asked)
        found = fleet_view(picture.fleet, query, viewer.may_see, picture.now)
        if query.namespace and query.namespace not in found.namespaces:
            raise _no_namespace(query.namespace, found.namespaces)
        if query.page > found.pages:
            path = fleet_path(query, page=found.pages)
            message = f"there is no page {query.page}; the last one is {found.pages}"
            raise PageProblem(404, message, [PageLink(f"page {found.pages}", path)])
        around = {
            "columns": COLUMNS,
            "onlys": list(Only),
            "usual_query": FleetQuery(),
            "empty": emptiness(picture),
            "is_file": False,
        }
        return ShownPage("fleet", "Fleet", found, picture, around)

    def whole_fleet(self, viewer: Viewer) -> ShownPage:
        """Return all rows on one page, for a file."""
        picture = self.picture()
        found = fleet_view(picture.fleet, FleetQuery(), viewer.may_see, picture.now, rows=None)
        around = {
            "columns": COLUMNS,
            "usual_query": FleetQuery(),
            "empty": emptiness(picture),
            "is_file": True,
        }
        return ShownPage("fleet", "Fleet", found, picture, around)

    def of_row(self, viewer: Viewer, row: WorkloadRow) -> ShownPage:
        """Return the page of a row as it stands in a file, with the last day.

        Raises:
            PageProblem: it went meanwhile.
        """
        day, key = {"range": ChartRange.DAY.text}, row.workload
        if row.vpa or key is None:
            found = self.vpa(viewer, row.namespace, row.vpa, day)
        else:
            kind = f"{key.kind}.{key.group}" if key.group else key.kind
            found = self.workload(viewer, row.namespace, kind, key.name, day)
        return replace(found, around={**found.around, "ranges": ()})

    def feed(self, viewer: Viewer, asked: Mapping[str, str] = NOTHING_ASKED) -> ShownPage:
        """Return the page of what happened and what waits, of all namespaces or of one.

        Raises:
            PageProblem: what is asked for is not there.
        """
        _check_parameters(asked, ("namespace",))
        picture, namespace = self.picture(), asked.get("namespace", "")
        seen = sorted(name for name in picture.told_of if viewer.may_see(name))
        if namespace and namespace not in seen:
            raise _no_namespace(namespace, seen)
        return ShownPage("feed", "Feed", feed_view(picture, viewer.may_see, namespace), picture)

    def installation(self, viewer: Viewer, asked: Mapping[str, str] = NOTHING_ASKED) -> ShownPage:
        """Return the page of the installation.

        Raises:
            PageProblem: something is asked for.
        """
        _check_parameters(asked, ())
        picture = self.picture()
        found = installation_view(picture, viewer.may_see)
        return ShownPage("installation", "Installation", found, picture)

    def vpa(self, viewer: Viewer, namespace: str, name: str, asked: Mapping[str, str]) -> ShownPage:
        """Return the page of a VPA and its workload.

        Raises:
            PageProblem: there is none.
        """
        picture = self.picture()
        rows = self._rows(picture, viewer, namespace)
        shown = _chart_range(asked)
        found = self._details.of_vpa(picture, namespace, name, shown)
        if found is None:
            raise _absent("VPA", name, namespace, _vpa_links(rows))
        return _workload_page(found, picture, shown)

    def workload(
        self, viewer: Viewer, namespace: str, kind: str, name: str, asked: Mapping[str, str]
    ) -> ShownPage:
        """Return the page of a workload that no VPA targets.

        Raises:
            PageProblem: there is none.
        """
        picture = self.picture()
        rows = self._rows(picture, viewer, namespace)
        word, _, group = kind.partition(".")
        shown = _chart_range(asked)
        found = self._details.of_workload(picture, namespace, ObjectKey(group, word, name), shown)
        if found is None:
            raise _absent(kind, name, namespace, _workload_links(rows))
        return _workload_page(found, picture, shown)

    def pod(self, viewer: Viewer, namespace: str, name: str, asked: Mapping[str, str]) -> ShownPage:
        """Return the page of a pod.

        Raises:
            PageProblem: there is none.
        """
        picture = self.picture()
        self._rows(picture, viewer, namespace)
        shown = _chart_range(asked)
        found = self._details.of_pod(picture, namespace, name, shown)
        if found is None:
            links = {
                pod: PageLink(pod, f"/namespaces/{part(namespace)}/pods/{part(pod)}")
                for pod in sorted(picture.snapshot.of(namespace).pods)
            }
            raise _absent("pod", name, namespace, links)
        around = {"shown": shown, "ranges": list(ChartRange)}
        return ShownPage("pod", f"pod {namespace}/{name}", found, picture, around)

    def _rows(self, picture: Picture, viewer: Viewer, namespace: str) -> Sequence[WorkloadRow]:
        """Return the rows of a namespace.

        Raises:
            PageProblem: there is no such namespace, or it may not be seen.
        """
        seen = [name for name, rows in picture.fleet.items() if rows.rows and viewer.may_see(name)]
        if namespace not in seen:
            raise _no_namespace(namespace, seen)
        return picture.fleet[namespace].rows


def _workload_page(found: WorkloadView, picture: Picture, shown: ChartRange) -> ShownPage:
    around = {"shown": shown, "ranges": list(ChartRange), "most_pods": _MOST_PODS}
    return ShownPage("workload", f"{found.namespace}/{found.name}", found, picture, around)


def _chart_range(asked: Mapping[str, str]) -> ChartRange:
    """Read which time charts show.

    Raises:
        PageProblem: there is no such range.
    """
    _check_parameters(asked, ("range",))
    text = asked.get("range") or ChartRange.HOUR.text
    for one in ChartRange:
        if one.text == text:
            return one
    words = [one.text for one in ChartRange]
    links = [PageLink(f"the last {word}", f"?range={word}") for word in words]
    raise PageProblem(400, f'range is one of {", ".join(words)}, not "{text}"', links)


def _check_parameters(asked: Iterable[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            raise PageProblem(400, f'there is no parameter "{name}"{nearest(name, known)}', ALL)


def _query(asked: Mapping[str, str]) -> FleetQuery:
    """Read what of the fleet is wanted.

    Raises:
        PageProblem: a parameter is none, or has no such value.
    """
    _check_parameters(asked, _PARAMETERS)
    page = asked.get("page") or "1"
    if not (page.isascii() and page.isdecimal()) or len(page) > _MOST_DIGITS or not int(page):
        raise PageProblem(400, f'page takes a number from 1 on, not "{page}"', ALL)
    only = _one_of("only", asked.get("only", ""), Only)
    return FleetQuery(
        namespace=asked.get("namespace", ""),
        reason=asked.get("reason", ""),
        only=Only(only) if only else None,
        words=asked.get("words", "")[:_LONGEST_WORDS],
        sort=Sort(_one_of("sort", asked.get("sort", ""), Sort) or Sort.DIFFERENCE),
        page=int(page),
    )


def _one_of(name: str, text: str, known: Iterable[str]) -> str:
    """Return one of some words, or none.

    Raises:
        PageProblem: it is another one.
    """
    words = list(known)
    if text and text not in words:
        told = f'{name} is one of {", ".join(words)}, not "{text}"{nearest(text, words)}'
        raise PageProblem(400, told, ALL)
    return text


def fleet_path(query: FleetQuery, **changes: object) -> str:
    """Return the path of the fleet with another page, order or filter."""
    words = {
        "namespace": query.namespace,
        "reason": query.reason,
        "only": query.only or "",
        "words": query.words,
        "sort": str(query.sort),
        "page": str(query.page),
    } | {key: str(value) for key, value in changes.items()}
    usual = {"sort": str(Sort.DIFFERENCE), "page": "1"}
    told = [f"{key}={part(text)}" for key, text in words.items() if text and text != usual.get(key)]
    return f"/?{'&'.join(told)}" if told else "/"


def row_path(row: WorkloadRow) -> str:
    """Return the path of a workload."""
    at = f"/namespaces/{part(row.namespace)}"
    key = row.workload
    if row.vpa or key is None:
        return f"{at}/vpas/{part(row.vpa)}"
    kind = f"{key.kind}.{key.group}" if key.group else key.kind
    return f"{at}/workloads/{part(kind)}/{part(key.name)}"


def _vpa_links(rows: Iterable[WorkloadRow]) -> Mapping[str, PageLink]:
    return {row.vpa: PageLink(row.vpa, row_path(row)) for row in rows if row.vpa}


def _workload_links(rows: Iterable[WorkloadRow]) -> Mapping[str, PageLink]:
    return {row.name: PageLink(str(row.workload or row.vpa), row_path(row)) for row in rows}


def _absent(what: str, name: str, namespace: str, links: Mapping[str, PageLink]) -> PageProblem:
    """Return the problem of a name of nothing, with the names that are most alike first."""
    nearest_first = sorted(links, key=lambda other: (other != likeliest(name, links), other))
    instead = [links[other] for other in nearest_first[:_MOST_TOLD]]
    told = f'there is no {what} "{name}" in namespace {namespace}{nearest(name, links)}'
    return PageProblem(404, told, instead)


def _no_namespace(namespace: str, seen: Sequence[str]) -> PageProblem:
    links = [PageLink(name, fleet_path(FleetQuery(name))) for name in seen[:_MOST_TOLD]]
    told = f'no workload in a namespace "{namespace}" can be shown{nearest(namespace, seen)}'
    return PageProblem(404, told, links)
