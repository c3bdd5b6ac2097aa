"""A rotation in a cluster: nobody is ever served what is not trusted, and it always ends."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.admission.certificate_stores import CertificateFiles, CertificatePaths, SecretStore
from app.admission.certificates import issue
from app.admission.certification import Rotator
from app.admission.core.rotation import (
    CertificateSet,
    Issuing,
    KeyRing,
    RotationRules,
    fingerprints,
    joined,
)
from app.kube.manifests.documents import Registration, webhook_configurations
from app.model.errors import ClusterError
from app.ports import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Ref
from tests.admission.replica import AUTHORITY, CONFIGURATION, RULES, Replica
from tests.kube.issuing import issued
from tests.stepped_clock import START

CALLED = "vpa-webhook.kube-system.svc"
DAY_SECONDS = 86_400.0


@pytest.fixture
def scene() -> Replica:
    """An empty cluster."""
    return Replica()


@pytest.fixture
def installed() -> Replica:
    """A cluster in which all is well."""
    scene = Replica()
    scene.rotate_for(10)
    return scene


def test_first_installation(scene: Replica) -> None:
    """From nothing: one generation, and both configurations trust it."""
    assert scene.rotate() == 1.0
    assert scene.registrar.bundles() == (None, None)
    assert scene.rotate(1) == 5.0
    assert scene.registrar.bundles() == (scene.current().ca_pem,) * 2
    scene.rotate_for(3600)
    assert scene.ring() == KeyRing(scene.current())
    assert scene.events() == []


def test_registration_soon_after_readiness(scene: Replica) -> None:
    """While only readiness is missing, the next look is a second away."""
    scene.reason = "caches are not synced"
    assert [scene.rotate(), scene.rotate(1), scene.rotate(1)] == [1.0, 1.0, 1.0]
    scene.reason = ""
    assert scene.rotate(1) == 5.0
    assert scene.registrar.bundles() == (scene.current().ca_pem,) * 2


def test_rotation(installed: Replica, caplog: pytest.LogCaptureFixture) -> None:
    """New CA beside the old one, then the new certificate, then the old CA leaves."""
    caplog.set_level("INFO")
    scene, old = installed, installed.current()
    scene.clock.wait(65 * DAY_SECONDS)
    scene.rotate()
    new = scene.ring().upcoming
    assert new is not None
    assert scene.current() == old
    assert scene.registrar.bundles() == (old.ca_pem,) * 2
    scene.rotate(1)
    both = old.ca_pem + new.ca_pem
    assert scene.registrar.bundles() == (both, both)
    scene.rotate_for(20)
    assert scene.ring() == KeyRing(old, new)
    scene.rotate_for(20)
    assert scene.ring() == KeyRing(new, None, (old.ca_pem,))
    scene.rotate_for(3500)
    assert scene.registrar.bundles() == (both, both)
    scene.rotate_for(130)
    assert scene.registrar.bundles() == (new.ca_pem,) * 2
    assert scene.ring() == KeyRing(new)
    assert scene.events() == []
    messages = [record.message for record in caplog.records]
    assert "New client CA found, reloading and patching webhook" in messages
    assert "Successfully patched webhook with new client CA" in messages
    assert "PRIVATE KEY" not in caplog.text


def test_takeover_from_upstream(scene: Replica) -> None:
    """Upstream's Secret and configuration are taken over; its long-lived pair stays in use."""
    ca = issued("vpa_webhook_ca", START - timedelta(days=100))
    pair = issued(CALLED, START - timedelta(days=100), by=ca, names=(CALLED,))
    theirs = CertificateSet(ca.pem, pair.pem, pair.key_pem())
    scene.store.write(scene.store.read(), KeyRing(theirs))
    upstream = webhook_configurations(Registration(), ca.pem)[0][1]
    scene.cluster.create(Ref(MUTATING_WEBHOOKS), upstream)
    scene.rotate_for(2 * 3600)
    assert scene.ring() == KeyRing(theirs)
    assert scene.registrar.bundles() == (joined([ca.pem]),) * 2


