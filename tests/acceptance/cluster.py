"""The cluster that acceptance tests run against."""

from __future__ import annotations

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
