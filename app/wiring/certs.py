"""Makes certificates in a folder."""

from __future__ import annotations

from pathlib import Path

from app.adapters.certificate_files import made_in
from app.adapters.certificates import serving_names
from app.settings.commands import CertsSettings
from app.wiring.clock import SystemClock


def made_paths(settings: CertsSettings) -> tuple[Path, ...]:
    """Return where CA, certificate and key lie; they are made unless good ones lie there."""
    making = settings.making
    names = serving_names(making.service, making.namespace)
    paths = made_in(making.folder, names, SystemClock().now(), making.days)
    return (paths.ca, paths.cert, paths.key)