@pytest.mark.parametrize("registered", [False, True], ids=["nobody trusts", "its CA is trusted"])
def test_lost_secret(registered: bool) -> None:
    """A Secret that vanishes is made anew, and replicas that serve from memory stay trusted."""
    scene = Replica()
    scene.rotate_for(10)
    old = scene.current()
    scene.cluster.delete(Ref(SECRETS, "kube-system", "vpa-tls-certs"))
    if not registered:
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            scene.cluster.delete(Ref(resource, "", CONFIGURATION))
    scene.rotate_for(20)
    assert (scene.ring().current is None) == registered
    if registered:
        assert fingerprints(old.ca_pem) <= fingerprints(scene.registrar.bundles()[0] or "")
    scene.rotate_for(2 * 3600)
    assert scene.current() != old
    assert scene.registrar.bundles() == (scene.current().ca_pem,) * 2


def trust(scene: Replica, bundle: str, which: slice = slice(1)) -> None:
    """Let somebody else change what the configuration for pods trusts, or also the other."""
    for resource, fresh in webhook_configurations(Registration(), bundle)[which]:
        live = scene.configuration(resource)
        changed = {**live, **fresh} | {"metadata": live["metadata"]}
        scene.cluster.replace(Ref(resource, "", CONFIGURATION), changed)


def test_drift(installed: Replica) -> None:
    """A bundle that somebody changes is put back at the next look, and told."""
    before = installed.registrar.bundles()
    stranger = issue(("x",), START, 1).ca_pem
    for at, bundle in enumerate(("", stranger, installed.current().ca_pem + stranger), start=1):
        trust(installed, bundle)
        installed.rotate(1)
        assert installed.registrar.bundles() == before
        assert len(installed.events()) == at
    assert installed.ring() == KeyRing(installed.current())


def test_drift_between_leaders(installed: Replica) -> None:
    """A new leader puts back the CA that still has to stay, and takes a stranger's out later."""
    old = installed.current().ca_pem
    installed.clock.wait(65 * DAY_SECONDS)
    installed.rotate_for(60)
    new = installed.current().ca_pem
    assert installed.ring().retiring == (old,)
    installed.rotator = installed.new_rotator(installed.store)
    installed.registrar.forget()
    stranger = issue(("x",), START, 1).ca_pem
    trust(installed, stranger + new, slice(2))
    installed.rotate_for(10)
    assert fingerprints(old + new) <= fingerprints(installed.registrar.bundles()[0] or "")
    installed.rotate_for(3700)
    assert installed.registrar.bundles() == (new, new)


def test_follower(scene: Replica) -> None:
    """Who does not lead writes nothing, and forgets what it knew."""
    scene.leads = False
    assert scene.rotate() == 1.0
    assert scene.ring() == KeyRing()
    scene.leads = True
    scene.rotate_for(10)
    scene.leads = False
    scene.rotate()
    assert scene.registrar.bundle == ""


def test_slept_through_its_term(installed: Replica) -> None:
    """A leader that wakes up after its term does not finish what it began."""
    installed.clock.wait(65 * DAY_SECONDS)
    answers = iter([True, False])
    awake = Rotator(
        installed.store,
        AUTHORITY,
        installed.registrar,
        RULES,
        lambda: next(answers),
    )
    awake.tick(installed.clock.now())
    assert installed.ring() == KeyRing(installed.current())


def test_somebody_else_wrote_the_secret(installed: Replica) -> None:
    """A change between reading and writing wins, and is planned from anew."""
    installed.clock.wait(65 * DAY_SECONDS)
    theirs = issue((CALLED,), installed.clock.now(), 90)
    other = SecretStore(installed.cluster, "kube-system", "vpa-tls-certs")
    installed.cluster.before_write = lambda: other.write(other.read(), KeyRing(theirs))
    with pytest.raises(ClusterError):
        installed.rotate()
    installed.rotate_for(2 * 3600)
    assert installed.ring() == KeyRing(theirs)
    assert installed.registrar.bundles() == (theirs.ca_pem,) * 2


