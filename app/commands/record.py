"""Reads a recording out of a Prometheus, and tells what is in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.backtest.patient_prometheus import PatientPrometheus, Wait
from app.backtest.piece_folder import PieceFolder
from app.backtest.pieces import RecordingSpan, joined, planned_pieces
from app.backtest.prometheus_queries import MetricNames
from app.backtest.recorder import AT_ONCE, RecordedPieces, Recorder
from app.backtest.recording import Recording
from app.backtest.recording_file import save_recording
from app.backtest.survey import survey
from app.commands.record_events import recording_of_events
from app.commands.record_flags import RecordSettings
from app.commands.replay import read_events, read_objects
from app.commands.replaying.printing import Bar
from app.diagnosis.usage_history import PROMETHEUS
from app.kube.files import Unreadable
from app.model.errors import BadObject, BadSetting, ClusterError
from app.model.text import printable, span
from app.model.times import rfc3339
from app.output import Report, Text, line
from app.ports import Clock
from app.recommender.core.estimation import MOST
from app.recommender.core.moments import SECOND, moment
from app.recommender.prometheus import PrometheusServer
from app.recommender.prometheus_connection import connection_of

_LATE: Final = 0.02  # of the time; until then nothing is said of what begins late
_MOST_TOLD: Final = 5  # sentences about what is missing


def record_report(settings: RecordSettings, clock: Clock, pause: Wait | None = None) -> Report:
    """Record, and return what was recorded.

    Raises:
        BadSetting: there is nothing to record, or no place for it.
        ClusterError: Prometheus refuses, or does not answer.
    """
    path = settings.file.output
    if path is None:
        raise BadSetting("no file given: name one with --output")
    if not path.absolute().parent.is_dir():
        raise BadSetting(f"--output: there is no folder for {path}")
    if path.exists() or str(path) == "-":
        problem = "is no file" if path.is_dir() or not path.exists() else "is there already"
        raise BadSetting(f"--output: {path} {problem}; name a new file")
    if settings.events.events is not None:
        return _of_events(settings, path)
    folder, bar = PieceFolder(path), Bar(sys.stderr)
    request = _request(settings)
    time = folder.begun(request) or _span(settings, clock)
    with _reading(folder), ExitStack() as stack:
        stack.callback(bar.clear)
        servers = [stack.enter_context(closing(_connected(settings))) for _ in range(AT_ONCE)]
        tell = partial(_tell, bar)
        patient = PatientPrometheus(servers[0], pause or clock.wait, tell)
        found = survey(patient, _names(settings), settings.time.namespace, time)
        kept = folder.begin(request, time)
        pieces = planned_pieces(found.sizes, time.count, kept)
        recorder = Recorder(servers, found.names, time, found.sizes, folder)
        read = recorder.record(pieces, clock, partial(_show, bar), pause, tell)
    recording = joined(time, folder.recordings)
    save_recording(recording, path)
    folder.remove()
    notes = [*found.notes, *_notes(recording, read)]
    if kept:
        notes.insert(0, f"goes on with {_counted(len(kept), 'piece')} that had been read before")
    return _report(recording, path, notes)


@contextmanager
def _reading(folder: PieceFolder) -> Iterator[None]:
    """Name Prometheus in errors; whatever happens, say that what was read is not lost."""
    try:
        yield
    except ClusterError as error:
        told = f"; {_kept(folder)}" if folder.pieces() else ""
        kind, status = type(error), error.status
        raise kind(f"{error}{told}", status=status, reason=PROMETHEUS) from error
    except KeyboardInterrupt:
        if folder.pieces():
            sys.stderr.write(f"plumbline: {_kept(folder)}\n")
        raise


def _kept(folder: PieceFolder) -> str:
    return f"what was read is kept in {folder.path}, repeat the command to go on"


def _of_events(settings: RecordSettings, path: Path) -> Report:
    """Record events.

    Raises:
        BadSetting: they cannot be recorded.
    """
    unread: list[Unreadable] = []
    objects = read_objects(settings.offline.objects, unread)
    history = read_events(settings.events.events, MOST, Bar(sys.stderr))
    try:
        recording = recording_of_events(history, objects, _step(settings))
    except BadObject as error:
        raise BadSetting(f"{settings.events.events}: {error}") from None
    save_recording(recording, path)
    found = _report(recording, path, list(_notes(recording, RecordedPieces())))
    return replace(found, is_partial=bool(unread))


def _connected(settings: RecordSettings) -> PrometheusServer:
    access = connection_of(settings.prometheus, settings.prometheus_access)
    return PrometheusServer(access, lambda *_: None)


def _span(settings: RecordSettings, clock: Clock) -> RecordingSpan:
    step = _step(settings)
    end = int((settings.time.until or clock.now()).timestamp()) // step
    count = int(settings.time.days * 86_400) // step
    return RecordingSpan((end - count) * step, step, count)


def _step(settings: RecordSettings) -> int:
    return int(settings.time.step.span.total_seconds())


def _names(settings: RecordSettings) -> MetricNames:
    flags = settings.prometheus
    return MetricNames(
        flags.cadvisor_job,
        flags.cpu_metric,
        flags.memory_metric,
        flags.container_namespace_label,
        flags.container_pod_name_label,
        flags.container_name_label,
        selector=settings.time.selector,
    )


def _request(settings: RecordSettings) -> dict[str, object]:
    """Return what tells whether two recordings are the same."""
    time, flags, access = settings.time, settings.prometheus, settings.prometheus_access
    return {
        "address": flags.address.rpartition("@")[2],
        "namespace": time.namespace,
        "days": time.days,
        "step": time.step.text,
        "until": time.until.isoformat() if time.until else "",
        "selector": time.selector,
        "metrics": [flags.cadvisor_job, flags.cpu_metric, flags.memory_metric],
        "labels": [
            flags.container_namespace_label,
            flags.container_pod_name_label,
            flags.container_name_label,
        ],
        "user": [access.tenant, access.username, access.cloud],
    }


def _show(bar: Bar, share: float, seconds: float) -> None:
    left = timedelta(seconds=round(seconds))
    bar.show("recording", share, f"{span(left)} left" if left else "")


def _tell(bar: Bar, text: str) -> None:
    bar.clear()
    sys.stderr.write(f"plumbline: {text}\n")


def _report(recording: Recording, path: Path, notes: list[str]) -> Report:
    rows = recording.rows
    begin, end = (moment(time * SECOND) for time in (recording.start, recording.end))
    told = {
        "containers": len(rows),
        "pods": len({(row.namespace, row.pod) for row in rows}),
        "namespaces": len({row.namespace for row in rows}),
        "start": begin.isoformat(),
        "end": end.isoformat(),
        "step": recording.step,
        "file": str(path),
    }
    counted = ", ".join(
        _counted(int(str(told[f"{what}s"])), what) for what in ("container", "pod", "namespace")
    )
    lasts = span(timedelta(seconds=recording.end - recording.start))
    text = f"{path}: {counted}, {lasts} in steps of {span(timedelta(seconds=recording.step))}"
    return Report(Text([line(text)]), [told], [str(path)], list(map(printable, notes)))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _notes(recording: Recording, read: RecordedPieces) -> Iterator[str]:
    """Yield what is not known."""
    first = int(np.argmax(used(recording).any(axis=0))) if recording.rows else 0
    if first > recording.count * _LATE:
        begin = rfc3339(moment((recording.start + first * recording.step) * SECOND))
        yield f"there is no usage before {begin}"
    for what, share in unknown_shares(recording):
        yield f"{what} is not known for {share:.1%} of the time in which containers ran"
    limited = (recording.cpu_limit > 0).any(axis=1)
    unseen = limited & np.isnan(recording.throttled).all(axis=1)
    if number := int(unseen.sum()):
        whose = f"{number} of {_counted(int(limited.sum()), 'container')} with a CPU limit"
        yield f"how often their limit held CPU back is not known of {whose}"
    if strange := sum(not row.owner_kind for row in recording.rows):
        yield f"{_counted(strange, 'container')} of {len(recording.rows)} under unknown owner"
    if read.flaws.series or read.flaws.points:
        lost = f"{read.flaws.series} series and {read.flaws.points} points cannot be read"
        yield f"{lost}: {'; '.join(read.flaws.sentences) or 'no reason is given'}"
    yield from read.missing[:_MOST_TOLD]
    if (more := len(read.missing) - _MOST_TOLD) > 0:
        yield f"and {more} more such answers"


def unknown_shares(recording: Recording) -> Iterator[tuple[str, float]]:
    """Yield usage that is not known within the time in which its container ran, and how much.

    A container ran from the first to the last step in which anything was used.
    """
    either = used(recording)
    ran = np.maximum.accumulate(either, axis=1)
    ran &= np.maximum.accumulate(either[:, ::-1], axis=1)[:, ::-1]
    steps = int(ran.sum())
    for what in ("cpu", "memory"):
        missing = steps - int((~np.isnan(recording.measured(what)) & ran).sum())
        if missing:
            yield {"cpu": "CPU"}.get(what, what), missing / steps


def used(recording: Recording) -> NDArray[np.bool_]:
    """Return in which steps any usage of which container is known."""
    found: NDArray[np.bool_] = ~(np.isnan(recording.cpu) & np.isnan(recording.memory))
    return found
