"""VPAs in files are judged before they are applied, for people and for pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml

from app.cli import main
from app.commands.doctor import doctor_report
from app.commands.explain_report import explain_report
from app.commands.flags import DoctorSettings, ExplainSettings, PlanSettings, ValidateSettings
from app.commands.plan_report import plan_report
from app.commands.recommendations import recommendations_report
from app.commands.recommendations_flags import RecommendationsSettings
from app.commands.validate_report import validate_report
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.model.fields import Json
from app.output import Output, Report, shown
from tests import make
from tests.logging_state import kept
from tests.stepped_clock import SteppedClock

WEB = make.workload_json("Deployment/web")
FINE = make.vpa_json(target="Deployment/web", metadata={"labels": {"team": "a"}})
TYPO = make.vpa_json("typo", target="Deployment/wbe", mode="Sometimes")
WARNED = make.vpa_json("warned", target="Deployment/api", mode="Auto")
API = make.workload_json("Deployment/api")
TARGET = "spec.targetRef: Deployment/wbe is not among the objects of namespace default; "
MEANT = 'did you mean "Deployment/web"?'


@pytest.fixture(autouse=True)
def kept_logging() -> Iterator[None]:
    """Put logging back as it was."""
    with kept():
        yield


def written(folder: Path, *items: Json, name: str = "objects.yaml") -> str:
    """Write objects to a file, and return its path."""
    path = folder / name
    path.write_text(yaml.safe_dump_all(items))
    return str(path)


def judged(*words: str) -> Report:
    """Return what is told about files."""
    return validate_report(parse(ValidateSettings, words, {}), SteppedClock(make.NOW))


def lines(report: Report) -> list[str]:
    """Return what people see."""
    return list(shown(report, Output.TABLE))


def test_a_vpa_in_two_files(tmp_path: Path) -> None:
    """A name that two files have is told where it stands again, and where it stood first."""
    other = make.vpa_json(target="Deployment/web", namespace="shop")
    first = written(tmp_path, WEB, FINE, other, name="a.yaml")
    second = written(tmp_path, FINE, name="b.yaml")
    told = f"{second}:1: warning: vpa/web -n default: {first}:"
    (line,) = (line for line in lines(judged(first, second)) if "has it too" in line)
    assert line.startswith(told)
    assert line.endswith(" has it too; what is applied last counts")
    assert "has it too" not in str(judged(second, f"--objects={first}"))


def test_each_finding_is_a_line_with_its_place(tmp_path: Path) -> None:
    """File and line first, as compilers have it, and how many there are at the end."""
    path = written(tmp_path, WEB, FINE, TYPO)
    report = judged(path)
    first, second, last = lines(report)
    above, _, _ = Path(path).read_text().rpartition("---\n")
    place = f"{path}:{above.count(chr(10)) + 1}"
    assert first.startswith(
        f"{place}: error: vpa/typo -n default: spec.updatePolicy.updateMode: Unsupported value"
    )
    assert second == f"{place}: error: vpa/typo -n default: {TARGET}{MEANT}"
    assert last == "2 VPAs: 2 errors"
    assert report.items[1] == {
        "level": "error",
        "place": place,
        "about": "vpa/typo -n default",
        "message": TARGET + MEANT,
    }
    assert report.notes == []


@pytest.mark.parametrize(
    ("items", "words", "code", "summary"),
    [
        ([WEB, FINE], [], 0, "1 VPA: no problem found"),
        ([WEB, FINE, TYPO], [], 1, "2 VPAs: 2 errors"),
        ([API, WARNED], [], 0, "1 VPA: 1 warning"),
        ([API, WARNED], ["--strict"], 1, "1 VPA: 1 warning"),
        ([WEB, FINE, make.pod_json(cpu="x")], [], 1, "1 VPA: 1 error"),
    ],
)
def test_exit_codes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    items: list[Json],
    words: list[str],
    code: int,
    summary: str,
) -> None:
    """Errors end with 1, warnings alone only if that is asked for."""
    assert main(["validate", written(tmp_path, *items), *words]) == code
    assert capsys.readouterr().out.splitlines()[-1] == summary


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is named ends it; in a folder the rest is judged, and the exit code is 2."""
    folder = tmp_path / "m"
    folder.mkdir()
    written(folder, WEB, FINE, TYPO)
    broken = folder / "z.yaml"
    broken.write_text("{")
    assert main(["validate", str(broken)]) == 2
    assert capsys.readouterr().out == ""
    assert main(["validate", str(folder)]) == 2
    found = capsys.readouterr()
    assert found.out.splitlines()[-1] == "2 VPAs: 2 errors"
    assert found.err.startswith(f"plumbline: {broken}:1: ")
    assert main(["validate"]) == 2