def test_given_files(scene: Replica, tmp_path: Path) -> None:
    """A CA that comes with new files is soon published beside the old one, which leaves later."""
    paths = CertificatePaths.in_folder(tmp_path)

    def put(made: CertificateSet) -> None:
        paths.ca.write_text(made.ca_pem)
        paths.cert.write_text(made.cert_pem)
        paths.key.write_text(made.key_pem)

    one, two = (issue((CALLED,), START, 90) for _ in range(2))
    rules = RotationRules(issuing=Issuing.NEVER, grace_seconds=3600)
    scene.rotator = scene.new_rotator(CertificateFiles(paths), rules=rules)
    assert scene.rotate() == 1.0
    assert scene.registrar.bundles() == (None, None)
    put(one)
    scene.rotate(15)
    assert scene.registrar.bundles() == (one.ca_pem,) * 2
    scene.rotate_for(30)
    put(two)
    scene.rotate_for(2)
    assert scene.registrar.bundles() == (one.ca_pem + two.ca_pem,) * 2
    scene.rotate_for(3700)
    assert scene.registrar.bundles() == (two.ca_pem,) * 2
    put(CertificateSet(one.ca_pem, two.cert_pem, two.key_pem))
    scene.rotate_for(100)
    assert scene.registrar.bundles() == (two.ca_pem,) * 2
    assert scene.ring() == KeyRing()


def test_files_that_stay_the_same(scene: Replica, tmp_path: Path) -> None:
    """Looking at files often does not mean asking the API server often."""
    paths = CertificatePaths.in_folder(tmp_path)
    made = issue((CALLED,), START, 90)
    paths.ca.write_text(made.ca_pem)
    paths.cert.write_text(made.cert_pem)
    paths.key.write_text(made.key_pem)
    rules = RotationRules(issuing=Issuing.NEVER)
    scene.rotator = scene.new_rotator(CertificateFiles(paths), rules=rules)
    scene.rotate_for(11)
    trust(scene, "")
    scene.rotate_for(3)
    assert scene.registrar.bundles()[0] == ""
    scene.rotate_for(2)
    assert scene.registrar.bundles() == (made.ca_pem,) * 2


def test_registered_by_others(scene: Replica) -> None:
    """Whose CA is told by somebody else makes one pair and keeps it."""
    rules = RotationRules(issuing=Issuing.ONCE)
    scene.rotator = scene.new_rotator(scene.store, rules=rules, registers=False)
    scene.rotate_for(10)
    made = scene.current()
    scene.clock.wait(80 * DAY_SECONDS)
    scene.rotate_for(60)
    assert scene.ring() == KeyRing(made)
    assert scene.registrar.bundles() == (None, None)


def served_is_trusted(scene: Replica, served: list[tuple[datetime, str]]) -> bool:
    """Say whether the CA of every pair that a slow replica may serve is trusted everywhere."""
    recent = scene.clock.now() - timedelta(seconds=600)
    before = [ca for at, ca in served if at <= recent]
    lagging = set(before[-1:] + [ca for at, ca in served if at > recent])
    return all(
        fingerprints(ca) <= fingerprints(bundle)
        for ca in lagging
        for bundle in scene.registrar.bundles()
        if bundle is not None
    )


TICKS = st.tuples(
    st.sampled_from([1.0, 15.0, 31.0, 3601.0, 30 * DAY_SECONDS]),
    st.integers(0, 12),  # the call of this tick that fails, if it comes to so many
    st.booleans(),  # whether another replica leads from here on
)


@settings(max_examples=40, deadline=None)
@given(st.lists(TICKS, max_size=30))
def test_any_failure(ticks: list[tuple[float, int, bool]]) -> None:
    """API calls may fail anywhere and leaders may change: what is served stays trusted."""
    scene = Replica()
    scene.rotate_for(10)
    served = [(scene.clock.now(), scene.current().ca_pem)]

    def check() -> None:
        scene.cluster.fail_after(None)
        if scene.current().ca_pem != served[-1][1]:
            served.append((scene.clock.now(), scene.current().ca_pem))
        assert served_is_trusted(scene, served)

    for seconds, failing_call, handed_over in ticks:
        if handed_over:
            scene.rotator = scene.new_rotator(scene.store)
            scene.registrar.forget()
        scene.cluster.fail_after(failing_call)
        with suppress(ClusterError):
            scene.rotate(seconds)
        check()
    for _ in range(12):
        scene.rotate(3601.0)
        check()
        current = scene.current()
        if scene.ring() == KeyRing(current) and scene.registrar.bundles() == (current.ca_pem,) * 2:
            return
    pytest.fail("the rotation does not end")
