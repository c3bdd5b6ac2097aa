"""Given files are watched without serving half of anything; made ones are used again."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PosixPath

import pytest

from app.admission.certificate_stores import CertificateFiles, CertificatePaths, made_in
from app.admission.certificates import issue, judge
from app.admission.core.rotation import CertificateSet, KeyRing
from app.model.errors import BadSetting
from tests.cases import cases

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ("localhost", "127.0.0.1")
ONE, TWO = (issue(NAMES, NOW, 90) for _ in range(2))
UPSTREAM = ("caCert.pem", "serverCert.pem", "serverKey.pem")
CERT_MANAGER = ("ca.crt", "tls.crt", "tls.key")


def put(folder: Path, certificates: CertificateSet, names: tuple[str, str, str] = UPSTREAM) -> None:
    """Write a set as plain files."""
    folder.mkdir(exist_ok=True)
    parts = (certificates.ca_pem, certificates.cert_pem, certificates.key_pem)
    for name, part in zip(names, parts, strict=True):
        (folder / name).write_text(part)


def mount(folder: Path, certificates: CertificateSet, version: str) -> None:
    """Write a set as the kubelet mounts a Secret: files link into a folder that is swapped."""
    put(folder / f"..{version}", certificates)
    link = folder / "..data"
    link.unlink(missing_ok=True)
    link.symlink_to(f"..{version}")
    for name in UPSTREAM:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def served(files: CertificateFiles) -> CertificateSet | None:
    """The set that a poll gives."""
    material = files.poll()
    return material.certificates if material else None


@pytest.mark.parametrize("names", [UPSTREAM, CERT_MANAGER], ids=["upstream", "cert-manager"])
def test_layouts(tmp_path: Path, names: tuple[str, str, str]) -> None:
    """Both layouts are read from the folder that the flags point into."""
    put(tmp_path, ONE, names)
    files = CertificateFiles(CertificatePaths.in_folder(tmp_path))
    assert served(files) == ONE
    assert files.read().ring == KeyRing(ONE)


def test_mounted_secret(tmp_path: Path) -> None:
    """A swapped mount is seen, as one change."""
    mount(tmp_path, ONE, "1")
    files = CertificateFiles(CertificatePaths.in_folder(tmp_path))
    assert served(files) == ONE
    mount(tmp_path, TWO, "2")
    assert files.poll() == files.poll()
    material = files.poll()
    assert material is not None
    assert (material.version, material.certificates) == (2, TWO)


@cases(
    "spoil",
    {
        "key gone": (lambda f: (f / "serverKey.pem").unlink(),),
        "certificate gone": (lambda f: (f / "serverCert.pem").unlink(),),
        "other key": (lambda f: (f / "serverKey.pem").write_text(TWO.key_pem),),
        "not text": (lambda f: (f / "serverCert.pem").write_bytes(b"\xff\x00"),),
        "CA file emptied": (lambda f: (f / "caCert.pem").write_text(""),),
        "CA file gone": (lambda f: (f / "caCert.pem").unlink(),),
    },
)
def test_old_set_is_kept(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Whatever happens to the files, the last whole set goes on."""
    put(tmp_path, ONE)
    files = CertificateFiles(CertificatePaths.in_folder(tmp_path))
    assert served(files) == ONE
    spoil(tmp_path)
    assert served(files) == ONE


def test_half_written_set(tmp_path: Path) -> None:
    """A new set that arrives file by file counts when it is whole."""
    put(tmp_path, ONE)
    files = CertificateFiles(CertificatePaths.in_folder(tmp_path))
    assert served(files) == ONE
    (tmp_path / "serverCert.pem").write_text(TWO.cert_pem)
    assert served(files) == ONE
    (tmp_path / "serverKey.pem").write_text(TWO.key_pem)
    (tmp_path / "caCert.pem").write_text(TWO.ca_pem)
    assert served(files) == TWO


class RestlessPath(PosixPath):
    """A file whose folder is swapped as soon as it has been read."""

    def read_bytes(self) -> bytes:
        """Read, and be replaced together with its neighbours."""
        found = super().read_bytes()
        put(Path(self.parent), TWO)
        return found


def test_swap_during_a_reading(tmp_path: Path) -> None:
    """A CA of one set and a pair of another are not taken for a set, however they fit."""
    put(tmp_path, ONE)
    given = CertificatePaths.in_folder(tmp_path)
    files = CertificateFiles(replace(given, ca=RestlessPath(given.ca)))
    assert files.poll() is None
    assert served(files) == TWO


def test_nothing_there(tmp_path: Path) -> None:
    """Before the first whole set there is none."""
    files = CertificateFiles(CertificatePaths.in_folder(tmp_path / "absent"))
    assert files.poll() is None
    assert files.read().ring == KeyRing()


def test_given_files_stay(tmp_path: Path) -> None:
    """Given files are never written."""
    files = CertificateFiles(CertificatePaths.in_folder(tmp_path))
    with pytest.raises(BadSetting, match="never changed"):
        files.write(files.read(), KeyRing(ONE))


def test_made_files(tmp_path: Path) -> None:
    """A made set is good for its names, and nobody else may read the key."""
    paths = made_in(tmp_path / "certs", NAMES, NOW, 90)
    found = served(CertificateFiles(paths))
    assert found is not None
    assert judge(found, NAMES).trouble == ""
    assert judge(found, NAMES).missing_names == ()
    assert stat.S_IMODE(paths.key.stat().st_mode) == 0o600
    assert sorted(path.name for path in paths.key.parent.iterdir()) == sorted(UPSTREAM)


@cases(
    "spoil names now same",
    {
        "young": (None, NAMES, NOW + timedelta(days=59), True),
        "two thirds gone": (None, NAMES, NOW + timedelta(days=60), False),
        "fewer names": (None, ("localhost",), NOW, True),
        "another name": (None, ("elsewhere",), NOW, False),
        "from the future": (None, NAMES, NOW - timedelta(days=1), False),
        "key cut off": ("serverKey.pem", NAMES, NOW, False),
        "certificate cut off": ("serverCert.pem", NAMES, NOW, False),
        "CA cut off": ("caCert.pem", NAMES, NOW, False),
    },
)
def test_made_again(
    tmp_path: Path, spoil: str | None, names: tuple[str, ...], now: datetime, same: bool
) -> None:
    """A good set is used again; any other is made anew."""
    paths = made_in(tmp_path, NAMES, NOW, 90)
    if spoil:
        (tmp_path / spoil).write_text("-----BEGIN")
    before = paths.cert.read_text()
    assert made_in(tmp_path, names, now, 90) == paths
    assert (paths.cert.read_text() == before) == same
    assert served(CertificateFiles(paths)) is not None


def test_unwritable_folder(tmp_path: Path) -> None:
    """A folder that cannot be written is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSetting, match="file/certs: certificates cannot be written"):
        made_in(tmp_path / "file" / "certs", NAMES, NOW, 90)


def test_foreign_ca(tmp_path: Path) -> None:
    """A new CA for the same pair is a change too: the API server must hear of it."""
    put(tmp_path, ONE)
    files = CertificateFiles(CertificatePaths.in_folder(tmp_path))
    assert served(files) == ONE
    wider = ONE.ca_pem + TWO.ca_pem
    (tmp_path / "caCert.pem").write_text(wider)
    assert served(files) == replace(ONE, ca_pem=wider)
