"""A terminal of glass: what one shows that is sent some text.

Strategy: tmux shows it where there is one. Else, and to be compared with it, a model of the few
sequences that are sent: they place the cursor, erase, colour. As in a real terminal without
automatic margins, the cursor stays upon the last column once that is written.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_SEQUENCE = re.compile(r"\033\[(?P<text>[0-9;?]*)(?P<end>[A-Za-z])")


def modelled(text: str, columns: int, rows: int) -> list[str]:
    """Return the rows of a terminal that was sent a text; raises if it is not understood."""
    cells = [[" "] * columns for _ in range(rows)]
    row = column = at = 0
    while at < len(text):
        found = _SEQUENCE.match(text, at)
        if found is None:
            cells[row][column] = text[at]
            column = min(column + 1, columns - 1)
            at += 1
            continue
        at = found.end()
        match found["end"], found["text"]:
            case "H", place:
                row, column = (int(number) - 1 for number in place.split(";"))
            case "J", "2":
                cells = [[" "] * columns for _ in range(rows)]
            case "K", "2":
                cells[row] = [" "] * columns
            case ("m", _) | ("h" | "l", "?7" | "?25" | "?1049"):
                pass
            case end, what:
                raise AssertionError(f"no terminal is sent {what}{end}")
    return ["".join(line).rstrip() for line in cells]


def in_tmux(folder: Path, text: str, columns: int, rows: int) -> list[str]:
    """Return the rows of a real terminal that was sent a text."""
    sent, ready = folder / "sent", folder / "ready"
    sent.write_text(text, "utf-8")
    tmux = ["tmux", "-u", "-S", str(folder / "socket"), "-f", "/dev/null"]
    shell = f"cat '{sent}'; touch '{ready}'; exec cat"
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), shell], check=True
    )
    try:
        subprocess.run(["sh", "-c", f"until test -e '{ready}'; do :; done"], timeout=30, check=True)
        shown = subprocess.run(
            [*tmux, "capture-pane", "-p"], capture_output=True, check=True, encoding="utf-8"
        ).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)
    found = [line.rstrip() for line in shown.split("\n")[:rows]]
    return found + [""] * (rows - len(found))


def panes(folder: Path, text: str, columns: int, rows: int) -> Iterator[list[str]]:
    """Yield what the model shows, and a real terminal if there is one."""
    yield modelled(text, columns, rows)
    if shutil.which("tmux") is not None:
        yield in_tmux(folder, text, columns, rows)
