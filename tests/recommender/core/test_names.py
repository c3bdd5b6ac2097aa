"""Names of checkpoints never clash and never change."""

from __future__ import annotations

from app.recommender.core.checkpoints import CheckpointNames


def test_plain_name() -> None:
    """W94: the VPA's name and the container's."""
    assert CheckpointNames().of("default", ("web", "app")) == "web-app"


def test_collision() -> None:
    """W94: the second of two containers with one plain name gets a hash, in its namespace only."""
    names = CheckpointNames()

    found = [
        names.of("default", ("web-app", "x")),
        names.of("default", ("web", "app-x")),
        names.of("other", ("web", "app-x")),
        names.of("default", ("web", "app-x")),
    ]

    assert found[0] == found[2] == "web-app-x"
    assert found[1] == found[3] != "web-app-x"
    assert found[1].startswith("web-app-x-")


def test_long_names() -> None:
    """Names beyond what an API server takes are cut and told apart by a hash."""
    names = CheckpointNames()

    one = names.of("default", ("a" * 241 + "-b", "c" * 63))
    other = names.of("default", ("a" * 241 + "-b", "d" * 63))

    assert (len(one), len(other)) == (252, 252)
    assert one != other


def test_taken_names() -> None:
    """An object that exists keeps its name, whatever came first this time."""
    names = CheckpointNames()
    names.take("default", "web-app-x", ("web", "app-x"))
    names.take("default", "web-app-x-old", ("web", "app-x"))
    names.take("default", "web-app-x", ("web-app", "x"))

    assert names.of("default", ("web", "app-x")) == "web-app-x"
    assert names.of("default", ("web-app", "x")) != "web-app-x"


def test_release() -> None:
    """A released name is free for others."""
    names = CheckpointNames()
    names.of("default", ("web", "app-x"))

    assert names.release("default", ("web", "app-x")) == "web-app-x"
    assert names.release("default", ("web", "app-x")) is None
    assert names.of("default", ("web-app", "x")) == "web-app-x"
