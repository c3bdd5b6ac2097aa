"""Makes certificates in a folder."""

from __future__ import annotations

from app.admission.certificate_stores import made_in
from app.admission.certificates import serving_names
from app.commands.flags import CertsSettings
from app.output import Report, Text, line
from app.ports import Clock


def certs_report(settings: CertsSettings, clock: Clock) -> Report:
    """Return where CA, certificate and key lie; they are made unless good ones lie there."""
    making = settings.making
    names = serving_names(making.service, making.namespace)
    made = made_in(making.folder, names, clock.now(), making.days)
    paths = list(map(str, (made.ca, made.cert, made.key)))
    return Report(Text(list(map(line, paths))), [{"path": path} for path in paths], paths)
