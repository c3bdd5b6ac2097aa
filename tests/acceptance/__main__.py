"""`python -m tests.acceptance`: plays everything, and what failed once more by itself.

Strategy: rows mostly wait, so some runs of pytest go side by side, each with a cluster of its own.
What measures, or takes the machine, is played after them, at last the attacks of tests/attack as a
whole, which need no cluster. Words for pytest choose a part, which is played in one run; then there
is nothing to tell on the page.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.acceptance.page import PAGE, differences, page
from tests.acceptance.results import Result, failed, load

HERE: Final = "tests/acceptance"
ALONE: Final = tuple(f"{HERE}/test_{name}.py" for name in ("latency", "evictions", "crowd"))
ATTACKS: Final = "tests/attack"
_MOST_TRIED_AGAIN: Final = 20  # if more fails, it is no accident
_NO_TESTS: Final = 5  # what pytest ends with if the others have taken all
_PASSED: Final = (0, 1, _NO_TESTS)


class Run:
    """One run of pytest, under way."""

    def __init__(self, name: str, folder: Path, words: Sequence[str]) -> None:
        self.name = name
        self._results = folder / f"{name}.json"
        command = [
            *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"),
            f"--acceptance-results={self._results}",
            *words,
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._teller = threading.Thread(target=self._tell, args=(name,))
        self._teller.start()

    def _tell(self, name: str) -> None:
        for line in self._process.stdout or ():
            sys.stdout.write(f"{name}: {line}")
            sys.stdout.flush()

    def end(self) -> tuple[dict[str, Result], bool]:
        """Wait for it; return the results, and whether it came to its end in a usual way."""
        code = self._process.wait()
        self._teller.join()
        found = load(self._results)
        return found, code in _PASSED and (code != 1 or bool(failed(found)))

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()


class Playing:
    """All runs, and what they showed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.results: dict[str, Result] = {}
        self.is_whole = True

    def play(self, *runs: tuple[str, Sequence[str]]) -> dict[str, Result]:
        """Play side by side; return the results."""
        under_way = [Run(name, self._folder, words) for name, words in runs]
        results: dict[str, Result] = {}
        try:
            for run in under_way:
                found, is_usual = run.end()
                results |= found
                if not is_usual:
                    sys.stdout.write(f"{run.name}: this run broke off\n")
                self.is_whole &= is_usual
        except KeyboardInterrupt:
            for run in under_way:
                run.terminate()
            for run in under_way:
                run.end()
            raise
        self.results |= results
        return results

    def play_everything(self, clusters: int, crowd: Sequence[str]) -> None:
        """Play all there is."""
        shares = self._folder / "shares"
        shares.mkdir()
        left_out = [f"--ignore={path}" for path in ALONE]
        words = (HERE, f"--acceptance-share={shares}", *left_out)
        self.play(*((str(number), words) for number in range(1, clusters + 1)))
        self.play(("alone", (*ALONE, *crowd)))

    def play_again(self, crowd: Sequence[str]) -> None:
        """Give what failed a second try."""
        again = failed(self.results)
        if not 0 < len(again) <= _MOST_TRIED_AGAIN:
            return
        found = self.play(("second try", (*again, *crowd)))
        for name in again:
            self.results[name] = replace(found.get(name, Result("failed")), is_second=True)


def main(words: Sequence[str]) -> int:
    """Play what is asked for."""
    reader = argparse.ArgumentParser(prog="python -m tests.acceptance", add_help=False)
    reader.add_argument("--acceptance-page", action="store_true")
    reader.add_argument("--clusters", type=int, default=2)
    reader.add_argument("--crowd-minutes", type=float)
    reader.add_argument("--crowd-vpas", type=int, default=2000)
    asked, rest = reader.parse_known_args(words)
    is_given = bool(os.environ.get("KUBECONFIG"))
    usual = 0 if rest or is_given else 5
    minutes = usual if asked.crowd_minutes is None else asked.crowd_minutes
    crowd = f"--crowd-minutes={minutes}", f"--crowd-vpas={asked.crowd_vpas}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with TemporaryDirectory() as folder:
        playing = Playing(Path(folder))
        if rest:
            chosen = rest if any(word.startswith(HERE) for word in rest) else (HERE, *rest)
            playing.play(("chosen", (*chosen, *crowd)))
        else:
            playing.play_everything(1 if is_given else asked.clusters, crowd)
        playing.play_again(crowd)
    is_unhurt = bool(rest) or _attack()
    is_well = _tell(playing.results) and playing.is_whole and is_unhurt
    if rest or is_given:
        return not is_well
    if asked.acceptance_page:
        if is_well:
            PAGE.write_text(page(playing.results), "utf-8")
        return not is_well
    return not (_compare(playing.results) and is_well)


def _tell(results: Mapping[str, Result]) -> bool:
    """Say what became of all; return whether nothing failed twice."""
    lost = failed(results)
    again = [name for name, found in results.items() if found.is_second and name not in lost]
    passed = sum(found.outcome == "passed" for found in results.values())
    lines = [f"{passed} passed, {len(again)} of them at the second try, {len(lost)} failed"]
    lines += [f"second try: {name}" for name in again] + [f"failed: {name}" for name in lost]
    sys.stdout.write("\n".join(lines) + "\n")
    return not lost


def _attack() -> bool:
    """Play the attacks with their whole counts, once more if need be; tell whether all is well."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", ATTACKS]
    environment = {**os.environ, "PLUMBLINE_ATTACK": "whole"}
    tries = (subprocess.run(command, env=environment, check=False) for _ in range(2))
    return any(each.returncode == 0 for each in tries)


def _compare(results: Mapping[str, Result]) -> bool:
    """Say whether the committed page tells of what was played."""
    found = differences(results)
    if found:
        lines = [f"{PAGE.name}: {line}" for line in found]
        lines.append("'make acceptance ARGS=--acceptance-page' writes it")
        sys.stdout.write("\n".join(lines) + "\n")
    return not found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
