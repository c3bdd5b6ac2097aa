"""The documentation tells of the program as it is."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from app.admission.core.mutate import PodReason
from app.admission.core.validate import VpaReason
from app.admission.metrics import ReviewLimit
from app.cli.pages import PURPOSES
from app.cli.verbs import VERBS
from app.flags.command_line import schema
from app.ports import LookupLimit
from app.recommender.core.rules import RecommenderLimit
from app.runtime.bounds import PortLimit
from app.sizing.matching import MatchReason
from app.updater.core.decisions import Reason
from app.updater.metrics import UpdaterLimit
from tests.acceptance.page import differences
from tests.acceptance.results import Result
from tests.acceptance.table import BESIDE, WHAT

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [
    path
    for where in ("*.md", "docs/**/*.md", "bench/*.md", "certs/*.md")
    for path in sorted(ROOT.glob(where))
]
RECORDS: Final = sorted(ROOT.glob("docs/decisions/*.md"))
WEBHOOK: Final = ROOT / "docs/webhook.md"
UPDATING: Final = ROOT / "docs/updating.md"
SECURITY: Final = ROOT / "docs/security.md"
RESULTS: Final = ROOT / "bench/RESULTS.md"
GLOSSARY: Final = ROOT / "docs/glossary.md"
LONGEST_RECORD: Final = 40  # lines
LONGEST_GLOSSARY: Final = 60  # lines

LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
FORMER: Final = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
TARGET: Final = re.compile(r"^([a-z-]+):.*##", re.MULTILINE)
FLAG: Final = re.compile(r"(?<=\s)--?[a-z][a-z-]*")

POD_REASONS: Final = {
    *MatchReason,
    *PodReason,
    "NotAPod",
    "UnreadableReview",
}


@lru_cache
def text(page: Path) -> str:
    """Return a page."""
    return page.read_text("utf-8")


def named(page: Path) -> str:
    """Return a page's name for people."""
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Return the anchors that a forge gives to the headings of a page, and former ones."""
    shown = BLOCK.sub("", text(page))
    titles = HEADING.findall(shown)
    named = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return named | set(FORMER.findall(shown))


def broken_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere in this repository."""
    for link in LINK.findall(BLOCK.sub("", text(page))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_resolve(page: Path) -> None:
    """Every relative link leads to a file, and to a heading if it names one."""
    assert list(broken_links(page)) == []


def linked(page: Path) -> Iterator[Path]:
    """Yield the pages that a page links to."""
    for link in LINK.findall(text(page)):
        found = (page.parent / link.partition("#")[0]).resolve()
        if found in PAGES:
            yield found


def test_pages_can_be_reached() -> None:
    """A reader who follows links from the README comes to every page of docs."""
    reached, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached:
            reached.add(page)
            ahead += linked(page)
    docs = {page for page in PAGES if page.parent == ROOT / "docs"}
    assert sorted(map(named, docs - reached)) == []


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the blocks of a page in some languages."""
    return [body for language, body in BLOCK.findall(text(page)) if language in languages]


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the commands of ours that a page shows, as words."""
    shown = "\n".join(blocks(page, "console", "sh")).replace("\\\n", " ")
    for line in shown.splitlines():
        words = re.split(r"[#|]", line.removeprefix("$ "))[0].split()
        if words and words[0] in ("plumbline", "make"):
            yield words


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_exist(page: Path) -> None:
    """Every command that is shown is a verb with such flags, or a target of the Makefile."""
    targets = set(TARGET.findall(text(ROOT / "Makefile")))
    for program, *words in commands(page):
        if program == "make":
            assert {word for word in words if "=" not in word and word.isalpha()} <= targets
            continue
        verb = words[0]
        assert verb in {*VERBS, "--help", "--version"}
        if verb in PURPOSES:
            flags = schema(PURPOSES[verb][0]).flags
            known = {way for flag in flags for way in flag.spellings} | {"--help"}
            assert set(FLAG.findall(" ".join(words))) <= known


LOGGED: Final = re.compile(
    r"""log\.(?:info|warning|error|exception)\(\s*((?:"[^"]+"|[^,)])+)""", re.MULTILINE
)


def test_log_lines_of_the_updater_are_documented() -> None:
    """Every message above debug is in the table, word for word, and nothing else is."""
    _, _, after = text(UPDATING).partition("\n## Logs\n")
    rows = [line for line in after.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    told = {word for row in rows for word in re.findall(r"`([^`]+)`", row.split(" | ")[0])}
    sources = "\n".join(path.read_text("utf-8") for path in ROOT.glob("app/updater/*.py"))
    logged = {word for call in LOGGED.findall(sources) for word in re.findall(r'"([^"]+)"', call)}
    assert told - {"message", "limit reached"} == logged


SHOWN: Final = [
    block
    for page in (UPDATING, ROOT / "docs/backtest.md")
    for block in blocks(page, "console")
    if block.startswith("$ plumbline")
]


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: block.split()[2])
def test_pages_show_what_commands_print(block: str) -> None:
    """Word for word, for the objects of the examples."""
    command, _, printed = block.partition("\n")
    _, *words = command.removeprefix("$ ").split()
    done = subprocess.run(
        [sys.executable, "-m", "app", *words], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode() == printed


def test_figures_are_quoted_as_they_stand() -> None:
    """What the README says of benchmarks are lines of what was measured."""
    _, _, after = text(ROOT / "README.md").partition("\n## Compared with upstream\n")
    quoted = [line for line in after.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    assert quoted
    assert set(quoted) <= set(text(RESULTS).splitlines())


@pytest.mark.parametrize("reason", sorted({*POD_REASONS, *VpaReason}))
def test_reasons_are_explained(reason: str) -> None:
    """Every reason that leaves the process has a row on the operators' page."""
    assert re.search(rf"^\| (`\w+`, )?`{reason}`", text(WEBHOOK), re.MULTILINE)


@pytest.mark.parametrize("reason", sorted(Reason))
def test_reasons_of_the_updater_are_explained(reason: str) -> None:
    """Every reason of a decision has a row, with what to do."""
    assert re.search(rf"^\| `{reason}` \| [^|]+ \| [^|]+ \|$", text(UPDATING), re.MULTILINE)


@pytest.mark.parametrize("limit", [*LookupLimit, *ReviewLimit, *RecommenderLimit, *UpdaterLimit])
def test_limits_are_explained(limit: str) -> None:
    """Every limit that can be reached has a row that says how much there may be."""
    assert re.search(rf"^\| [^|]+ \| [^|]*\d[^|]* \| `{limit}` \|$", text(SECURITY), re.MULTILINE)


@pytest.mark.parametrize("bound", PortLimit)
def test_bounds_of_ports_are_explained(bound: str) -> None:
    """Those of ports have one too, beside the others or on the webhook's page."""
    assert re.search(rf"^\|.*`{bound}`", text(WEBHOOK) + text(SECURITY), re.MULTILINE)


def test_versions_agree() -> None:
    """Package and image carry the newest version of the changelog that has a number."""
    version = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]["version"]
    newest = re.search(r"^## \[(\d.+?)\]", text(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version
    assert f"ARG VERSION={version}\n" in text(ROOT / "Dockerfile")


def test_the_table_of_acceptance_is_what_a_run_compares() -> None:
    """A run in which all rows pass finds each of them, by its test's id, on the page."""
    rows = [f"test_rows.py::test_row[{row}]" for row in WHAT]
    beside = [test.replace("::", ".py::") for test in BESIDE]
    results = {f"tests/acceptance/{name}": Result() for name in (*rows, *beside)}
    assert differences(results) == []


def test_records_are_short_and_numbered() -> None:
    """Decision records count up from one, and one reads them in a minute."""
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))
    assert [named(path) for path in RECORDS if text(path).count("\n") > LONGEST_RECORD] == []


def test_the_glossary_is_short_and_sorted() -> None:
    """The words of our own fit a screen or two, and a reader finds one without searching."""
    words = re.findall(r"^\| (?!Word )([^-][^|]*) \|", text(GLOSSARY), re.MULTILINE)
    assert words
    assert words == sorted(words, key=str.casefold)
    assert text(GLOSSARY).count("\n") <= LONGEST_GLOSSARY


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    """What the program answers to the two reviews of the README."""
    demo = ROOT / "app/run/demo"
    command = [sys.executable, "-m", "app", "admit", "--v=0", "--explain", "--objects"]
    done = subprocess.run(
        [*command, *(str(demo / name) for name in ("objects.yaml", "pod.json", "vpa.json"))],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def test_the_updaters_page_shows_a_plan() -> None:
    """The plan of the operators' page is the one that a reader gets."""
    shown = next(block for block in blocks(UPDATING, "console") if "plumbline plan" in block)
    command, plan = shown.split("\n", 1)
    words = command.removeprefix("$ plumbline ").split()
    done = subprocess.run(
        [sys.executable, "-m", "app", *words], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout == plan


def test_readme_shows_the_explanation(answers: list[dict[str, Any]]) -> None:
    """The explanation of the README is the one that a reader gets."""
    shown = next(block for block in blocks(ROOT / "README.md", "console") if "--explain" in block)
    told = answers[0]["explanation"]["containers"][0]["memory"]
    assert orjson.loads(shown[shown.index("\n{") :]) == told
