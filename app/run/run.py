"""The whole autoscaler in one process, and what it does on the screen.

Strategy: the main thread moves the time of a cluster in memory, frame by frame, and draws; so one
signal ends it between two frames. When the machine is too slow for the speed that was asked for,
the cluster's time goes slower, and nothing is left out.
"""

from __future__ import annotations

import logging
import math
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final, TextIO

from app.model.errors import BadSetting
from app.model.gates import FeatureGates
from app.ports import VPAS
from app.run.activity import ActivityFeed
from app.run.api import ReadPort
from app.run.demo_clusters import PREFIX, announced
from app.run.embedded_page import embedded_page
from app.run.flags import Ports, RunSettings, Timing
from app.run.modes import DryRunMode, InMemoryMode, RunMode
from app.run.run_history import RunHistory
from app.run.scripts import Scripts
from app.run.speed import FRAME_SECONDS, SpeedControl
from app.run.terminal import Display, FullScreen, is_terminal
from app.run.view import ActivityKind, summary
from app.run.world import read_manifests, shop_file
from app.runtime.clock import SystemClock
from app.runtime.http_server import bound
from app.runtime.lifecycle import stopped_from_terminal

_DRAWN_SECONDS: Final = 0.25
_SLOW_SECONDS: Final = 2.0
ASK: Final = (
    "Or ask: plumbline plan --demo · explain VPA --demo · recommendations --demo · doctor --demo"
)
_LOOPBACK: Final = "127.0.0.1"
_END: Final = "qQ\x04"  # the last one is what Ctrl-D sends
_OPENING_SECONDS: Final = 10.0  # until there are pods, and a certificate


def run(settings: RunSettings, stream: TextIO, environment: Mapping[str, str]) -> int:
    """Run until a signal, or until the time is over; return the exit code.

    Raises:
        BadSetting: a port is taken, there is nothing to run on, or nothing could be applied.
    """
    settings = replace(settings, serving=_settled(settings.serving))
    stopping = threading.Event()
    with TemporaryDirectory(prefix=PREFIX) as name, stopped_from_terminal(stopping):
        mode = _run_mode(settings, Path(name))
        scripts = Scripts(Path(name), settings.serving)
        display = _display(settings, stream, environment)
        with ExitStack() as running:
            running.enter_context(_errors_shown(mode.feed))
            running.callback(mode.stop)
            mode.start()
            history = None
            if isinstance(mode, InMemoryMode):
                history = RunHistory(mode.runtime, mode.cluster, settings.pace.record)
                running.enter_context(history.watching())
            page = running.enter_context(_shown(mode, settings, Path(name), history))
            tries = [page, _try(Path(name), _opened(mode, scripts, settings, stopping))]
            if isinstance(mode, InMemoryMode):
                running.enter_context(_readable(mode, Path(name), settings.features.gates))
                tries.append(ASK)
            with display.entered(tries):
                _drive(mode, settings.pace, display, stopping)
            last = mode.view()
        display.print_lines(summary(last))
    return 0


def _display(settings: RunSettings, stream: TextIO, environment: Mapping[str, str]) -> Display:
    if settings.pace.plain or not is_terminal(stream, environment):
        return Display(stream)
    # A real cluster may be large, and its time does not run faster than ours.
    frame_seconds = _SLOW_SECONDS if settings.real.dry_run else _DRAWN_SECONDS
    return FullScreen(stream, environment, frame_seconds)


def _run_mode(settings: RunSettings, folder: Path) -> RunMode:
    serving, is_dry = settings.serving, settings.real.dry_run
    objects = [] if is_dry else read_manifests(settings.offline.objects or [shop_file()])
    with ExitStack() as unused:  # what is bound, should there be nothing to run on
        listeners = (
            unused.enter_context(bound(serving.host, serving.port, "--port")),
            unused.enter_context(bound(serving.host, serving.admission, "--admission-port")),
        )
        mode = (
            DryRunMode(settings, listeners, folder)
            if is_dry
            else InMemoryMode(settings, objects, listeners)
        )
        unused.pop_all()
    return mode


