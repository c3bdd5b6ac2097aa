"""What `plumbline manifests` prints: the YAML files beside this module.

Strategy: each can be applied as it is. deploy/ holds copies for kustomize and of crd.yaml for the
chart, because neither reads files outside of its own folder; a test compares them. The sandbox
enforces, and the check of an installation compares with, the same crd.yaml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from app.kube.manifests.rights import OPTIONS
from app.ports import Json

PROCESSES: Final = ("admission", "recommender", "updater")
_INSTALLED: Final = ("crd", *PROCESSES)
_ALL: Final = "all"
NAMES: Final = (*_INSTALLED, *OPTIONS, _ALL)
WEBHOOKS: Final = "webhooks"  # in no file: made by flags, from admission.yaml
PRINTED: Final = (*NAMES, WEBHOOKS)


def text(name: str) -> str:
    """Return the text of a document; `all` is what installs all three processes."""
    if name == _ALL:
        return "".join(map(text, _INSTALLED))
    return Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")


def objects(name: str) -> list[Json]:
    """Return the objects of a document."""
    return list(yaml.load_all(text(name), Loader=yaml.CSafeLoader))
