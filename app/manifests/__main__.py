"""Write the generated files: `python -m app.manifests` at the top of the repository."""

from __future__ import annotations

from pathlib import Path

from app.manifests.install import files

for path, text in files().items():
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
