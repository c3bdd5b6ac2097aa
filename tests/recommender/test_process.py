"""The recommender's process knows its cluster, tells how it is, and says what it cannot do."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.flags.shared import ClusterAccess
from app.kube.client import connect
from app.kube.manifests import documents
from app.model.errors import BadSetting
from app.ports import EVENTS, LEASES, PODS, VPAS, WORKLOADS, Cluster, Json, Ref
from app.recommender.core.rules import Extras
from app.recommender.flags import RecommenderSettings
from app.recommender.process import Process
from app.recommender.rules import round_rules
from app.recommender.upstream.variant import UPSTREAM, as_upstream
from app.recommender.variants import OURS
from app.run.simulated import SharedCluster, SimulatedRuntime
from app.runtime.live import Connection, LiveRuntime
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from tests.flows.test_admission_process import free_port
from tests.kube.api_server import serving
from tests.kube.connecting import kubeconfig, write
from tests.waiting import eventually


def settings(*flags: str) -> RecommenderSettings:
    """Read flags."""
    return parse(RecommenderSettings, flags, {})


def test_rounds_are_as_the_flags_say() -> None:
    """Names, times and namespaces arrive where they count."""
    rules = round_rules(
        settings("--recommender-interval=30s", "--vpa-object-namespace=a", "--parity=upstream")
    )

    assert (rules.interval_seconds, rules.namespace) == (30.0, "a")
    assert rules.variant is UPSTREAM
    assert rules.model == as_upstream(rules.model)


def test_extras() -> None:
    """What is off is on when it is named, and only that can be named."""
    rules = round_rules(settings("--extras=interpolate,seed-selectors"))
    assert rules.variant is OURS
    assert rules.model.extras == Extras(interpolate=True, seed_selectors=True)

    with pytest.raises(BadSetting, match='no difference is called "spec_selector"'):
        settings("--extras=spec_selector")


def test_it_becomes_ready(tmp_path: Path) -> None:
    """Until everything is read it says what is not, then how old that is; it ends when told to."""
    with serving(VPAS, PODS, EVENTS, LEASES, *WORKLOADS) as server:
        server.fail("/pods", 403, times=3)
        path, port = write(tmp_path / "config", kubeconfig(server.url)), free_port()
        process = Process(
            settings(f"--kubeconfig={path}", f"--address=127.0.0.1:{port}"),
            LiveRuntime(),
            PodPreviewer,
        )
        process.start()
        try:
            url = f"http://127.0.0.1:{port}"
            assert eventually(lambda: "pods are not read yet: " in httpx.get(f"{url}/readyz").text)
            assert eventually(lambda: httpx.get(f"{url}/readyz").status_code == 200)
            assert httpx.get(f"{url}/health-check").text == "OK"
            told = httpx.get(f"{url}/metrics").text
            for name in ("vpa_recommender_vpa_objects_count", "plumbline_build_info{"):
                assert name in told
            assert 'plumbline_watch_last_event_age_seconds{resource="pods"}' in told
        finally:
            process.stop()


def test_an_elected_process_hands_over(tmp_path: Path) -> None:
    """The Lease is taken, and let go of at the end, so that the next one need not wait."""
    with serving(VPAS, PODS, EVENTS, LEASES, *WORKLOADS) as server:
        path = write(tmp_path / "config", kubeconfig(server.url))
        flags = ("--leader-elect=true", f"--kubeconfig={path}", "--address=127.0.0.1:0")
        process = Process(settings(*flags), LiveRuntime(), PodPreviewer)
        cluster = connect(str(path), "", 50, 100)

        def holder() -> str:
            found = cluster.get(Ref(LEASES, "kube-system", "vpa-recommender-lease"))
            return str(found["spec"]["holderIdentity"])

        process.start()
        try:
            assert eventually(lambda: bool(cluster.list(LEASES).items and holder()))
        finally:
            process.stop()

        assert holder() == ""
        cluster.close()


class Timed(SharedCluster):
    """A connection that notes for how long calls about the Lease may go on."""

    def __init__(self, cluster: Cluster, noted: list[float], seconds: float = 0.0) -> None:
        super().__init__(cluster)
        self._whole, self._noted, self._seconds = cluster, noted, seconds
        self.get = self._get

    def within(self, seconds: float, /) -> Timed:
        """Return the same with less time."""
        return Timed(self._whole, self._noted, seconds)

    def _get(self, ref: Ref) -> Json:
        if ref.resource == LEASES:
            self._noted.append(self._seconds)
        return self._whole.get(ref)


class Hurried(SimulatedRuntime):
    """A place with one connection for all."""

    def __init__(self, sandbox: Sandbox, connection: Connection) -> None:
        super().__init__(sandbox)
        self._connection = connection

    def connect(self, _reach: ClusterAccess, /) -> Connection:
        """Return it."""
        return self._connection


def test_calls_for_the_lease_end_with_leadership() -> None:
    """A call that hangs is given up no later than a leader that cannot renew."""
    sandbox, noted = Sandbox(SteppedClock()), list[float]()
    assert sandbox.apply(*documents.objects("crd")) == []
    place = Hurried(sandbox, Timed(sandbox.cluster, noted))
    flags = ("--leader-elect=true", "--leader-elect-renew-deadline=4s", "--address=127.0.0.1:0")
    process = Process(settings(*flags), place, PodPreviewer)
    process.start()
    sandbox.advance(3)
    process.stop()

    assert set(noted) == {4.0}