def test_objects_to_compare_with(tmp_path: Path) -> None:
    """What --objects names is known, and not judged; without workloads it is said what is left."""
    vpa, cluster = (
        written(tmp_path, *items, name=name)
        for name, items in (("vpa.yaml", [FINE]), ("cluster.yaml", [WEB, WARNED]))
    )
    assert lines(judged(vpa, f"--objects={cluster}")) == ["1 VPA: no problem found"]
    (alone,) = judged(vpa).notes
    assert alone.startswith("there is no workload among the objects, so targets and container")
    (nothing,) = judged(written(tmp_path, WEB, name="web.yaml")).notes
    assert nothing == "there is no VerticalPodAutoscaler in what was named"


def test_gates(tmp_path: Path) -> None:
    """A field behind a gate is refused as the webhook would, unless the gate is on."""
    path = written(tmp_path, WEB, make.vpa_json(target="Deployment/web", mode="InPlace"))
    assert judged(path).is_bad
    assert not judged(path, "--feature-gates=InPlace=true").is_bad


def test_the_same_stands_first_elsewhere(tmp_path: Path) -> None:
    """Lists, plans and explanations begin with what is wrong with the VPAs that they show."""
    flag = f"--objects={written(tmp_path, WEB, FINE, TYPO)}"
    clock = SteppedClock(make.NOW)
    told = f"error: vpa/typo -n default: {TARGET}{MEANT}"
    for words, is_told in (([flag], True), (["web", flag], False), (["typo", flag], True)):
        plan = plan_report(parse(PlanSettings, words, {}), clock)
        listed = recommendations_report(parse(RecommendationsSettings, words, {}), clock)
        for report in (plan, listed):
            assert (told in report.problems) is is_told
    explained = explain_report(parse(ExplainSettings, ["vpa/typo", flag], {}), clock)
    assert {"level": "error", "message": TARGET + MEANT} in explained.items[0]["problems"]
    shown_lines = lines(explained)
    assert shown_lines.index("Problems") < shown_lines.index("Recommendation")
    assert f"  error: {TARGET}{MEANT}" in shown_lines
    fine = explain_report(parse(ExplainSettings, ["deploy/web", flag], {}), clock)
    assert "problems" not in fine.items[0]


def test_problems_are_printed_before_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They go to standard error, so that a pipe gets the table alone."""
    path = written(tmp_path, WEB, TYPO)
    assert main(["recommendations", f"--objects={path}", "-o", "json"]) == 0
    found = capsys.readouterr()
    assert [orjson.loads(line)["vpa"] for line in found.out.splitlines()] == ["typo"]
    assert found.err.startswith("plumbline: error: vpa/typo -n default: ")


# --- the doctor


def of_doctor(*words: str) -> list[tuple[str, str, str]]:
    """Return level, object and message of each finding."""
    report = doctor_report(parse(DoctorSettings, words, {}), SteppedClock(make.NOW))
    assert {item["check"] for item in report.items} == {"VPAs"}
    return [(item["level"], item["about"], item["message"]) for item in report.items]


def test_the_doctor_of_files(tmp_path: Path) -> None:
    """Of files it checks the VPAs, all or those with labels; nothing else can be known."""
    flag = f"--objects={written(tmp_path, WEB, FINE, TYPO)}"
    found = of_doctor(flag, "-A")
    assert ("note", "vpa/web -n default", "it has no pods") in found
    serious = [one for one in found if one[0] == "serious"]
    assert [one[1] for one in serious] == ["vpa/typo -n default"]
    assert "Sometimes" in serious[0][2]
    assert {one[1] for one in of_doctor(flag, "-l", "team=a")} == {"vpa/web -n default"}
    with pytest.raises(BadSetting, match=r"^no VPA has the labels team=b$"):
        of_doctor(flag, "-lteam=b")
    with pytest.raises(BadSetting, match=r"^--before is about a cluster"):
        of_doctor(flag, "--before")
