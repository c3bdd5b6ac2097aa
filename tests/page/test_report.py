"""A report is one file that needs nothing else, and holds what the pages show."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from app.flags.command_line import parse
from app.model.errors import BadSetting, Unavailable
from app.page.flags import ReportSettings
from app.page.report import report_html, write_report
from app.page.site import Site
from tests import make
from tests.commands.test_page_past import of_days
from tests.page.shown import pictures, shop
from tests.stepped_clock import SteppedClock

BARE = make.workload_json("Deployment/<script>alert(1)")


def report() -> str:
    """Return the report of a workload under a VPA, and of one without."""
    return report_html(Site(pictures(*shop(), BARE))).decode()


def test_links_lead_to_what_the_file_holds() -> None:
    """What is elsewhere is text, and no two parts have the same name."""
    found = report()
    names = re.findall(r'\bid="([^"]+)"', found)
    targets = re.findall(r'href="([^"]*)"', found)
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert targets
    assert {target.removeprefix("#") for target in targets} <= set(names)
    for kind in ("data-copy", "aria-labelledby"):
        told = " ".join(re.findall(rf'{kind}="([^"]+)"', found)).split()
        assert set(told) <= set(names)


def test_nothing_but_its_own_style_and_script_is_allowed() -> None:
    """Both stand in the file, and are named by their digests."""
    found = report()
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', found)[0]
    assert policy.startswith("default-src &#39;none&#39;")
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", found, re.DOTALL)
        assert b64encode(sha256(text.encode()).digest()).decode() in policy
    assert " src=" not in found
    assert "<link" not in found


def test_pods_of_which_the_same_is_decided_are_one_line() -> None:
    """There may be hundreds of them, and of hundreds of workloads."""
    found = report_html(Site(pictures(*shop(count=9)))).decode()
    assert re.findall(r"<span >(web-\d.*?)</span>", found) == ["web-0", "web-1 and 7 more"]


def test_names_are_text() -> None:
    """Whatever objects are called."""
    found = report()
    assert "<script>alert" not in found
    assert "&lt;script&gt;alert(1)" in found


def test_a_file_is_written(tmp_path: Path) -> None:
    """A sentence says where, how large it is, and of when."""
    objects, path = tmp_path / "cluster.json", tmp_path / "report.html"
    objects.write_bytes(orjson.dumps(make.snapshot_json(*shop())))
    words = [f"--objects={objects}", f"--output={path}", "--at=2026-01-05T10:00:00Z"]
    told = write_report(parse(ReportSettings, words, {}), SteppedClock())
    assert told.startswith(f"{path}: ")
    why = "2 of 2 charts have no usage: give --events to see usage over time"
    assert told.endswith(f"as of 2026-01-05T10:00:00Z; {why}")
    assert "default" in path.read_text()


def test_files_with_an_address_of_usage(tmp_path: Path) -> None:
    """A flag that would do nothing is refused."""
    words = [f"--objects={tmp_path}", "--prometheus-address=http://127.0.0.1:1"]
    with pytest.raises(BadSetting, match="usage that --events names"):
        write_report(parse(ReportSettings, words, {}), SteppedClock())


def test_a_recording_stands_in_the_file(tmp_path: Path) -> None:
    """Each workload has what other settings would have requested, as on its page."""
    objects, path = tmp_path / "cluster.json", tmp_path / "report.html"
    objects.write_bytes(orjson.dumps(make.snapshot_json(*shop())))
    words = [f"--objects={objects}", f"--output={path}", "--at=2026-01-05T10:00:00Z"]
    past = of_days(3, tmp_path)
    write_report(parse(ReportSettings, words, {}), SteppedClock(), past)
    found = path.read_text()

    assert found.count("With other settings") == 1
    assert "upstream&#39;s default" in found
    assert "web.npz: 3.0 days" in found
    assert len(found) < 300_000


def test_a_cluster_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """After some time the command ends with what is missing."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": ""}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    path = tmp_path / "config"
    path.write_bytes(orjson.dumps(config))
    settings = parse(ReportSettings, [f"--kubeconfig={path}", f"--output={tmp_path / 'r'}"], {})
    with pytest.raises(Unavailable, match="not read"):
        write_report(settings, SteppedClock())
    assert not (tmp_path / "r").exists()
