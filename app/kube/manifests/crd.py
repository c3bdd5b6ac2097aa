"""The two CustomResourceDefinitions: the file crd.yaml beside this module.

Strategy: what a cluster is taught, what the sandbox enforces and what the check of an installation
compares with is this one file. deploy/ holds a copy for kustomize and one for the chart, because
neither reads files outside of its own folder; a test compares them.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from app.ports import Json


def text() -> str:
    """Return the file."""
    return Path(__file__).with_name("crd.yaml").read_text(encoding="utf-8")


def documents() -> tuple[Json, Json]:
    """Return the definitions of VerticalPodAutoscaler and VerticalPodAutoscalerCheckpoint."""
    vpa, checkpoint = yaml.load_all(text(), Loader=yaml.CSafeLoader)
    return vpa, checkpoint
