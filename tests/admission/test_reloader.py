"""A new certificate is served once it is trusted, and not for ever later."""

from __future__ import annotations

import pytest

from app.admission.certification import Certification, Reloader
from app.admission.core.rotation import CertificateSet, Material
from app.model.errors import BadObject, Unavailable
from tests.stepped_clock import SteppedClock

ONE, TWO, THREE = (Material(n, CertificateSet(f"ca{n}", f"cert{n}", f"key{n}")) for n in (1, 2, 3))


class Scene:
    """A source, a listener, and whom the API server trusts."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.offered: Material | None = None
        self.trusted: set[str] = set()
        self.away = False
        self.listening: list[str] = []
        certification = Certification(lambda: self.offered, self.trusts, lambda _: "")
        self.reloader = Reloader(certification, self.serve)

    def serve(self, certificates: CertificateSet) -> None:
        """Take a set into use, unless it is odd."""
        if certificates.cert_pem == "odd":
            raise BadObject("", "no usable pair")
        self.listening.append(certificates.cert_pem)

    def trusts(self, certificates: CertificateSet) -> bool:
        """Ask the API server."""
        if self.away:
            raise Unavailable("connection refused")
        return certificates.ca_pem in self.trusted

    def tick(self, offered: Material | None, after_seconds: float = 0.0) -> float:
        """Let the source offer something, and the reloader look."""
        self.clock.wait(after_seconds)
        self.offered = offered
        return self.reloader.tick(self.clock.now())


def test_first_set() -> None:
    """The first set is served at once: nothing else could be."""
    scene = Scene()
    assert scene.tick(None) == 5.0
    assert scene.reloader.served is None
    assert scene.tick(ONE) == 5.0
    assert scene.tick(ONE) == 5.0
    assert scene.listening == ["cert1"]
    assert scene.reloader.served == ONE


def test_trusted_set() -> None:
    """A later set waits until the API server trusts it."""
    scene = Scene()
    scene.tick(ONE)
    assert scene.tick(TWO) == 1.0
    assert scene.tick(TWO, 119) == 1.0
    scene.trusted = {"ca2"}
    assert scene.tick(TWO) == 5.0
    assert scene.listening == ["cert1", "cert2"]


@pytest.mark.parametrize("away", [False, True], ids=["not trusted", "API server away"])
def test_patience(away: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Trust that does not come is not waited for without end; each set has its own wait."""
    scene = Scene()
    scene.away = away
    scene.tick(ONE)
    scene.tick(TWO)
    scene.tick(THREE, 119)
    scene.tick(THREE, 119)
    assert scene.listening == ["cert1"]
    scene.tick(THREE, 1)
    assert scene.listening == ["cert1", "cert3"]
    assert [r.message for r in caplog.records] == [
        "certificate is served although it is not trusted"
    ]


def test_unusable_set() -> None:
    """A set that the listener refuses leaves the old one in use."""
    scene = Scene()
    scene.tick(ONE)
    scene.trusted = {"ca2"}
    with pytest.raises(BadObject):
        scene.tick(Material(2, CertificateSet("ca2", "odd", "")))
    assert scene.reloader.served == ONE
    scene.tick(Material(3, CertificateSet("ca2", "cert3", "")))
    assert scene.listening == ["cert1", "cert3"]


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    """A find is told once, in the words that scripts look for."""
    caplog.set_level("INFO")
    scene = Scene()
    scene.tick(ONE)
    scene.tick(TWO)
    scene.tick(TWO)
    scene.trusted = {"ca2"}
    scene.tick(TWO)
    assert [(r.message, getattr(r, "version", 0)) for r in caplog.records] == [
        ("certificate is served", 1),
        ("New certificate found, reloading", 2),
        ("certificate is served", 2),
    ]
