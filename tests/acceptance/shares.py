"""Lets several runs, each with a cluster of its own, divide the modules among them.

Strategy: whoever comes first to a module takes it whole, by making a file of its name in a folder
that all share. So rows of a module still stand on one cluster, and nobody waits long for others.
"""

from __future__ import annotations

from pathlib import Path


class Share:
    """What this run takes of the modules; without a folder, all."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder) if folder else None
        self._known: dict[str, bool] = {}

    def takes(self, module: str) -> bool:
        """Say whether a module is played in this run."""
        if module not in self._known:
            self._known[module] = self._is_first(module)
        return self._known[module]

    def _is_first(self, module: str) -> bool:
        if self._folder is None:
            return True
        try:
            (self._folder / module).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
