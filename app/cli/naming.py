"""How the program was called: by its name, or as a plugin of kubectl."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

PLUGIN: Final = "kubectl-plumbline"  # kubectl finds plugins by such names


def program_name() -> str:
    """Return what people type to start this program."""
    called = Path(sys.argv[0]).name.removesuffix(".exe")
    return "kubectl plumbline" if called == PLUGIN else "plumbline"
