"""The page inside `plumbline run`: that of `plumbline page`, about the cluster that runs here.

Strategy: it watches as the updater does, and makes its pictures in a thread of its own and in real
time, whatever the speed of the cluster.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from app.commands.page_past import recorded_past, shown_settings
from app.flags.command_line import parse
from app.page.flags import PageSettings
from app.page.pasts import PastSettings
from app.page.process import Process
from app.page.sources import ClusterSource
from app.run.flags import RunSettings, address
from app.run.run_history import RunHistory
from app.run.run_past import RunPast
from app.runtime.bounds import LimitReport
from app.runtime.clock import SystemClock
from app.runtime.live import Runtime

_REFRESH: Final = 2  # seconds, because the cluster's time may pass quickly
_KUBECONFIG: Final = "kubeconfig"  # in the folder of the run


def embedded_page(
    settings: RunSettings, runtime: Runtime, folder: Path, history: RunHistory | None = None
) -> Process:
    """Return the page; what only an API server can be asked is asked at the port for reading.

    The cluster in memory knows no tokens, so behind other addresses than loopback a link lets in.
    The past is that of a recording if one is named, else of the history of this run.

    Raises:
        BadSetting: its port is taken, or a recording cannot be read.
    """
    serving, real = settings.serving, settings.real
    words = [
        f"--kubeconfig={real.kubeconfig}",
        f"--context={real.context}",
        f"--vpa-object-namespace={real.namespace}",
        f"--address={address(serving.host, serving.page)}",
        f"--refresh={_REFRESH}s",
        "--role-leases",
        f"--use-admission-controller-status={'false' if real.dry_run else 'true'}",
        *([f"--recording={settings.pace.recording}"] if settings.pace.recording else []),
        *(f"--feature-gates={gate}=true" for gate in sorted(settings.features.gates.enabled)),
    ]
    told = parse(PageSettings, words, {})
    asked = told.cluster
    if not real.dry_run:
        asked = replace(asked, kubeconfig=str(folder / _KUBECONFIG), context="")
    past: PastSettings | None = recorded_past(told)
    if past is None and history is not None:
        past = RunPast(history, shown_settings(told), SystemClock())
    source = ClusterSource(told, runtime, LimitReport().reached, asked)
    return Process(told, source, past, knows_tokens=real.dry_run)
