"""Whose credentials are to be found in a cloud."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.recommender.source_flags import CloudProvider


@dataclass(frozen=True, slots=True)
class CloudIdentity:
    """Whose credentials are to be found, and where the tools of a cloud would look for them."""

    provider: CloudProvider = CloudProvider.NONE
    aws_region: str = ""
    azure_scope: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def told(self, variable: str, otherwise: str = "") -> str:
        """Return what a variable of the environment says."""
        return self.environ.get(variable) or otherwise
