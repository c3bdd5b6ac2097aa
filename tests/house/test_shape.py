"""The house keeps its shape: what imports and linters cannot see.

A breach is listed by file and line. If a rule is in the way, argue in a decision record.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
APP: Final = ROOT / "app"
MODULES: Final = sorted(APP.rglob("*.py"))
PURE: Final = [
    path
    for path in MODULES
    if path.relative_to(APP).parts[0] in {"model", "sizing"} or path.parent.name == "core"
]
TESTS: Final = sorted((ROOT / "tests").rglob("*.py"))

SERVED: Final = {"api", "app"}  # FastAPI applications

LONGEST_PURPOSE: Final = 97  # characters
LONGEST_FUNCTION: Final = 48  # lines
LONGEST_MODULE: Final = 400  # lines

DOORS: Final = {"breakpoint", "eval", "exec", "input", "open", "print"}
CLOCKS: Final = {"fromtimestamp", "now", "today", "utcnow"}

# Tested through what uses them: tests/contract, tests/flows.
UNTESTED: Final = {Path("run/demo"), Path("sandbox/controllers"), Path("sandbox/kubelet")}


@lru_cache
def tree(path: Path) -> ast.Module:
    """Return a module's syntax tree."""
    return ast.parse(path.read_text("utf-8"), str(path))


def shown(path: Path, line: int = 0) -> str:
    """Return a place for people."""
    name = str(path.relative_to(ROOT))
    return f"{name}:{line}" if line else name


def nothing(offenders: Iterator[str]) -> None:
    """Fail with the list of offenders, if there are any."""
    found = "\n".join(offenders)
    assert not found, f"\n{found}"


def test_modules_say_what_they_are_for() -> None:
    """Every module begins with a line that tells its purpose."""

    def offenders() -> Iterator[str]:
        for path in MODULES:
            purpose = (ast.get_docstring(tree(path)) or "").partition("\n")[0]
            if not 0 < len(purpose) <= LONGEST_PURPOSE or purpose[-1] not in ".:!?":
                yield f"{shown(path)} has no purpose line of at most {LONGEST_PURPOSE} characters"

    nothing(offenders())


def test_modules_are_short() -> None:
    """A module is read in one sitting."""
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in MODULES}
    nothing(
        f"{shown(path)} has {lines} lines, {LONGEST_MODULE} are allowed"
        for path, lines in lengths.items()
        if lines > LONGEST_MODULE
    )


def test_functions_are_short() -> None:
    """A function fits a screen."""
    nothing(
        f"{shown(path, node.lineno)} {node.name} has {lines} lines, {LONGEST_FUNCTION} are allowed"
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    )


def test_one_colour() -> None:
    """Only what serves HTTP is asynchronous; what runs side by side elsewhere runs in threads."""
    nothing(
        f"{shown(path, node.lineno)} async def {node.name}"
        for path in MODULES
        if path.relative_to(APP).parts[0] != "runtime" and path.stem not in SERVED
        for node in ast.walk(tree(path))
        if isinstance(node, ast.AsyncFunctionDef)
    )


def test_decisions_are_pure() -> None:
    """What decides opens nothing, prints nothing, asks no clock and shares no variable."""

    def offence(node: ast.AST) -> str:
        match node:
            case ast.Global() | ast.Nonlocal():
                return f"shares {', '.join(node.names)}"
            case ast.Call(func=ast.Name(id=name)) if name in DOORS:
                return f"calls {name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=whose), attr=name)) if (
                whose in {"date", "datetime"} and name in CLOCKS
            ):
                return f"calls {whose}.{name}"
        return ""

    nothing(
        f"{shown(path, getattr(node, 'lineno', 0))} {found}"
        for path in PURE
        for node in ast.walk(tree(path))
        if (found := offence(node))
    )


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and top-level name of what a module imports."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
            case ast.ImportFrom(module=str(name)):
                yield node.lineno, name.partition(".")[0]


def canonical(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    """Return the packages that the project asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {canonical(re.split(r"[^\w.-]", text)[0]) for text in project["dependencies"]}


def test_what_is_imported_is_declared() -> None:
    """A package that is imported is asked for, not just brought along by another one."""
    packages, asked = packages_distributions(), declared()
    nothing(
        f"{shown(path, line)} imports {name}, which pyproject.toml does not ask for"
        for path in MODULES
        for line, name in imported(path)
        if name != "app" and name not in sys.stdlib_module_names
        if asked.isdisjoint(map(canonical, packages.get(name, ())))
    )


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_what_is_declared_is_locked(lock: str) -> None:
    """Lock files name every package that is asked for."""
    lines = (ROOT / lock).read_text("utf-8").splitlines()
    locked = {canonical(line.partition("==")[0]) for line in lines if "==" in line}
    nothing(f"{lock} does not name {name}" for name in sorted(declared() - locked))


def test_tests_follow_rooms() -> None:
    """What lies in a folder of `app` is tested in the folder of `tests` of the same name."""
    rooms = {path.parent.relative_to(APP) for path in MODULES if path.stem != "__init__"}
    tested = {path.parent.relative_to(ROOT / "tests") for path in TESTS if path.stem[:5] == "test_"}
    nothing(f"tests/{room} has no tests" for room in sorted(rooms - tested - UNTESTED))


def test_tests_do_not_sleep() -> None:
    """A test steps its clock; it neither waits for the world's nor fakes what it tests."""
    nothing(
        f"{shown(path, node.lineno)} calls {ast.unparse(node.func)}"
        for path in TESTS
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"sleep", "time.sleep"}
    )
