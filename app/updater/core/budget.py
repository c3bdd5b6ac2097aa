"""How many pods of one owner may be down because of us.

Strategy: what tolerance allows to be down, less what is down already; an owner too small for any
tolerance may lose one pod, and only while it is whole. A ready pod is judged by how many are
ready, a broken one by how many run at all, so that an owner whose pods are all broken can still
be repaired, a few pods at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Budget:
    """The pods of one owner, as far as they count, and what we took away from them."""

    configured: int
    tolerance: float
    running: int
    alive: int  # of those running: not known to be unready
    taken_running: int = 0
    taken_alive: int = 0

    @property
    def tolerated(self) -> int:
        """How many pods may be down."""
        return int(self.configured * self.tolerance)

    def has_place(self, *, broken: bool = False) -> bool:
        """Whether one more pod may go down."""
        up, taken = (self.running, self.taken_running) if broken else (self.alive, self.taken_alive)
        if up - taken > self.configured - self.tolerated:
            return True
        is_untouched = self.taken_running == 0 and up == self.configured
        return self.tolerated == 0 and is_untouched

    def less_one(self, *, broken: bool = False) -> Budget:
        """Return the budget after one more pod went down."""
        return replace(
            self,
            taken_running=self.taken_running + 1,
            taken_alive=self.taken_alive + (not broken),
        )

    def plus_one(self, *, broken: bool = False) -> Budget:
        """Return the budget after one more pod turned out not to go down."""
        return replace(
            self,
            taken_running=self.taken_running - 1,
            taken_alive=self.taken_alive - (not broken),
        )
