"""Makes certificates in a folder."""

from __future__ import annotations

from app.admission.certificate_stores import made_in, ready_in
from app.admission.certificates import serving_names
from app.commands.flags import CertsSettings
from app.model.times import rfc3339
from app.output import Report, Text, line
from app.ports import Clock


def certs_report(settings: CertsSettings, clock: Clock) -> Report:
    """Return where CA, certificate and key lie; they are made unless good ones lie there."""
    making = settings.making
    names = serving_names(making.service, making.namespace)
    kept = ready_in(making.folder, names, clock.now())
    made = made_in(making.folder, names, clock.now(), making.days)
    until = ready_in(making.folder, names, clock.now())
    paths = list(map(str, (made.ca, made.cert, made.key)))
    items = [{"path": path, "made": kept is None} for path in paths]
    notes = []
    if until is not None:
        items = [item | {"validUntil": rfc3339(until)} for item in items]
        done = "kept the certificate" if kept is not None else "made a CA and a certificate"
        notes = [f"{done} for {names[2]}, valid until {rfc3339(until)}"]
    return Report(Text(list(map(line, paths))), items, paths, notes)
