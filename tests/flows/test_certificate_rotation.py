"""A certificate rotates under load, and no request fails.

A real server answers on a real port while clients call it as API servers do: each asks the
cluster which CAs to trust, connects under the service's name, and verifies. Time in the cluster
is stepped: it passes only after every client has gone on to another call, as in real time.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import uvicorn

from app.admission.certificate_stores import SecretStore
from app.admission.certificates import Authority
from app.admission.certification import Certification, Reloader, Rotator
from app.admission.core.rotation import CertificateSet, Material, RotationRules
from app.admission.registrar import Registrar
from app.kube.manifests.documents import Registration, webhook_configurations
from app.runtime.election import Election, ElectionRules
from app.runtime.tls import ServerTls
from tests.cluster_in_memory import ClusterInMemory
from tests.stepped_clock import SteppedClock

SERVICE = "vpa-webhook.kube-system.svc"
CLIENTS = 3
PATIENCE_SECONDS = 60.0  # for a machine that is very busy
# Good by any real clock, and due after one stepped day.
DAYS = 20_000
START = datetime(2020, 1, 1, tzinfo=UTC)
RULES = RotationRules(renew_after=1 / DAYS, jitter=0.0)


class Replica:
    """One webhook process: a listener, and what keeps its certificate fresh."""

    def __init__(self, cluster: ClusterInMemory, clock: SteppedClock, name: str) -> None:
        self.tls: ServerTls | None = None
        election = Election(cluster, ElectionRules("kube-system", "vpa-webhook"), name, clock)
        store = SecretStore(cluster, "kube-system", "vpa-tls-certs")
        self.election = election
        self.registrar = Registrar(
            cluster,
            lambda bundle: webhook_configurations(Registration(), bundle),
            election.is_leading,
            lambda: "" if self.tls else "no certificate is loaded",
        )
        authority = Authority("vpa-webhook", "kube-system", "", DAYS)
        self.rotator = Rotator(store, authority, self.registrar, RULES, election.is_leading)
        self.reloader = Reloader(
            Certification(store.poll, self.registrar.trusts, self.registrar.trouble), self.serve
        )

    def serve(self, certificates: CertificateSet) -> None:
        """Take a set into use."""
        if self.tls is None:
            self.tls = ServerTls(certificates.cert_pem, certificates.key_pem)
        else:
            self.tls.swap(certificates.cert_pem, certificates.key_pem)


async def answer(
    scope: dict[str, Any],
    _receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer every request."""
    assert scope["type"] == "http"
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"{}"})


@contextmanager
def listening(tls: ServerTls) -> Iterator[int]:
    """Serve on a free port, as the program does."""
    config = uvicorn.Config(
        answer,
        ssl_context_factory=lambda _config, _default: tls.context,
        log_level="critical",
        lifespan="off",
        ws="none",
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)


class Load:
    """Clients that call until told to stop, and note every failure."""

    def __init__(self, port: int, trusted: Callable[[], str]) -> None:
        self._port = port
        self._trusted = trusted
        self._over = False
        self._calls = [0] * (CLIENTS + 1)
        self._called = threading.Condition()
        self.failures: list[str] = []
        self.seen: set[str] = set()  # serving certificates
        self._threads = [
            *(threading.Thread(target=self._keep_calling, args=(at,)) for at in range(CLIENTS)),
            threading.Thread(target=self._keep_open, args=(CLIENTS,)),
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def turn_over(self) -> None:
        """Return when every client has begun and ended a call since."""
        with self._called:
            goal = [count + 2 for count in self._calls]
            reached = self._called.wait_for(
                lambda: all(c >= g for c, g in zip(self._calls, goal, strict=True)),
                PATIENCE_SECONDS,
            )
        assert reached, self.failures

    def _keep_calling(self, at: int) -> None:
        """Make a new connection for each call, trusting what the cluster says just then."""
        while not self._over:
            self._try(at, lambda: self._connected(self._trusted()))

    def _keep_open(self, at: int) -> None:
        """Use one connection for all calls: it was trusted when it was made."""
        with self._connected(self._trusted()) as kept:
            while not self._over:
                self._try(at, lambda: kept, close=False)

    def _try(self, at: int, connect: Callable[[], ssl.SSLSocket], *, close: bool = True) -> None:
        try:
            connection = connect()
            try:
                self._call(connection)
            finally:
                if close:
                    connection.close()
        except (OSError, http.client.HTTPException) as err:
            self.failures.append(repr(err))
        with self._called:
            self._calls[at] += 1
            self._called.notify_all()

    def _connected(self, bundle: str) -> ssl.SSLSocket:
        context = ssl.create_default_context(cadata=bundle)
        plain = socket.create_connection(("127.0.0.1", self._port), PATIENCE_SECONDS)
        try:
            return context.wrap_socket(plain, server_hostname=SERVICE)
        except OSError:
            plain.close()
            raise

    def _call(self, connection: ssl.SSLSocket) -> None:
        self.seen.add(ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b""))
        connection.sendall(b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert json.loads(response.read()) == {}


def test_rotation_under_load() -> None:
    """Three rotations, two replicas of which the second one serves: not one call fails."""
    clock = SteppedClock(START)
    cluster = ClusterInMemory(clock.now)
    leader, serving = (Replica(cluster, clock, name) for name in ("one", "two"))
    versions: list[Material] = []

    def pass_time(seconds: float) -> None:
        clock.wait(seconds)
        for replica in (leader, serving):
            replica.election.step(clock.now())
            replica.rotator.tick(clock.now())
        for replica in (leader, serving):
            replica.reloader.tick(clock.now())
        if serving.reloader.served and serving.reloader.served not in versions:
            versions.append(serving.reloader.served)

    for _ in range(4):
        pass_time(2)
    assert serving.tls is not None
    with (
        listening(serving.tls) as port,
        Load(port, lambda: leader.registrar.bundles()[0] or "") as load,
    ):
        for _ in range(3):
            pass_time(86_400)
            for seconds in (1, 1, 31, 1, 3_601, 1):
                load.turn_over()
                pass_time(seconds)
        load.turn_over()
    assert load.failures == []
    assert len(versions) == 4
    assert len(load.seen) == 4
    assert leader.registrar.bundles() == (versions[-1].certificates.ca_pem,) * 2
