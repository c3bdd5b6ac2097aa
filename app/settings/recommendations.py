"""Settings of listing recommendations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from app.settings.flags import PATH, TEXT, Flag, Rest, optional
from app.settings.shared import Cluster, Offline, Selection, Showing


@dataclass(frozen=True, slots=True)
class Asking:
    """A recommender to be asked instead of a cluster."""

    url: Annotated[
        str,
        Flag("from", TEXT, "", "URL of a recommender, such as http://localhost:8942"),
    ]
    token_file: Annotated[
        Path | None,
        Flag("token-file", optional(PATH), "", "file with a bearer token for it"),
    ]
    ca_file: Annotated[
        Path | None,
        Flag("ca-file", optional(PATH), "", "file with the CAs that it is trusted by"),
    ]


@dataclass(frozen=True, slots=True)
class RecommendationsSettings:
    """All that listing recommendations can be told."""

    selection: Selection
    showing: Showing
    offline: Offline
    asking: Asking
    cluster: Cluster
    vpas: Annotated[tuple[str, ...], Rest("[VPA...]", "names of VPAs; without any all are shown")]
