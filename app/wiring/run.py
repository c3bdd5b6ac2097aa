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

from app.settings.run import Pace, RunSettings, Serving
from app.web.server import bound
from app.wiring.brought import manifests, shop
from app.wiring.commands import Commands, Doors
from app.wiring.lifecycle import stopped_from_terminal
from app.wiring.onlooker import Onlooker
from app.wiring.scenes import InMemory, Listeners, Observed, Scene
from app.wiring.screen.picture import summary
from app.wiring.screen.shows import Show, shown_on
from app.wiring.screen.view import What

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
        scene = _scene(settings, Path(name))
        commands = Commands(Path(name), _doors(settings.serving))
        show = _show(settings, stream, environment)
        with _troubles(scene.onlooker), _running(scene):
            lines = _opened(scene, commands, settings, stopping)
            with show.entered(lines):
                _drive(scene, settings.pace, show, stopping)
            last = scene.onlooker.view(scene.title, "")
        show.told(summary(last))
    return 0


@contextmanager
def _running(scene: Scene) -> Iterator[None]:
    """Start a scene, and end it, however the block is left."""
    scene.start()
    try:
        yield
    finally:
        scene.stop()


def _show(settings: RunSettings, stream: TextIO, environment: Mapping[str, str]) -> Show:
    # A real cluster may be large, and its time does not run faster than ours.
    frame_seconds = _SLOW_SECONDS if settings.real.dry_run else _DRAWN_SECONDS
    return shown_on(stream, environment, frame_seconds, is_plain=settings.pace.plain)


def _scene(settings: RunSettings, folder: Path) -> Scene:
    with ExitStack() as unused:  # what is bound, should there be nothing to run on
        listeners = _listeners(settings.serving)
        for listener in listeners:
            unused.enter_context(listener)
        scene = (
            Observed(settings, listeners, folder)
            if settings.real.dry_run
            else InMemory(settings, manifests(settings.offline.objects or [shop()]), listeners)
        )
        unused.pop_all()
    return scene


def _opened(
    scene: Scene, commands: Commands, settings: RunSettings, stopping: threading.Event
) -> list[str]:
    """Go on until there are pods, and return the commands that can be pasted from then on."""
    scene.advance(min(_OPENING_SECONDS, _left(scene.onlooker, settings.pace.lasts)))
    until = monotonic() + _OPENING_SECONDS
    while not scene.ca_pem() and monotonic() < until and not stopping.is_set():
        stopping.wait(_FRAME_SECONDS)
    commands.prepare(scene.ca_pem())
    return commands.lines(scene.cluster, settings.real.namespace)


def _drive(scene: Scene, pace: Pace, show: Show, stopping: threading.Event) -> None:
    """Let time pass, and show what happens in it."""
    pacer = _Pacer(scene, pace.speed)
    speed = "as fast as can be" if math.isinf(pace.speed) else f"{pace.speed:g}x"
    while not stopping.is_set():
        show.heed()
        for happening in scene.onlooker.news():
            show.happened(happening)
        if show.wants_view():
            show.draw(scene.onlooker.view(scene.title, speed))
        left = _left(scene.onlooker, pace.lasts)
        if left <= 0:
            return
        if not pacer.step(left):
            stopping.wait(_FRAME_SECONDS)


class _Pacer:
    """Moves the time of a scene so that it keeps up with ours, times its speed."""

    def __init__(self, scene: Scene, speed: float) -> None:
        self._scene = scene
        self._speed = speed
        self._moved_at = monotonic()

    def step(self, most_seconds: float) -> bool:
        """Move by what is due, but not far; tell whether more is due."""
        now = monotonic()
        due = math.inf if math.isinf(self._speed) else (now - self._moved_at) * self._speed
        step = min(due, _STEP_SECONDS, most_seconds)
        self._scene.advance(step)
        # What could not be caught up within a frame is let go: time goes slower then.
        behind = min((due - step) / self._speed, _FRAME_SECONDS) if math.isfinite(due) else 0.0
        self._moved_at = now - behind
        return math.isinf(due) or behind > 0


def _left(onlooker: Onlooker, lasts: timedelta | None) -> float:
    return math.inf if lasts is None else (lasts - onlooker.lasted).total_seconds()


@contextmanager
def _troubles(onlooker: Onlooker) -> Iterator[None]:
    """Show errors that are logged among what happens; the screen has no place for lines."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [_Troubles(onlooker)]
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


class _Troubles(logging.Handler):
    """Hands errors on."""

    def __init__(self, onlooker: Onlooker) -> None:
        super().__init__(logging.ERROR)
        self._onlooker = onlooker

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of one."""
        error = record.exc_info[1] if record.exc_info else ""
        told = f"{record.getMessage()} {error!r}" if error else record.getMessage()
        self._onlooker.note(What.TROUBLE, record.name, told)


def _settled(serving: Serving) -> Serving:
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
    return Serving(serving.host, port, admission, recommender, updater)


def _listeners(serving: Serving) -> Listeners:
    return (
        bound(serving.host, serving.port, "--port"),
        bound(serving.host, serving.admission, "--admission-port"),
    )


def _doors(serving: Serving) -> Doors:
    return Doors(serving.host, serving.port, serving.recommender, serving.updater)