def _opened(
    mode: RunMode, scripts: Scripts, settings: RunSettings, stopping: threading.Event
) -> list[str]:
    """Go on until there are pods, and return the scripts that can be tried from then on."""
    mode.advance(min(_OPENING_SECONDS, _left(mode.feed, settings.pace.lasts)))
    until = monotonic() + _OPENING_SECONDS
    while not mode.webhook.ca_pem() and monotonic() < until and not stopping.is_set():
        stopping.wait(FRAME_SECONDS)
    return scripts.write(mode.webhook.ca_pem(), mode.cluster, settings.real.namespace)


@contextmanager
def _shown(
    mode: RunMode, settings: RunSettings, folder: Path, history: RunHistory | None
) -> Iterator[str]:
    """Show everything in a browser as well; yield where."""
    page = embedded_page(settings, mode.runtime, folder, history)
    page.start()
    try:
        yield f"Page: {page.url}"
    finally:
        page.stop()


@contextmanager
def _readable(mode: InMemoryMode, folder: Path, gates: FeatureGates) -> Iterator[None]:
    """Let commands with --demo find the cluster, and read it."""
    found = {vpa["metadata"]["namespace"] for vpa in mode.cluster.list(VPAS).items}
    namespace = found.pop() if len(found) == 1 else "default"
    listener = bound(_LOOPBACK, 0, "--demo")
    token = token_urlsafe()
    port = ReadPort(mode.cluster, mode.clock, token, listener)
    port.start()
    try:
        url = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/{token}"
        with announced(folder, url, namespace, gates):
            yield
    finally:
        port.stop()


def _try(folder: Path, names: Sequence[str]) -> str:
    first, *others = names
    return " · ".join([f"Try elsewhere: sh {shlex.quote(str(folder / first))}", *others])


def _drive(mode: RunMode, pace: Timing, display: Display, stopping: threading.Event) -> None:
    """Let time pass, and display what happens in it."""
    speed_control = SpeedControl(
        mode.advance, SystemClock(), pace.speed if mode.is_simulated else None
    )
    while not stopping.is_set():
        display.follow_shell()
        for key in display.typed():
            if key in _END:
                return
            speed_control.press(key)
        for activity in mode.feed.news():
            display.show_activity(activity)
        if display.wants_view():
            display.draw(mode.view(speed_control.pace))
        left = _left(mode.feed, pace.lasts)
        if left <= 0:
            return
        if not speed_control.step(left):
            stopping.wait(FRAME_SECONDS)


def _left(feed: ActivityFeed, lasts: timedelta | None) -> float:
    return math.inf if lasts is None else (lasts - feed.lasted).total_seconds()


@contextmanager
def _errors_shown(feed: ActivityFeed) -> Iterator[None]:
    """Show errors that are logged among what happens; the screen has no place for lines."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [_ErrorsToFeed(feed)]
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


class _ErrorsToFeed(logging.Handler):
    """Hands errors on."""

    def __init__(self, feed: ActivityFeed) -> None:
        super().__init__(logging.ERROR)
        self._feed = feed

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of one."""
        error = record.exc_info[1] if record.exc_info else ""
        told = f"{record.getMessage()} {error!r}" if error else record.getMessage()
        self._feed.add(ActivityKind.TROUBLE, record.name, told)


def _settled(serving: Ports) -> Ports:
    """Return where all answer, for commands to name; 0 stands for any port that is free.

    Raises:
        BadSetting: some are taken; all of them are named.
    """
    wanted = {
        "--port": serving.port,
        "--admission-port": serving.admission,
        "--recommender-port": serving.recommender,
        "--updater-port": serving.updater,
        "--page-port": serving.page,
    }
    found: list[int] = []
    refused: dict[str, BadSetting] = {}
    with ExitStack() as held:
        for flag, port in wanted.items():
            try:
                listener = held.enter_context(bound(serving.host, port, flag))
            except BadSetting as error:
                refused[flag] = error
            else:
                found.append(listener.getsockname()[1])
    if not refused:
        return Ports(serving.host, *found)
    bound(serving.host, 0, "--host").close()  # else it is the address that is wrong
    reasons = dict[str, list[str]]()
    for flag, problem in refused.items():
        reason = str(problem).rpartition(": ")[2]
        reasons.setdefault(reason, []).append(f"{wanted[flag]} ({flag})")
    told = "; ".join(f"{reason}: {', '.join(ports)}" for reason, ports in reasons.items())
    free = " ".join(f"{flag}=0" for flag in refused)
    raise BadSetting(f"cannot listen on {serving.host}: {told}; to take any free port: {free}")
