"""The logs of all programs under test; what a test added is shown when it fails."""

from __future__ import annotations

import re
from pathlib import Path

_MOST_CHARACTERS = 12_000
# Of Kubernetes' own programs, which say much that is of no interest.
_NOISE = re.compile(r"(?:I[0-9]{4} .*|.*(?:addrConn.createTransport|Skipping API) .*)\n")


class Logs:
    """Files by the name of their program."""

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}
        self._seen: dict[Path, int] = {}

    def add(self, name: str, path: Path) -> None:
        """Follow a log."""
        self._paths[name] = path

    def mark(self) -> None:
        """A test begins."""
        self._seen = {path: path.stat().st_size for path in self._paths.values() if path.exists()}

    def since(self) -> list[tuple[str, str]]:
        """Return what each program wrote since the test began, the last of it if it is much."""
        found = []
        for name, path in self._paths.items():
            if path.exists():
                with path.open("rb") as log:
                    log.seek(self._seen.get(path, 0))
                    text = log.read().decode("utf-8", "replace")
                found.append((f"log of {name}", _NOISE.sub("", text)[-_MOST_CHARACTERS:]))
        return [(title, text) for title, text in found if text]

    def naming(self, text: str, lines: int) -> str:
        """Return the last lines of each log that hold a text."""
        found = []
        for name, path in self._paths.items():
            if path.exists():
                said = [
                    line
                    for line in path.read_text("utf-8", "replace").splitlines()
                    if text in line and not _NOISE.match(f"{line}\n")
                ]
                found += [f"{name}: {line[:500]}" for line in said[-lines:]]
        return "\n".join(found)
