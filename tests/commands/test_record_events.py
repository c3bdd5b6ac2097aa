"""Events in the form of a replay become a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pytest

from app.backtest.recording import Recording
from app.backtest.recording_file import load_recording
from app.commands.record import record_report
from app.commands.record_flags import RecordSettings
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.output import Report
from tests import make
from tests.stepped_clock import SteppedClock

MI: Final = 2**20
Event = Mapping[str, Any]


def usage(time: str, *, pod: str = "web-1", container: str = "app", **amounts: str) -> Event:
    """Return a sample."""
    named = {"namespace": "default", "pod": pod, "container": container}
    return {"time": f"2026-01-05T{time}Z", "type": "usage", **named, **amounts}


def applied(time: str, item: Event) -> Event:
    """Return a change of an object."""
    return {"time": f"2026-01-05T{time}Z", "type": "apply", "object": item}


def web(cpu: str, memory: str, *, restarts: int = 0, killed: str = "") -> Event:
    """Return the pod as it is at some time."""
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": "1Gi"}}
    ended = {"reason": "OOMKilled", "finishedAt": f"2026-01-05T{killed}Z"}
    status = {
        "name": "app",
        "restartCount": restarts,
        "state": {"running": {}},
        "lastState": {"terminated": ended} if killed else {},
    }
    return {
        "kind": "Pod",
        "metadata": {
            "name": "web-1",
            "namespace": "default",
            "uid": "1",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web-5d",
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "app", "resources": resources}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


OWNERS: Final = [
    {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "web-5d",
            "namespace": "default",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
            ],
        },
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    },
]


def recorded(folder: Path, events: Sequence[Event], *words: str) -> tuple[Recording, Report]:
    """Record events as the command line does."""
    (folder / "events").write_bytes(b"\n".join(map(orjson.dumps, events)))
    (folder / "objects.json").write_bytes(orjson.dumps({"kind": "List", "items": OWNERS}))
    words = (f"--events={folder / 'events'}", f"--objects={folder / 'objects.json'}", *words)
    settings = parse(RecordSettings, [*words, f"--output={folder / 'x.npz'}"], {})
    report = record_report(settings, SteppedClock())
    return load_recording(folder / "x.npz"), report


def test_usage(tmp_path: Path) -> None:
    """A step has the mean of CPU and the peak of memory; one that ends it belongs to it."""
    found, report = recorded(
        tmp_path,
        [
            usage("10:01:00", cpu="100m", memory="100Mi"),
            usage("10:04:00", cpu="300m", memory="300Mi"),
            usage("10:05:00", cpu="500m", memory="200Mi"),
            usage("10:12:00", memory="400Mi"),
            usage("10:12:00", pod="other", cpu="1"),
        ],
    )
    assert (found.start, found.step, found.count) == (make.NOW.timestamp(), 300, 3)
    np.testing.assert_allclose(found.cpu[0], [0.3, np.nan, np.nan])
    np.testing.assert_allclose(found.memory[0], [300 * MI, np.nan, 400 * MI])
    np.testing.assert_allclose(found.cpu[1], [np.nan, np.nan, 1.0])
    assert np.isnan(found.cpu_request).all()
    assert "2 containers of 2 under unknown owner" in report.notes


def test_pods(tmp_path: Path) -> None:
    """Requests hold until they change; restarts and kills count when they are seen."""
    found, _ = recorded(
        tmp_path,
        [
            applied("10:01:00", web("100m", "256Mi")),
            *(usage(f"10:{minute:02}:00", cpu="100m") for minute in (2, 7, 12, 17, 27)),
            applied("10:08:00", web("200m", "512Mi")),
            applied("10:13:00", web("200m", "512Mi", restarts=1, killed="10:12:30")),
            applied("10:14:00", web("200m", "512Mi", restarts=1, killed="10:12:30")),
            {
                "time": "2026-01-05T10:12:30Z",
                "type": "oom",
                "pod": "web-1",
                "container": "app",
                "memory": "512Mi",
            },
            {
                "time": "2026-01-05T10:21:00Z",
                "type": "delete",
                "object": {"kind": "Pod", "name": "web-1", "namespace": "default"},
            },
        ],
    )
    (row,) = found.rows
    assert (row.owner_kind, row.owner_name) == ("Deployment", "web")
    nan = np.nan
    np.testing.assert_allclose(found.cpu_request[0], [0.1, 0.2, 0.2, 0.2, nan, nan])
    wanted = [256 * MI, 512 * MI, 512 * MI, 512 * MI, nan, nan]
    np.testing.assert_allclose(found.memory_request[0], wanted)
    np.testing.assert_allclose(found.memory_limit[0, :4], 1024 * MI)
    np.testing.assert_allclose(found.cpu_limit[0, :4], 0.0)
    assert found.restarts[0].tolist() == [0, 0, 1, 0, 0, 0]
    assert found.oom_kills[0].tolist() == [0, 0, 1, 0, 0, 0]


def test_the_step_is_chosen(tmp_path: Path) -> None:
    """Steps are as long as they are asked for."""
    found, report = recorded(tmp_path, [usage("10:01:30", cpu="1")], "--step=1m")
    assert (found.step, found.count) == (60, 1)
    assert report.items[0]["step"] == 60


@pytest.mark.parametrize(
    ("events", "words", "said"),
    [
        ([applied("10:00:00", web("1", "1Gi"))], [], "events: there is no usage"),
        ([{"type": "usage"}], [], "no event can be read"),
        ([usage("10:00:00", cpu="5000")], [], "cpu: 5000 of default/web-1/app .* told in cores"),
    ],
)
def test_events_that_cannot_be_recorded(
    tmp_path: Path, events: Sequence[Event], words: Sequence[str], said: str
) -> None:
    """A sentence says why."""
    with pytest.raises(BadSetting, match=said):
        recorded(tmp_path, events, *words)


def test_objects_without_events() -> None:
    """Objects alone are no history."""
    with pytest.raises(BadSetting, match="--objects belong to --events"):
        parse(RecordSettings, ["--objects=x", "--output=y"], {})
