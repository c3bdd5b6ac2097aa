"""The cluster that acceptance tests run against."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tests.cluster.api import Api
from tests.cluster.control_plane import Access, ControlPlane


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster of this run; `plane` is None when somebody else runs it."""

    access: Access
    admin: Api
    plane: ControlPlane | None
    kubectl: str

    @property
    def kubeconfig(self) -> str:
        """Where it is written how to reach it, as somebody who may do everything."""
        return str(self.plane.kubeconfig) if self.plane else os.environ["KUBECONFIG"]


def reached_as() -> tuple[str, str]:
    """Return the name by which the cluster reaches this machine, and where to listen for it."""
    elsewhere = os.environ.get("PLUMBLINE_WEBHOOK_HOST", "")
    return (elsewhere, "0.0.0.0") if elsewhere else ("localhost", "127.0.0.1")
