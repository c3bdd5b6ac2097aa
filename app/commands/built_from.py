"""Which commit this program was built from, as far as that is known."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import orjson

VARIABLE: Final = "PLUMBLINE_COMMIT"  # which the image sets
_SHOWN: Final = 12
_SECONDS: Final = 5.0


def commit() -> str:
    """Return it shortened: of the image, of what pip installed, or of the folder we run from."""
    return (os.environ.get(VARIABLE, "") or _installed() or _checked_out())[:_SHOWN]


def _installed() -> str:
    with suppress(PackageNotFoundError, orjson.JSONDecodeError):
        text = distribution("plumbline").read_text("direct_url.json")
        found = orjson.loads(text or "{}")
        return str((found.get("vcs_info") or {}).get("commit_id") or "")
    return ""


def _checked_out() -> str:
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"],
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        return done.stdout.decode("ascii", "replace").strip()
    return ""
