"""Processes that belong together share a folder for their metrics."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.runtime.metrics_folder import metrics_folder

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def test_a_folder_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is there for as long as it is needed, whatever happens meanwhile."""
    monkeypatch.delenv(VARIABLE, raising=False)
    folders = []

    def fail_inside() -> None:
        with metrics_folder():
            folders.append(Path(os.environ[VARIABLE]))
            assert folders[0].is_dir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert VARIABLE not in os.environ
    assert not folders[0].exists()


def test_a_folder_that_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder that the environment names is kept."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with metrics_folder():
        assert os.environ[VARIABLE] == str(tmp_path)
    assert tmp_path.is_dir()
    assert os.environ[VARIABLE] == str(tmp_path)


def test_what_a_killed_process_left_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder whose process is gone goes too; one in use stays, and so does what is not ours."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "plumbline-metrics-left"
    left.mkdir()
    (left / "counter_1.db").write_bytes(b"1")
    (tmp_path / "others").mkdir()
    with metrics_folder():
        in_use = os.environ.pop(VARIABLE)
        with metrics_folder():
            found = set(tmp_path.iterdir())
            assert found == {Path(in_use), Path(os.environ[VARIABLE]), tmp_path / "others"}
        os.environ[VARIABLE] = in_use
    assert list(tmp_path.iterdir()) == [tmp_path / "others"]
