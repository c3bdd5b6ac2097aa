"""Pods that several VPAs with selectors claim, and which of those VPAs comes second.

Strategy: overlaps are refused at admission; what slips through is fed to all and told of here.
"""

from __future__ import annotations

from collections import Counter

from app.recommender.core.roster import Roster


class Overlaps:
    """Which VPA comes first for pods that others select too."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._stronger: dict[int, str] = {}
        self.pods: Counter[str] = Counter()  # by namespace, claimed more than once

    def look(self) -> None:
        """Look again; VPAs for which the answer changed become dirty."""
        roster = self._roster
        if not (roster.shared or self._stronger):
            return
        found: dict[int, str] = {}
        self.pods = Counter(namespace for namespace, _ in roster.shared)
        for key in sorted(roster.shared):
            lines = roster.selecting(roster.pods[key])
            first, *others = sorted(lines, key=lambda line: roster.by_line[line].vpa.strength)
            for line in others:
                found.setdefault(line, roster.by_line[first].vpa.name)
        for line in (found.keys() | self._stronger.keys()) & roster.by_line.keys():
            if found.get(line) != self._stronger.get(line):
                roster.table.is_dirty[line] = True
        self._stronger = found

    def stronger(self, line: int) -> str:
        """Return the name of the VPA that comes before this one, empty if none does."""
        return self._stronger.get(line, "")
