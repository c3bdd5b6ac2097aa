"""The whole autoscaler in one process, and what it does on the screen.

Strategy: the main thread moves the time of a cluster in memory, frame by frame, and draws; so one
signal ends it between two frames. When the machine is too slow for the speed that was asked for,
the cluster's time goes slower, and nothing is left out.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final, TextIO

from app.run.activity import ActivityFeed
from app.run.curl_commands import CurlCommands
from app.run.flags import Ports, RunSettings, Timing
from app.run.modes import DryRunMode, InMemoryMode, RunMode
from app.run.picture import ActivityKind, summary
from app.run.terminal import Display, FullScreen, is_terminal
from app.run.world import read_manifests, shop_file
from app.runtime.http_server import bound
from app.runtime.lifecycle import stopped_from_terminal

_FRAME_SECONDS: Final = 0.1
_DRAWN_SECONDS: Final = 0.25
_SLOW_SECONDS: Final = 2.0
_STEP_SECONDS: Final = 10.0  # of the cluster's time, after which it is looked at again
_OPENING_SECONDS: Final = 10.0  # until there are pods, and a certificate


def run(settings: RunSettings, stream: TextIO, environment: Mapping[str, str]) -> int:
    """Run until a signal, or until the time is over; return the exit code.

    Raises:
        BadSetting: a port is taken, or there is nothing to run on.
    """
    settings = replace(settings, serving=_settled(settings.serving))
    stopping = threading.Event()
    with TemporaryDirectory(prefix="pl-") as name, stopped_from_terminal(stopping):
        mode = _run_mode(settings, Path(name))
        commands = CurlCommands(Path(name), settings.serving)
        display = _display(settings, stream, environment)
        with ExitStack() as running:
            running.enter_context(_errors_shown(mode.feed))
            mode.start()
            running.callback(mode.stop)
            lines = _opened(mode, commands, settings, stopping)
            with display.entered(lines):
                _drive(mode, settings.pace, display, stopping)
            last = mode.feed.view(mode.title, "")
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
    mode: RunMode, commands: CurlCommands, settings: RunSettings, stopping: threading.Event
) -> list[str]:
    """Go on until there are pods, and return the commands that can be pasted from then on."""
    mode.advance(min(_OPENING_SECONDS, _left(mode.feed, settings.pace.lasts)))
    until = monotonic() + _OPENING_SECONDS
    while not mode.webhook.ca_pem() and monotonic() < until and not stopping.is_set():
        stopping.wait(_FRAME_SECONDS)
    commands.prepare(mode.webhook.ca_pem())
    return commands.lines(mode.cluster, settings.real.namespace)


def _drive(mode: RunMode, pace: Timing, display: Display, stopping: threading.Event) -> None:
    """Let time pass, and display what happens in it."""
    pacer = _Pacer(mode, pace.speed)
    speed = "as fast as can be" if math.isinf(pace.speed) else f"{pace.speed:g}x"
    while not stopping.is_set():
        display.follow_shell()
        for activity in mode.feed.news():
            display.show_activity(activity)
        if display.wants_view():
            display.draw(mode.feed.view(mode.title, speed))
        left = _left(mode.feed, pace.lasts)
        if left <= 0:
            return
        if not pacer.step(left):
            stopping.wait(_FRAME_SECONDS)


class _Pacer:
    """Moves the time of a mode so that it keeps up with ours, times its speed."""

    def __init__(self, mode: RunMode, speed: float) -> None:
        self._run_mode = mode
        self._speed = speed
        self._moved_at = monotonic()

    def step(self, most_seconds: float) -> bool:
        """Move by what is due, but not far; tell whether more is due."""
        now = monotonic()
        due = math.inf if math.isinf(self._speed) else (now - self._moved_at) * self._speed
        step = min(due, _STEP_SECONDS, most_seconds)
        self._run_mode.advance(step)
        # What could not be caught up within a frame is let go: time goes slower then.
        behind = min((due - step) / self._speed, _FRAME_SECONDS) if math.isfinite(due) else 0.0
        self._moved_at = now - behind
        return math.isinf(due) or behind > 0


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
        BadSetting: one is taken.
    """
    wanted = {
        "--port": serving.port,
        "--admission-port": serving.admission,
        "--recommender-port": serving.recommender,
        "--updater-port": serving.updater,
    }
    with ExitStack() as held:
        port, admission, recommender, updater = (
            held.enter_context(bound(serving.host, port, flag)).getsockname()[1]
            for flag, port in wanted.items()
        )
    return Ports(serving.host, port, admission, recommender, updater)
