"""Somebody's own manifests on the cluster in memory."""

from __future__ import annotations

from pathlib import Path

import orjson

from app.ports import Json
from app.run.view import ActivityKind
from tests.flows.autoscaler import MINUTE, in_memory, vpa, workload

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
WRONG = vpa("wrong", target="Deployment/other", mode="Sometimes")


def written(folder: Path, *items: Json) -> tuple[Path, str]:
    """Write objects into a file; return it, and the flag that names it."""
    path = folder / "objects.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, items)))
    return path, f"--objects={path}"


def test_they_are_sized(tmp_path: Path) -> None:
    """A workload of one's own is sized by its own VPA; nothing of the shop is there."""
    with in_memory(*written(tmp_path, workload(load="cpu: constant 400m"), vpa())) as mode:
        mode.advance(10 * MINUTE)
        rows = mode.view().rows

        assert [row.vpa for row in rows] == ["web"]
        assert (rows[0].cpu.request or 0) > 400


def test_what_is_not_taken_is_told(tmp_path: Path) -> None:
    """A kind that no cluster in memory has, and a VPA with mistakes, cost themselves alone."""
    with in_memory(*written(tmp_path, SERVICE, SERVICE, WRONG, workload(), vpa())) as mode:
        mode.advance(5)
        told = list(mode.feed.news())
        skipped = [(one.who, one.why) for one in told if one.kind is ActivityKind.SKIP]
        refused = {one.who: one.why for one in told if one.kind is ActivityKind.REFUSE}

        assert skipped == [("2 Service", "a cluster in memory has no such kind")]
        assert list(refused) == ["VerticalPodAutoscaler wrong"]
        assert "spec.updatePolicy.updateMode" in refused["VerticalPodAutoscaler wrong"]
        assert [row.pods for row in mode.view().rows] == [0]


def test_a_load_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A pod whose annotation nobody understands does not start; the screen says why."""
    with in_memory(*written(tmp_path, workload(load="cpu: dayly 100m 1"), vpa())) as mode:
        mode.advance(30)
        refused = {one.why for one in mode.feed.news() if one.kind is ActivityKind.REFUSE}

        assert refused == {"'cpu: dayly 100m 1' is no clause of a load"}
