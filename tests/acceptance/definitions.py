"""Installs CustomResourceDefinitions and waits until they are served."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import yaml

from app.model.fields import Json
from app.ports import CUSTOM_RESOURCE_DEFINITIONS
from tests.cluster.api import Answer, Api
from tests.cluster.programs import eventually

FILE = Path(__file__).parents[2] / "deploy" / "crd.yaml"


def ours() -> list[Json]:
    """Return the definitions that are shipped."""
    return list(yaml.safe_load_all(FILE.read_text("utf-8")))


def install(admin: Api, definitions: Sequence[Json]) -> list[Answer]:
    """Apply definitions; return what the API server said to each."""
    answers = [admin.apply(definition) for definition in definitions]
    for definition in definitions:
        name = definition["metadata"]["name"]
        eventually(partial(_is_served, admin, name), f"{name} is served")
    return answers


def _is_served(admin: Api, name: str) -> bool:
    status = admin.get(CUSTOM_RESOURCE_DEFINITIONS, "", name).get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return conditions.get("Established") == "True" and conditions.get("NamesAccepted") == "True"
