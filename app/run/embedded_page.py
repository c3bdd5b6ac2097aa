"""The page inside `plumbline run`: that of `plumbline page`, about the cluster that runs here.

Strategy: it watches as the updater does, and makes its pictures in a thread of its own and in real
time, whatever the speed of the cluster.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from app.commands.page_past import recorded_past
from app.flags.command_line import parse
from app.page.flags import PageSettings
from app.page.process import Process
from app.page.sources import ClusterSource
from app.run.flags import RunSettings, address
from app.runtime.bounds import LimitReport
from app.runtime.live import Runtime

_REFRESH: Final = 2  # seconds, because the cluster's time may pass quickly
_KUBECONFIG: Final = "kubeconfig"  # in the folder of the run


def embedded_page(settings: RunSettings, runtime: Runtime, folder: Path) -> Process:
    """Return the page; what only an API server can be asked is asked at the port for reading.

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
    past = recorded_past(told)
    source = ClusterSource(told, runtime, LimitReport().reached, asked)
    return Process(told, source, past)
