"""One process that answers reviews.

Strategy: a snapshot of its own, from the cluster or from files, and one HTTPS server. Its keeper
sends certificates and the wish to stop; it reports every second how it stands.
"""

from __future__ import annotations

import gc
import socket
import threading
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from time import monotonic

from prometheus_client import CollectorRegistry

from app.admission import reviews
from app.admission.answers import FAILED_OPEN
from app.admission.app import webhook
from app.admission.crew import REPORT_SECONDS, Order, Report
from app.admission.flags import AdmissionSettings
from app.admission.knowledge import Knowledge, LiveKnowledge, RecordedKnowledge, review_rules
from app.admission.metrics import AdmissionMetrics
from app.admission.reviews import Reviewer
from app.flags.shared import ClusterAccess
from app.kube.client import KubeCluster, connect
from app.model.certificates import CertificateSet
from app.runtime.allocator import give_back
from app.runtime.lifecycle import ignore_stop_signals
from app.runtime.live import LiveRuntime
from app.runtime.logs import start_logging, teller
from app.runtime.server import Server
from app.runtime.tls import ServerTls

_LOADING_SECONDS = 120.0  # for what garbage collection stays off at most


def knowledge(settings: AdmissionSettings) -> Knowledge:
    """Return what a worker answers from."""
    if settings.offline.objects:
        return RecordedKnowledge(settings.offline.objects)
    return LiveKnowledge(partial(connected, settings.cluster), settings.scope, LiveRuntime())


def connected(reach: ClusterAccess) -> KubeCluster:
    """Return a connection to the API server with a budget of requests of its own."""
    return connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)


def work(
    settings: AdmissionSettings,
    listener: socket.socket,
    certificates: CertificateSet,
    keeper: Connection,
) -> None:
    """Serve until the keeper says so, or is gone."""
    ignore_stop_signals()  # the keeper tells when
    start_logging(settings.logging.verbosity)
    give_back()
    gc.disable()  # what is read now stays; `_tidy` turns it on again
    known = knowledge(settings)
    metrics = AdmissionMetrics(CollectorRegistry(), FAILED_OPEN)
    tell = teller(reviews.log.name)
    reviewer = Reviewer(known.sources, review_rules(settings.decisions), metrics, tell)
    given = settings.certificates
    tls = ServerTls(
        certificates.cert_pem,
        certificates.key_pem,
        min_version=given.min_version,
        ciphers=",".join(given.ciphers),
    )
    app = webhook(reviewer)
    server = Server(app, listener, tls.context, at_once=app.at_once)
    threading.Thread(target=_report, args=(keeper, known, metrics), daemon=True).start()
    serving = server.start("reviews")  # in the main thread it would listen to signals
    _obey(keeper, tls, server)
    server.stop()
    serving.join()


def _obey(keeper: Connection, tls: ServerTls, server: Server) -> None:
    """Take certificates and orders, until told to stop or the keeper is gone."""
    while True:
        try:
            message = keeper.recv()
        except (EOFError, OSError):
            return
        match message:
            case Order.STOP:
                return
            case Order.DRAIN:
                server.drain()
            case CertificateSet():
                tls.swap(message.cert_pem, message.key_pem)


def _report(keeper: Connection, known: Knowledge, metrics: AdmissionMetrics) -> None:
    is_tidied = False
    pause = threading.Event()
    until = monotonic() + _LOADING_SECONDS
    while True:
        with suppress(OSError, ValueError):  # no space left for numbers is no reason to stop
            metrics.settle()
        problem = known.problem()
        if not problem and not is_tidied:
            _tidy()
            is_tidied = True
        elif not is_tidied and monotonic() > until:
            gc.enable()
        try:
            keeper.send(Report(problem, known.watch_ages()))
        except (OSError, ValueError):
            return
        pause.wait(REPORT_SECONDS if is_tidied else REPORT_SECONDS / 10)


def _tidy() -> None:
    """Leave the snapshot out of garbage collection, which would stop reviews for long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()
