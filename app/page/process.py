"""The page as a process of its own, which only reads."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from importlib.metadata import version
from typing import Final

from app.admission.certificates import serving_names
from app.diagnosis.gathering import GatherRequest, gather_objects
from app.kube.access_review import AccessReviews
from app.kube.reach import is_loopback
from app.model.errors import BadSetting
from app.page.access import LinkAccess, OpenAccess, PageAccess, TokenAccess
from app.page.app import page_app
from app.page.flags import LookSettings, PageSettings
from app.page.own_tls import OwnTls
from app.page.pasts import PastSettings
from app.page.pictures import Pictures, decision_rules
from app.page.site import Site
from app.page.sources import ClusterSource, FileSource, Source
from app.page.usage_over_time import Patience, recorded_history
from app.ports import (
    CHECKPOINTS,
    EVENTS,
    POD_METRICS,
    PODS,
    VPAS,
    WORKLOADS,
    Clock,
)
from app.runtime.access import Guard
from app.runtime.bounds import LimitReport
from app.runtime.clock import SystemClock
from app.runtime.exposition import ProcessMetrics, new_registry, render
from app.runtime.http_server import Server, bound
from app.runtime.lifecycle import stop_events
from app.runtime.live import LiveRuntime
from app.runtime.logs import start_logging, start_sentences
from app.runtime.loop import Loop
from app.runtime.probes import probes
from app.runtime.tls import FileTls

log = logging.getLogger("page.process")

_SERVICE: Final = "vpa-page"
_LOOK_SECONDS: Final = 0.2  # until the cluster is known
_MOST_ANSWERS: Final = 20_000  # about viewers: one for each namespace

_KEEPS = (PODS, CHECKPOINTS, EVENTS, POD_METRICS, VPAS, *WORKLOADS)


def serve(settings: PageSettings, clock: Clock, past: PastSettings | None = None) -> int:
    """Show the page until a signal; return the exit code."""
    is_here = is_loopback(settings.serving.address.host)
    (start_sentences if is_here else start_logging)(settings.logging.verbosity)
    stopping, _ = stop_events()
    with source_of(settings, clock) as source:
        process = Process(settings, source, past)
        process.start()
        print_url(process.url)
        stopping.wait()
        process.stop()
    return 0


def print_url(url: str) -> None:
    """Say where the page is."""
    if sys.stdout is not None:
        sys.stdout.write(f"Page: {url}\n")
        sys.stdout.flush()


@contextmanager
def source_of(
    settings: LookSettings,
    clock: Clock,
    patience: Patience = Patience(),  # noqa: B008  # it never changes
) -> Iterator[Source]:
    """Yield what is looked at: files, or a cluster.

    Raises:
        BadSetting: files are looked at with a flag that is about a cluster.
    """
    if not settings.offline.objects:
        reached = LimitReport().reached
        yield ClusterSource(settings, LiveRuntime(), reached, patience=patience)
        return
    if settings.usage.address:
        told = "files are shown with the usage that --events names"
        raise BadSetting(f"--prometheus-address: {told}, not with that of a Prometheus")
    deciding = settings.deciding
    wanted = GatherRequest(
        settings.offline,
        settings.cluster,
        settings.scope.namespace,
        settings.admission,
        _KEEPS,
        deciding.native_sidecars,
        deciding.horizontal,
    )
    with ExitStack() as held:
        seen = held.enter_context(gather_objects(wanted, clock, settings.asking.at or clock.now()))
        events = settings.usage.events
        recorded = recorded_history(events) if events is not None else (None, ())
        yield FileSource(seen, clock, *recorded)


class Process:
    """Starts everything, and ends it."""

    def __init__(
        self,
        settings: PageSettings,
        source: Source,
        past: PastSettings | None = None,
        *,
        knows_tokens: bool = True,  # whether the cluster has any
    ) -> None:
        self._source = source
        self.past = past
        serving, clock = settings.serving, SystemClock()
        registry = new_registry()
        limits = LimitReport(registry)
        ProcessMetrics(registry, version("plumbline"))
        refresh_seconds = serving.refresh.total_seconds()
        self._pictures = pictures = Pictures(
            source, decision_rules(settings), refresh_seconds, settings.asking.at
        )
        # In real time, whatever the clock of the cluster is.
        self._loops = [
            Loop("pictures", pictures.tick, clock),
            Loop("checkup", pictures.check, clock),
        ]
        if past is not None:
            self._loops.append(Loop("past", partial(look_back, pictures, past), clock))
        tls = self._tls(settings, clock)
        self.access = access = (
            page_access(settings, pictures, clock, limits, has_tls=tls is not None)
            if knows_tokens or is_loopback(serving.address.host)
            else LinkAccess(clock.monotonic, has_tls=True)
        )
        probing = probes(pictures.dead, pictures.problem, lambda: render(registry))
        listener = _bound(*serving.address)
        self.url = _url(listener, access, has_tls=tls is not None)
        self._server = Server(
            page_app(Site(pictures, past), access, limits.reached, probing),
            listener,
            tls,
            limits=limits,
        )

    def _tls(self, settings: PageSettings, clock: Clock) -> ssl.SSLContext | None:
        """Return TLS behind any address but loopback: by given files, else of our own."""
        given = FileTls.of(settings.access)
        if given is not None:
            self._loops.append(Loop("certificate", given.tick, clock))
            return given.context
        if is_loopback(settings.serving.address.host) or settings.access.tokens_over_http:
            return None
        own = OwnTls(serving_names(_SERVICE, settings.cluster.namespace), clock.now())
        self._loops.append(Loop("certificate", own.tick, clock))
        return own.context

    def start(self) -> None:
        """Begin."""
        self._source.start()
        for loop in self._loops:
            loop.start()
        self._server.start("page")

    def stop(self) -> None:
        """End."""
        self._server.end()
        for loop in self._loops:
            loop.stop()
        self._source.stop()


def look_back(pictures: Pictures, past: PastSettings, _now: datetime) -> float:
    """Let the past be worked out once the cluster is known; return the seconds until then."""
    latest = pictures.latest
    return _LOOK_SECONDS if latest is None else past.tick(latest.snapshot)


def _bound(host: str, port: int) -> socket.socket:
    try:
        return bound(host, port, "--address")
    except BadSetting as error:
        bound(host, 0, "--address").close()  # else it is the address that is wrong
        free = f"--address={f'[{host}]' if ':' in host else host}:0"
        raise BadSetting(f"{error}; {free} takes any free port") from None


def page_access(
    settings: PageSettings, pictures: Pictures, clock: Clock, limits: LimitReport, *, has_tls: bool
) -> PageAccess:
    """Return who may see the page.

    Raises:
        BadSetting: there is no API server that could tell.
    """
    if is_loopback(settings.serving.address.host):
        return LinkAccess(clock.monotonic) if settings.serving.one_time_link else OpenAccess()
    cluster = pictures.source.reviewer
    if cluster is None:
        told = "files name no users; leave --address at loopback, such as localhost:8945"
        raise BadSetting(f"--objects: {told}")
    guard = Guard(
        AccessReviews(cluster, clock, limits.reached, _MOST_ANSWERS),
        takes_tokens_over_http=settings.access.tokens_over_http,
    )

    def namespaces() -> Collection[str]:
        return pictures.latest.told_of if pictures.latest is not None else ()

    return TokenAccess(guard, clock.monotonic, namespaces, has_tls=has_tls)


def _url(listener: socket.socket, access: PageAccess, *, has_tls: bool) -> str:
    """Return where the page is, as a browser finds it from this machine."""
    host, port = listener.getsockname()[:2]
    shown = "localhost" if host in ("0.0.0.0", "::", "127.0.0.1") else host
    scheme = "https" if has_tls else "http"
    enter = f"enter/{access.token}" if isinstance(access, LinkAccess) else ""
    return f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{port}/{enter}"
