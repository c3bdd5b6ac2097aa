"""The VPAs beside one that is written: watched, and made sure of where that is needed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from app.admission.siblings import KnownSiblings, SharedLists
from app.model.errors import Unavailable
from app.model.vpa import Vpa
from tests import make
from tests.cases import cases
from tests.waiting import eventually

NEW = make.vpa("new")
OTHERS = tuple(make.vpa(f"v{i}", target=f"Job/{i}") for i in range(200))
RIVALS = tuple(make.vpa(f"r{i}") for i in range(5))


@dataclass
class Server:
    """An API server, and what it was asked for."""

    vpas: tuple[Vpa, ...] = ()
    tells: bool = True
    asked: list[str] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)

    def of(self, namespace: str) -> tuple[Vpa, ...] | None:
        """Return what is stored now, when it may."""
        vpas = self.vpas
        self.asked.append(namespace)
        assert self.may_answer.wait(30)
        return vpas if self.tells else None

    def named(self, _namespace: str, name: str) -> Vpa | None:
        """Return one VPA."""
        self.asked.append(name)
        if not self.tells:
            raise Unavailable("not now")
        return next((vpa for vpa in self.vpas if vpa.name == name), None)


@cases(
    "watched server asked found",
    {
        "few": ((make.vpa("old"),), Server(RIVALS), ["default"], RIVALS),
        "few, unknown": (RIVALS, Server(tells=False), ["default"], RIVALS),
        "not read": (None, Server(RIVALS), ["default"], RIVALS),
        "nothing known": (None, Server(tells=False), ["default"], None),
        "many": (OTHERS, Server(RIVALS), [], OTHERS),
        "a rival": ((*OTHERS, *RIVALS[:2]), Server(RIVALS), ["r0"], (*OTHERS, *RIVALS[:2])),
        "one has gone": (
            (*OTHERS, *RIVALS[:2]),
            Server(RIVALS[1:]),
            ["r0", "r1"],
            (*OTHERS, RIVALS[1]),
        ),
        "one was changed": (
            (*OTHERS, RIVALS[0]),
            Server((make.vpa("r0", target="Job/x"),)),
            ["r0"],
            (*OTHERS, make.vpa("r0", target="Job/x")),
        ),
        "unknown": ((*OTHERS, RIVALS[0]), Server(tells=False), ["r0"], (*OTHERS, RIVALS[0])),
        "many, unknown": ((*OTHERS, *RIVALS), Server(tells=False), ["r0"], (*OTHERS, *RIVALS)),
        "many have gone": (
            (*OTHERS, *RIVALS),
            Server(OTHERS),
            ["r0", "r1", "r2", "default"],
            OTHERS,
        ),
    },
)
def test_what_is_read(
    watched: tuple[Vpa, ...] | None,
    server: Server,
    asked: list[str],
    found: tuple[Vpa, ...] | None,
) -> None:
    """Few VPAs are listed; of many only those that seem to overlap are read."""
    server.may_answer.set()
    assert KnownSiblings(server, lambda: 0.0).beside(NEW, watched, 60.0) == found
    assert server.asked == asked


def test_policies_make_many() -> None:
    """A few large VPAs are not listed either."""
    large = make.vpa("large", policies=[make.policy_json(f"c{i}") for i in range(1_001)])
    server = Server((large,))
    assert KnownSiblings(server, lambda: 0.0).beside(NEW, (large,), 60.0) == (large,)
    assert server.asked == ["large"]


def test_without_time_nothing_is_read() -> None:
    """What was watched is believed when the time is over."""
    server = Server()
    watched = (*OTHERS, *RIVALS)
    assert KnownSiblings(server, lambda: 60.0).beside(NEW, watched, 60.0) == watched
    assert not server.asked


def test_a_list_tells_what_was_stored_when_it_was_asked_for() -> None:
    """Who comes while a list is under way gets the next one, which may hold more."""
    server = Server()
    lists = SharedLists(server)
    assert lists.of("default", 0.0) is None
    assert eventually(lambda: server.asked == ["default"])
    server.vpas = RIVALS
    assert lists.of("default", 0.0) is None
    server.may_answer.set()
    assert lists.of("default", 30.0) == RIVALS


def test_lists_are_shared() -> None:
    """All who come while a namespace is listed share the next list."""
    server = Server(RIVALS)
    lists = SharedLists(server)
    assert lists.of("default", 0.0) is None
    assert eventually(lambda: server.asked == ["default"])
    assert [lists.of("default", 0.0) for _ in range(10)] == [None] * 10
    server.may_answer.set()
    assert eventually(lambda: server.asked == ["default"] * 2)
    assert lists.of("default", 30.0) == RIVALS
    assert len(server.asked) <= 3
