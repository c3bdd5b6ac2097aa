"""The clusters of `plumbline run` that can be asked: how one is announced, and how it is found.

Strategy: the kubeconfig in the folder of a run is what announces it. It is locked as long as the
run lasts, so that what a run left behind that was killed is not taken for one; and only what
belongs to this user is believed, because everybody may write into a folder for temporary files.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson

from app.kube.client import connect
from app.model.errors import BadSetting, Unavailable
from app.model.gates import FeatureGate, FeatureGates
from app.runtime.clock import SystemClock

PREFIX: Final = "pl-"  # of the folder of a run
_NAME: Final = "kubeconfig"
_GATES: Final = "feature-gates"


@contextmanager
def announced(folder: Path, url: str, namespace: str, gates: FeatureGates) -> Iterator[None]:
    """Let others find the cluster at a URL, and its gates, as long as the block lasts."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "demo",
        "contexts": [
            {
                "name": "demo",
                "context": {"cluster": "demo", "user": "", "namespace": namespace},
            }
        ],
        "clusters": [{"name": "demo", "cluster": {"server": url}}],
        "extensions": [{"name": _GATES, "extension": {"enabled": sorted(gates.enabled)}}],
    }
    path = folder / _NAME
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(orjson.dumps(config))
        file.flush()
        yield


def running_demo(wanted: str = "", among: Path | None = None) -> str:
    """Return the kubeconfig of the cluster that runs; of several the one that is wanted.

    Args:
        wanted: a kubeconfig.
        among: the folder with the folders of all runs; none for that of temporary files.

    Raises:
        BadSetting: none runs, or several do and none of them is wanted.
    """
    found = sorted(map(str, _running(among or Path(tempfile.gettempdir()))))
    if wanted in found:
        return wanted
    if not found:
        raise BadSetting("--demo: no `plumbline run` is under way; start one in another terminal")
    if len(found) > 1:
        ways = " or ".join(f"--kubeconfig={path}" for path in found)
        raise BadSetting(f"--demo: several `plumbline run` are under way; choose one with {ways}")
    return found[0]


def demo_gates(kubeconfig: str) -> FeatureGates:
    """Return the feature gates that are on in the run that wrote a kubeconfig."""
    (told,) = orjson.loads(Path(kubeconfig).read_bytes())["extensions"]
    return FeatureGates(frozenset(map(FeatureGate, told["extension"]["enabled"])))


def _running(among: Path) -> Iterator[Path]:
    for path in among.glob(f"{PREFIX}*/{_NAME}"):
        with suppress(OSError):  # it ended meanwhile, or is of another user
            owners = {path.lstat().st_uid, path.parent.lstat().st_uid}
            if owners == {os.getuid()} and _is_locked(path):
                yield path


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class DemoClock(SystemClock):
    """The time of day of a cluster, which it tells with each answer; deadlines are in ours."""

    def __init__(self, kubeconfig: str) -> None:
        self._cluster = connect(kubeconfig)

    def now(self) -> datetime:
        """Return the cluster's time.

        Raises:
            Unavailable: it does not tell.
        """
        self._cluster.request("GET", "/version")
        found = self._cluster.server_now()
        if found is None:
            raise Unavailable("the cluster of `plumbline run` does not tell its time")
        return found
