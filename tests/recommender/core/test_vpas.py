"""The table of VPAs."""

from __future__ import annotations

from app.recommender.core.tables import VpaTable


def test_modes() -> None:
    """Modes are remembered as numbers, each once; a new line has none."""
    table = VpaTable()
    lines = [table.take() for _ in range(3)]
    for line, mode in zip(lines, ("Auto", "Off", "Auto"), strict=True):
        table.set_mode(line, mode)

    assert [table.modes[table.mode[line]] for line in [*lines, table.take()]] == [
        "Auto",
        "Off",
        "Auto",
        "",
    ]
    assert table.modes == ["", "Auto", "Off"]
