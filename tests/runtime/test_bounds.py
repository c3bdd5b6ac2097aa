"""What is held for clients has an end."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.runtime.bounds import Bounds, HeldBytes, PortLimit


@dataclass(eq=False)
class Connection:
    """Holds something."""

    cuts: list[PortLimit] = field(default_factory=list)

    def cut_off(self, bound: PortLimit, /) -> None:
        """Note that it has to end."""
        self.cuts.append(bound)


def test_every_bound_has_a_name() -> None:
    """Whatever a port bounds can be counted; only questions that wait are bounded elsewhere."""
    assert {*PortLimit} == {*Bounds.__slots__, PortLimit.WAITING_QUESTIONS}


def test_who_holds_longest_goes_first() -> None:
    """The one that needs room last is not the one that is cut off."""
    held = HeldBytes(PortLimit.RECEIVED_BYTES, 10)
    first, second, third = Connection(), Connection(), Connection()
    assert held.take(first, 4)
    assert held.take(second, 4)
    assert held.take(first, 5)  # still the first one
    assert held.take(third, 6)
    assert [one.cuts for one in (first, second, third)] == [[PortLimit.RECEIVED_BYTES], [], []]


def test_who_holds_longest_may_not_hold_more() -> None:
    """A connection that would have to make room for itself gets none."""
    held = HeldBytes(PortLimit.RECEIVED_BYTES, 10)
    first, second = Connection(), Connection()
    assert held.take(first, 5)
    assert held.take(second, 5)
    assert not held.take(first, 6)
    assert second.cuts == []


def test_what_is_kept_takes_room() -> None:
    """What no connection can give back counts as well, until it is released."""
    held = HeldBytes(PortLimit.RECEIVED_BYTES, 10)
    held.keep(8)
    assert not held.take(Connection(), 3)
    held.release(8)
    assert held.has_room(7)
