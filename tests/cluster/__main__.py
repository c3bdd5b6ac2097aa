"""`python -m tests.cluster build|up|down`: a control plane to play with, beside the tests.

Strategy: `up` leaves the programs running and their process ids in its folder; `down` ends only
processes whose command line still names that folder, and takes the folder away.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from app.runtime.clock import SystemClock
from bench.upstream import folder as upstream
from tests.cluster.control_plane import ControlPlane
from tests.cluster.foreign import foreign
from tests.cluster.parts import Unavailable, parts
from tests.cluster.programs import GaveUp, eventually

FOLDER = Path(tempfile.gettempdir()) / f"plumbline-cluster-{os.getuid()}"
_PROCESSES = "processes.json"


def build() -> str:
    """Build what is missing, so that nothing is while rows are played."""
    if os.environ.get("KUBECONFIG"):
        return "KUBECONFIG names a cluster, so there is nothing to build"
    built = [*parts().paths.values()]
    if shutil.which("go") is not None:  # else what needs these is left out
        foreign()
        built.append(upstream(("recommender",)) / "recommender")
    return "\n".join(map(str, built))


def up() -> str:
    """Start a control plane that stays."""
    found = parts()
    if FOLDER.exists():
        raise Unavailable(f"{FOLDER} is there already: 'python -m tests.cluster down' first")
    FOLDER.mkdir(mode=0o700)
    plane = ControlPlane(found, FOLDER, SystemClock().now())
    try:
        plane.start()
    except BaseException:
        plane.stop()
        raise
    ids = [program.pid for program in plane.programs]
    (FOLDER / _PROCESSES).write_text(json.dumps(ids), "utf-8")
    kubectl = found.path("kubectl")
    return f"export KUBECONFIG={plane.kubeconfig}\nalias kubectl={kubectl}"


def down() -> str:
    """End what `up` has started."""
    try:
        ids: list[int] = json.loads((FOLDER / _PROCESSES).read_text("utf-8"))
    except FileNotFoundError:
        ids = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in filter(_is_ours, ids):
            os.kill(pid, number)
        try:
            eventually(lambda: not any(map(_is_ours, ids)), "all ended", seconds=6)
        except GaveUp:
            continue
        break
    shutil.rmtree(FOLDER, ignore_errors=True)
    return "stopped"


def _is_ours(pid: int) -> bool:
    try:
        return str(FOLDER) in Path(f"/proc/{pid}/cmdline").read_text("utf-8")
    except OSError:
        return False


def main(words: list[str]) -> int:
    """Do what a word says."""
    verbs = {"build": build, "up": up, "down": down}
    if len(words) != 1 or words[0] not in verbs:
        sys.stderr.write(f"usage: python -m tests.cluster {'|'.join(verbs)}\n")
        return 2
    try:
        sys.stdout.write(verbs[words[0]]() + "\n")
    except Unavailable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
