"""Keep the webhook configurations as they should be.

Strategy: read, compare, write with the version that was read; never delete and create, so there
is no moment without a webhook. The question whether we still lead stands between reading and
writing: a leader that slept through its term finds either a changed version or a "no".
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from app.admission.core.registration import align, drift_event
from app.admission.core.rotation import CertificateSet, fingerprints, joined
from app.admission.flags import RegistrationFlags
from app.flags.shared import Scope
from app.kube.manifests.documents import Registration, webhook_url
from app.model.errors import ClusterError, Conflict, NotFound
from app.ports import EVENTS, MUTATING_WEBHOOKS, Cluster, Json, Ref, Resource

log = logging.getLogger("admission.registration")

Documents = Callable[[str], Sequence[tuple[Resource, Json]]]  # by the CA bundle

_ATTEMPTS = 5  # when another client writes at the same time
_REPORTER = "vpa-admission-controller"
_GONE = ("the whole object",)


def registration_of(flags: RegistrationFlags, scope: Scope, namespace: str) -> Registration:
    """Return how API servers find a webhook that lives in a namespace.

    Raises:
        BadSetting: they would not accept its URL.
    """
    if flags.labels.problem:
        log.error("webhook labels not used", extra={"problem": flags.labels.problem})
    return Registration(
        name=flags.name,
        service=flags.service,
        namespace=namespace,
        url=webhook_url(flags.address, flags.port) if flags.by_url else "",
        fail_closed=flags.fails_closed,
        timeout_seconds=flags.timeout_seconds,
        labels=dict(flags.labels.labels),
        ignored_namespaces=scope.ignored_namespaces,
        selected_namespace=scope.namespace,
    )


class Registrar:
    """Creates, compares and puts back; `bundle` is what every webhook shall trust."""

    def __init__(
        self,
        cluster: Cluster,
        documents: Documents,
        leads: Callable[[], bool],
        ready: Callable[[], str],
    ) -> None:
        self._cluster = cluster
        self._documents = documents
        self._leads = leads
        self._ready = ready  # a reason not to send API servers here for the first time
        self._confirmed: dict[str, Json] = {}  # by kind: what was last seen to be in place
        self._not_kept: dict[str, frozenset[str]] = {}  # by kind: what the API server drops
        self._reason = ""  # why the last first-time registration was put off
        self.repairs = 0  # how often pods may have been created without us until we saw it
        self.bundle = ""

    @property
    def waits(self) -> bool:
        """Whether something is to be created as soon as we are ready."""
        return bool(self._reason)

    def forget(self) -> None:
        """Start again: another replica may have written meanwhile."""
        self.bundle = ""
        self._confirmed.clear()

    def bundles(self) -> tuple[str | None, ...]:
        """Return the CAs that each configuration trusts; None where no reviews are sent to us."""
        return tuple(
            _bundle(self._live(resource, document), document)
            for resource, document in self._documents("")
        )

    def trusts(self, certificates: CertificateSet) -> bool:
        """Say whether everybody who is sent to us accepts this certificate."""
        return _all_carry(self.bundles(), certificates)

    def trouble(self, certificates: CertificateSet) -> str:
        """Say why API servers do not reach us with this certificate; empty when they do."""
        try:
            bundles = self.bundles()
        except ClusterError as err:
            return str(err)
        if None in bundles:
            return "a webhook configuration is missing"
        return "" if _all_carry(bundles, certificates) else "a webhook configuration lacks our CA"

    def tick(self, now: datetime) -> tuple[str, ...]:
        """Bring all configurations in line; return the kinds that were written.

        Raises:
            ClusterError: one could not be read or written; the others were tried all the same.
        """
        former, self._reason = self._reason, ""
        if not self.bundle:
            return ()  # a webhook that trusts nothing only slows the cluster down
        written: list[str] = []
        failures: list[ClusterError] = []
        for resource, wanted in self._documents(self.bundle):
            try:
                written += [resource.kind] if self._bring(resource, wanted, now) else []
            except ClusterError as err:
                failures.append(err)
        if self._reason != former:
            text = "registration waits" if self._reason else "registration need not wait"
            log.info(text, extra={"reason": self._reason})
        if failures:
            raise failures[0]
        return tuple(written)

    def _bring(self, resource: Resource, wanted: Json, now: datetime) -> bool:
        """Bring one configuration in line; say whether it was written."""
        name = wanted["metadata"]["name"]
        for _ in range(_ATTEMPTS):
            live = self._live(resource, wanted)
            body, differences = self._aligned(resource.kind, live, wanted)
            if not differences:
                self._confirmed[resource.kind] = wanted
                return False
            if not self._leads() or (live is None and self._must_wait()):
                return False
            try:
                written = self._write(resource, name, live, body)
            except (Conflict, NotFound):
                continue
            self._note(written, wanted, differences, now)
            return True
        raise Conflict(f"{resource.kind} {name}: others keep changing it")

    def _aligned(self, kind: str, live: Json | None, wanted: Json) -> tuple[Json, tuple[str, ...]]:
        if live is None:
            return wanted, _GONE
        alignment = align(live, wanted)
        ignored = self._not_kept.get(kind, frozenset())
        return alignment.body, tuple(d for d in alignment.differences if d not in ignored)

    def _must_wait(self) -> bool:
        self._reason = self._reason or self._ready()
        return self.waits

    def _live(self, resource: Resource, document: Json) -> Json | None:
        try:
            return self._cluster.get(Ref(resource, "", document["metadata"]["name"]))
        except NotFound:
            return None

    def _write(self, resource: Resource, name: str, live: Json | None, body: Json) -> Json:
        if live is None:
            return self._cluster.create(Ref(resource), body)
        return self._cluster.replace(Ref(resource, "", name), body)

    def _note(
        self, written: Json, wanted: Json, differences: tuple[str, ...], now: datetime
    ) -> None:
        kind = wanted["kind"]
        drifted = self._confirmed.get(kind) == wanted
        log.log(
            logging.WARNING if drifted else logging.INFO,
            "webhook configuration reverted" if drifted else "webhook configuration written",
            extra={"kind": kind, "differences": list(differences)},
        )
        self._confirmed[kind] = wanted
        lost = frozenset(align(written, wanted).differences)
        if lost - self._not_kept.get(kind, frozenset()):
            # An old API server does not know the field; writing it again and again is no help.
            log.warning(
                "API server does not keep fields", extra={"kind": kind, "fields": sorted(lost)}
            )
        self._not_kept[kind] = lost
        if drifted:
            self.repairs += kind == MUTATING_WEBHOOKS.kind
            self._report(drift_event(written, differences, now, _REPORTER))

    def _report(self, event: Json) -> None:
        try:
            self._cluster.create(Ref(EVENTS, event["metadata"]["namespace"]), event)
        except ClusterError as err:
            log.warning("event was not written", extra={"error": str(err)})


def _bundle(live: Json | None, document: Json) -> str | None:
    """Return what a live configuration trusts in our webhooks; None when it has none of ours."""
    ours = {webhook["name"] for webhook in document["webhooks"]}
    clients = [
        webhook.get("clientConfig") or {}
        for webhook in (live or {}).get("webhooks") or ()
        if webhook.get("name") in ours
    ]
    return joined(_decoded(client.get("caBundle")) for client in clients) if clients else None


def _all_carry(bundles: Sequence[str | None], certificates: CertificateSet) -> bool:
    wanted = fingerprints(certificates.ca_pem)
    return all(bundle is None or wanted <= fingerprints(bundle) for bundle in bundles)


def _decoded(value: object) -> str:
    try:
        return base64.b64decode(str(value or ""), validate=True).decode("ascii", "replace")
    except binascii.Error:
        return ""
